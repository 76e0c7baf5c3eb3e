"""The kind of entity index: chosen for a build, and changed later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from indexes.store.index import Index
from tests.fakes.builds import KILLED, Fuse, FusedEncoder, FusedFusion, build
from tests.fakes.knowledge_base import write_kb
from tests.fakes.models import FakeEncoder, FakeSections
from tests.paths import contents


def test_the_kind_of_entity_index_is_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.store.search_kinds.AT_LEAST", 1)
    monkeypatch.setattr("indexes.store.recall._FEW", 4)
    kb, images = write_kb(tmp_path)
    flat, rescored = build(kb, images, tmp_path / "flat"), build(kb, images, tmp_path / "sq8", search="sq8")
    record = rescored.manifest.search
    assert record is not None and rescored.manifest.inputs.search == record.kind == "sq8"
    assert (record.rescored, record.recall, record.queries) == (2, 1.0, "4 main images")
    assert rescored.manifest.counts.searchable == 7
    vectors = FakeEncoder().encode_texts(["green white", "yellow", "blue white red"])
    np.testing.assert_allclose(rescored.search(vectors, 5)[0], flat.search(vectors, 5)[0], atol=1e-6)  # rows tie
    assert build(kb, images, tmp_path / "sq8").manifest == rescored.manifest  # auto takes what is there
    with pytest.raises(ValueError, match=r"search was .sq8. and is now .flat."):
        build(kb, images, tmp_path / "sq8", search="flat")
    with pytest.raises(ValueError, match="one of auto, flat, sq8, hnsw, ivf-pq, milvus, lancedb, got 'lsh'"):
        build(kb, images, tmp_path / "lsh", search="lsh")


def test_the_entity_index_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb, images = write_kb(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("indexes.builder.build.write_report", lambda *args: Fuse(1).burn())
        with pytest.raises(RuntimeError, match=KILLED):
            build(kb, images, tmp_path / "index")
    with monkeypatch.context() as patch:
        patch.delattr("indexes.builder.build.write_entity_index")
        build(kb, images, tmp_path / "index")
    build(kb, images, tmp_path / "whole")
    assert contents(tmp_path / "index") == contents(tmp_path / "whole")


@pytest.mark.parametrize("candidates", ["summary", "image", "combined"])
def test_another_kind_of_entity_index_needs_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, candidates: str
) -> None:
    monkeypatch.setattr("indexes.store.search_kinds.AT_LEAST", 1)
    kb, images = write_kb(tmp_path)
    before = build(kb, images, tmp_path / "index", candidates=candidates)
    files = contents(tmp_path / "index")
    vectors = FakeEncoder().encode_texts(["green white", "yellow", "blue white red"])
    expected = before.search(vectors, 5)[0]
    encoder, fusion = FusedEncoder(), FusedFusion()
    encoder.fuse = fusion.fuse = Fuse(1)  # no model may run
    models = {"encoder": encoder, "fusion": fusion, "candidates": candidates, "overwrite": True}
    with monkeypatch.context() as patch:
        patch.setattr("indexes.store.entity_index.write_search", lambda *args, **options: Fuse(1).burn())
        with pytest.raises(RuntimeError, match=KILLED):
            build(kb, images, tmp_path / "index", search="sq8", **models)
    assert Index.open(tmp_path / "index").manifest == before.manifest
    index = build(kb, images, tmp_path / "index", search="sq8", **models)
    assert index.manifest.search is not None and index.manifest.search.kind == "sq8"
    np.testing.assert_allclose(index.search(vectors, 5)[0], expected, atol=1e-6)
    Index.open(tmp_path / "index", verify=True)
    changed = {"entities.faiss", "vectors.npy", "manifest.json"}
    now = contents(tmp_path / "index")
    assert now.keys() == files.keys()
    assert {name for name in files if now[name] != files[name]} == changed
    build(kb, images, tmp_path / "direct", search="sq8", candidates=candidates)
    assert contents(tmp_path / "direct") == now
    build(kb, images, tmp_path / "index", search="flat", **models)
    assert contents(tmp_path / "index") == files


def test_another_encoder_of_sections_needs_no_other_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kb, images = write_kb(tmp_path)
    build(kb, images, tmp_path / "index", sections=FakeSections())
    files, other = contents(tmp_path / "index"), FakeSections("fake-sections-2")
    with pytest.raises(ValueError, match=r"model of column sections.*--overwrite`, which makes only these columns"):
        build(kb, images, tmp_path / "index", sections=other)
    with pytest.raises(ValueError, match=r"model of column sections 'fake-sections-2' now.*only this column again"):
        Index.open(tmp_path / "index", columns={"sections": other})
    encoder, fusion = FusedEncoder(), FusedFusion()
    encoder.fuse = fusion.fuse = Fuse(1)  # no other model may run
    models = {"encoder": encoder, "fusion": fusion, "overwrite": True}
    index = build(kb, images, tmp_path / "index", sections=other, **models)
    assert "only columns change: sections computed; everything else is kept" in caplog.text
    assert index.manifest.inputs.columns["sections"] == "fake-sections-2" and other.encoded == 8
    now = contents(tmp_path / "index")
    assert {name for name in files | now if now.get(name) != files.get(name)} == {"manifest.json"}  # equal vectors
    build(kb, images, tmp_path / "direct", sections=FakeSections("fake-sections-2"))
    assert contents(tmp_path / "direct") == now
    build(kb, images, tmp_path / "index", **models)
    build(kb, images, tmp_path / "without")
    assert contents(tmp_path / "without") == contents(tmp_path / "index")
    build(kb, images, tmp_path / "index", sections=other, search="flat", **models)
    assert contents(tmp_path / "index") == now


@pytest.mark.parametrize("calls", [1, 2])
def test_killed_while_making_vectors_of_sections_again(tmp_path: Path, calls: int) -> None:
    kb, images = write_kb(tmp_path)
    before = build(kb, images, tmp_path / "index", sections=FakeSections()).manifest

    class Fused(FakeSections):
        fuse = Fuse(calls)

        def encode_passages(self, passages: Sequence[str]) -> list[NDArray[np.int8]]:
            self.fuse.burn()
            return super().encode_passages(passages)

    fused = Fused("fake-sections-2")
    with pytest.raises(RuntimeError, match=KILLED):
        build(kb, images, tmp_path / "index", sections=fused, overwrite=True)
    assert Index.open(tmp_path / "index").manifest == before
    build(kb, images, tmp_path / "index", sections=fused, overwrite=True)
    build(kb, images, tmp_path / "direct", sections=fused)
    assert contents(tmp_path / "direct") == contents(tmp_path / "index")
