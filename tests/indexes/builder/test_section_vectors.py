from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from indexes.live.index import LiveIndex
from indexes.live.version import count
from indexes.store.index import Index
from tests.fakes.builds import KILLED, Fuse, build
from tests.fakes.knowledge_base import write_kb
from tests.fakes.live import BASE, World, article
from tests.fakes.models import FakeSections
from tests.fakes.plans import build_index
from tests.paths import contents


class FusedSections(FakeSections):
    """Fails at the n-th batch, and at those that are encoded ahead of it."""

    fuse = Fuse(-1)

    def encode_passages(self, passages: Sequence[str]) -> list[NDArray[np.int8]]:
        if self.fuse.calls == 0:
            raise RuntimeError(KILLED)
        self.fuse.burn()
        return super().encode_passages(passages)


def test_an_index_has_the_vectors_of_all_sections(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    index = build(kb, images, tmp_path / "index", sections=FakeSections())
    assert index.manifest.inputs.columns["sections"] == "fake-sections-1"
    windows = 0
    for row in range(len(index)):
        sections, vectors = index.entity(row).sections, index.section_vectors(row)
        assert vectors is not None and len(vectors) == len(sections)
        for section, own in zip(sections, vectors, strict=True):
            [expected] = FakeSections().encode_passages([section.text])
            assert own.dtype == np.int8 and np.array_equal(own, expected)
            windows += len(own)
    assert index.section_vectors(index.row_of("https://e.example/wiki/Empty") or 0) == []
    assert index.manifest.counts.columns["sections"] == windows == 8
    assert {"section_vectors.npy", "section_windows.npy"} <= index.manifest.files.keys()
    assert np.load(index.folder / "section_vectors.npy").shape == (windows, 16)
    Index.open(index.folder, columns={"sections": FakeSections()}, verify=True)


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_resumed_build_equals_an_uninterrupted_one(calls: int, tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    build(kb, images, tmp_path / "whole", sections=FakeSections())
    sections = FusedSections()
    sections.fuse = Fuse(calls)
    with pytest.raises(RuntimeError, match=KILLED):
        build(kb, images, tmp_path / "resumed", sections=sections)
    sections.fuse = Fuse(-1)
    before = sections.encoded
    build(kb, images, tmp_path / "resumed", sections=sections)
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")
    # Eight sections in batches of two entities; at most the last batch is encoded again.
    assert sections.encoded - before <= 8 - before + 3


def test_an_index_without_vectors(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    index = build(kb, images, tmp_path / "index")
    assert index.manifest.inputs.columns == {} == index.manifest.counts.columns
    assert not (index.folder / "section_vectors.npy").exists()
    as_version_3(index.folder, sections=None)
    opened = Index.open(index.folder, columns={"sections": FakeSections()})
    assert opened.section_vectors(0) is None
    with pytest.raises(
        ValueError, match=r"inputs \(model of column sections was not given and is now .fake-sections-1.\).*--over"
    ):
        build(kb, images, tmp_path / "index", sections=FakeSections())
    built = build(kb, images, tmp_path / "index", sections=FakeSections(), overwrite=True)
    assert built.section_vectors(0) is not None


def as_version_3(folder: Path, sections: str | None) -> None:
    """Writes the manifest as version 3 did, in which the vectors of sections have fields of their own."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    del manifest["inputs"]["columns"]
    windows = manifest["counts"].pop("columns").get("sections", 0)
    manifest["format_version"] = 3
    manifest["inputs"]["sections"], manifest["counts"]["section_windows"] = sections, windows
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_an_index_of_version_3_is_read_and_changed(tmp_path: Path) -> None:
    world = World(tmp_path, BASE, columns={"sections": FakeSections()})
    before = world.open().section_vectors(0)
    as_version_3(world.index, "fake-sections-1")
    opened = world.open(columns={"sections": FakeSections()})
    assert opened.manifest.inputs.columns == {"sections": "fake-sections-1"}
    assert before is not None and np.array_equal(opened.section_vectors(0) or [], before)
    world.build(BASE, world.index)
    assert opened.manifest.format_version == 3  # complete, and thus not built again
    editor = world.editor(columns={"sections": FakeSections()})
    world.put(editor, article("f", 2))
    assert editor.index.compact() and editor.index.manifest.format_version == 4
    assert editor.index.manifest.counts.columns == count(editor.index.version).columns


def test_vectors_of_another_encoder_are_refused(tmp_path: Path) -> None:
    world = World(tmp_path, BASE, columns={"sections": FakeSections("one")})
    for opened in (Index, LiveIndex):
        with pytest.raises(ValueError, match="model of column sections 'two' now, 'one' when it was built"):
            opened.open(world.index, columns={"sections": FakeSections("two")})
    with pytest.raises(ValueError, match=r"the column 'sections', which this profile cannot compute.*kind=hybrid"):
        world.editor()


def test_without_any_section(tmp_path: Path) -> None:
    kb = tmp_path / "kb.jsonl"
    kb.write_text('{"id": "a", "title": "A", "sections": []}\n')
    (tmp_path / "images").mkdir()
    index = build_index(kb, tmp_path / "images", tmp_path / "index", sections=FakeSections())
    assert index.section_vectors(0) == [] and index.manifest.counts.columns["sections"] == 0
