from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from indexes.build import build_index
from indexes.sections import DROPPED_BY_REFERENCE
from indexes.store import Index
from indexes.summary_file import summarize_all
from retriever.images import FORMATS
from retriever.types import Entity, Section
from tests.fakes.ghostscript import EPS, install_trap
from tests.fakes.knowledge_base import write_kb
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.paths import ROOT, contents

KILLED = "killed on purpose"


class Fuse:
    """Counts calls; at the n-th it raises, or kills the process for real."""

    def __init__(self, calls: int, kill: bool = False) -> None:
        self.calls, self.kill = calls, kill

    def burn(self) -> None:
        self.calls -= 1
        if self.calls == 0:
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError(KILLED)


class FusedEncoder(FakeEncoder):
    fuse = Fuse(-1)

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        self.fuse.burn()
        return super().encode_texts(texts)

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        self.fuse.burn()
        return super().encode_images(images)


class FusedFusion(FakeFusion):
    fuse = Fuse(-1)

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> torch.Tensor:
        self.fuse.burn()
        return super().encode_sections(images, texts)


class FusedSummarizer(FakeSummarizer):
    fuse = Fuse(-1)

    def stream(self, entities: Iterable[Entity]) -> Generator[str]:
        for summary in super().stream(entities):
            self.fuse.burn()
            yield summary


def build(kb: Path, images: Path | None, out: Path, **changes: Any) -> Index:
    options: dict[str, Any] = {
        "summarizer": FakeSummarizer(),
        "encoder": FakeEncoder(),
        "fusion": FakeFusion(),
        "batch_size": 2,
        "progress": False,
    }
    return build_index(kb, images, out, **options | changes)


def test_what_an_index_holds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kb, images = write_kb(tmp_path)
    index = build(kb, images, tmp_path / "index")
    assert len(index) == 7
    counts = index.manifest.counts
    # France 2 + Words 1 + Ireland 1 + Lost 1 + Broken 1 + Plain 2; tokens only for France, Ireland and Plain
    assert (counts.entities, counts.sections, counts.with_image, counts.token_sections) == (7, 8, 4, 5)
    assert [list(index.section_rows(row)) for row in range(7)] == [[0, 1], [], [2], [], [], [], [3, 4]]
    assert [section.index for section in index.entity(0).sections] == [0, 2]
    assert index.summary(0) == "France. The flag is blue white and red"
    assert [index.image_path(row) is not None for row in range(7)] == [True, False, True, True, False, False, True]
    report = json.loads((tmp_path / "index" / "report.json").read_text())
    known = ", ".join(FORMATS)
    assert report == {
        "skipped": {"count": 0, "of": 7, "entries": []},
        "missing": [
            {
                "row": 4,
                "id": "https://e.example/wiki/Lost",
                "image": "https://e.example/images/flag/Lost.png",
                "path": None,
                "reason": "no file in the folder at any suffix of the URL's path",
            }
        ],
        "unreadable": [
            {
                "row": 5,
                "id": "https://e.example/wiki/Broken",
                "image": "https://e.example/images/flag/Broken.png",
                "path": "flag/Broken.png",
                "reason": f"not an image of a known format ({known})",
            }
        ],
    }
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        f"1 images missing, 1 unreadable (flag/Broken.png: not an image of a known format ({known}))"
    ]
    assert sorted(path.name for path in (tmp_path / "index" / "images").iterdir()) == [
        "0.jpg", "2.jpg", "3.jpg", "6.jpg"]  # fmt: skip
    assert not (tmp_path / "index" / ".parts").exists()
    assert str(tmp_path) not in (tmp_path / "index" / "manifest.json").read_text()


def test_stored_tokens_are_the_fusion_encoders(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    index = build(kb, images, tmp_path / "index")
    with Image.open(images / "flag" / "France.png") as image:
        # the text spelled out: lower case, and "#", ":" and "." become spaces, which are then run together
        text = "wiki article france\n section title area\nit covers 643,801 km²"
        expected = FakeFusion().encode([image], [text])[0]
    expected = expected / expected.norm(dim=-1, keepdim=True)
    stored = index.tokens(np.array(index.section_rows(0)))
    assert stored.dtype == torch.float32 and stored.shape == (2, 32, 8)
    torch.testing.assert_close(stored[1], expected, atol=1e-3, rtol=0)


def test_entities_share_a_call_of_the_fusion_encoder(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    stored = []
    for batch_size, calls in ((1, 3), (3, 2), (32, 1)):  # entities 0, 2 and 6 have tokens
        fusion = FusedFusion()
        fusion.fuse = Fuse(100)
        index = build(kb, images, tmp_path / str(batch_size), fusion=fusion, batch_size=batch_size)
        assert 100 - fusion.fuse.calls == calls
        stored.append(index.tokens(np.arange(5)))
    torch.testing.assert_close(stored[1], stored[0], atol=1e-3, rtol=0)
    torch.testing.assert_close(stored[2], stored[0], atol=1e-3, rtol=0)


@pytest.mark.parametrize(("candidates", "expected"), [("summary", 0), ("title", None), ("article", 0), ("image", 0)])
def test_what_step_1_searches(tmp_path: Path, candidates: str, expected: int | None) -> None:
    kb, images = write_kb(tmp_path)
    index = build(kb, images, tmp_path / "index", candidates=candidates)
    with Image.open(images / "flag" / "France.png") as image:
        scores, rows = index.search(FakeEncoder().encode_images([image]), 7)
    if expected is not None:
        assert rows[0, 0] == expected
    else:  # no title has a color word: every vector is the same
        assert np.ptp(scores) == 0
    if candidates == "image":  # the four with a readable image, and nothing more
        assert sorted(rows[0, :4].tolist()) == [0, 2, 3, 6]
        assert rows[0, 4:].tolist() == [-1, -1, -1] and np.isneginf(scores[0, 4:]).all()
        assert scores[0, 0] == pytest.approx(1, abs=1e-3)
    else:
        assert sorted(rows[0].tolist()) == list(range(7))


def test_without_images_or_fusion_encoder(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    blind = build(kb, None, tmp_path / "blind")
    assert blind.manifest.counts.with_image == 0 and blind.section_rows(0) == range(0)
    step1 = build(kb, images, tmp_path / "step1", fusion=None)
    assert step1.manifest.inputs.fusion is None and step1.section_rows(0) == range(0)
    assert step1.image_path(0) is not None
    with pytest.raises(ValueError, match=r"fusion encoder 'fake-fusion-1' now, None when it was built"):
        Index.open(tmp_path / "step1", fusion=FakeFusion())


@pytest.mark.parametrize(("name", "content"), [("none.jsonl", ""), ("none.json", "{}")])
def test_a_knowledge_base_without_entities_is_an_error(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=rf"{name}: holds no entity; is it the right file"):
        build(tmp_path / name, None, tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_candidates_of_which_none_can_be_found_are_an_error(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    for path in images.rglob("*.png"):
        path.write_text("no image")
    with pytest.raises(ValueError, match=r"kb\.json: no entity has a readable main image"):
        build(kb, images, tmp_path / "index", candidates="image")


def test_one_entity(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"id": "x", "title": "Red", "sections": []}\n')
    index = build(tmp_path / "one.jsonl", None, tmp_path / "one")
    scores, rows = index.search(FakeEncoder().encode_texts(["red"]), 3)
    assert rows.tolist() == [[0, -1, -1]] and np.isneginf(scores[0, 1:]).all()
    assert index.tokens(np.array([], dtype=np.int64)).shape == (0, 32, 8)
    assert index.row_of("x") == 0 and index.row_of("y") is None


def test_postscript_named_as_a_photograph_starts_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb, images = write_kb(tmp_path)
    (images / "flag" / "Broken.png").write_bytes(EPS)
    started = install_trap(tmp_path / "bin", monkeypatch)
    build(kb, images, tmp_path / "index")
    [unreadable] = json.loads((tmp_path / "index" / "report.json").read_text())["unreadable"]
    assert unreadable["reason"].startswith("not an image of a known format") and not started.exists()


def test_sections_to_drop_are_an_input(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    build(kb, images, tmp_path / "index")
    assert Index.open(tmp_path / "index").manifest.inputs.drop_sections == ("*external links*", "*references*")
    with pytest.raises(ValueError, match=r"index of other inputs \(drop_sections"):
        build(kb, images, tmp_path / "index", drop_sections=["Area"])
    index = build(kb, images, tmp_path / "other", drop_sections=["Area"])
    assert [section.title for section in index.entity(0).sections] == ["France", "References"]
    assert [section.index for section in index.entity(0).sections] == [0, 1]


def test_an_index_of_before_sections_could_be_chosen_opens(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    build(kb, images, tmp_path / "index")
    path = tmp_path / "index" / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["inputs"]["drop_sections"]
    path.write_text(json.dumps(manifest))
    assert build(kb, images, tmp_path / "index").manifest.inputs.drop_sections == DROPPED_BY_REFERENCE


@pytest.mark.parametrize("stage", ["summarizer", "encoder", "fusion"])
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_resumed_build_equals_an_uninterrupted_one(tmp_path: Path, stage: str, calls: int) -> None:
    kb, images = write_kb(tmp_path)
    build(kb, images, tmp_path / "whole")
    model: Any = {"summarizer": FusedSummarizer, "encoder": FusedEncoder, "fusion": FusedFusion}[stage]()
    model.fuse = Fuse(calls)
    out = tmp_path / "resumed"
    with pytest.raises(RuntimeError, match=KILLED):
        build(kb, images, out, **{stage: model})
    assert not (out / "manifest.json").exists()
    with pytest.raises(ValueError, match=r"no manifest\.json"):
        Index.open(out)
    model.fuse = Fuse(100)
    build(kb, images, out, **{stage: model})
    # seven summaries, four batches of seven entities, three of which have tokens: nothing is asked for twice
    assert 100 - model.fuse.calls == {"summarizer": 7, "encoder": 4, "fusion": 3}[stage] - (calls - 1)
    assert contents(out) == contents(tmp_path / "whole")


def test_a_resumed_build_over_images(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    build(kb, images, tmp_path / "whole", candidates="image")
    encoder = FusedEncoder()
    encoder.fuse = Fuse(2)
    with pytest.raises(RuntimeError, match=KILLED):
        build(kb, images, tmp_path / "resumed", candidates="image", encoder=encoder)
    build(kb, images, tmp_path / "resumed", candidates="image")
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")


def test_a_build_that_was_really_killed(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    script = (
        "import sys, pathlib; from tests.indexes.test_build import *\n"
        "kb, images, out = map(pathlib.Path, sys.argv[1:])\n"
        "fusion = FusedFusion(); fusion.fuse = Fuse(3, kill=True)\n"
        "build(kb, images, out, fusion=fusion)\n"
    )
    arguments = [sys.executable, "-c", script, str(kb), str(images), str(tmp_path / "killed")]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    build(kb, images, tmp_path / "killed")
    build(kb, images, tmp_path / "whole")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_killed_while_publishing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb, images = write_kb(tmp_path)
    build(kb, images, tmp_path / "whole")
    out, replace, fuse = tmp_path / "index", os.replace, Fuse(4)
    build(kb, images, out, candidates="title")

    def stop(source: Path, target: Path) -> None:
        if target.parent == out:
            fuse.burn()
        replace(source, target)

    monkeypatch.setattr("os.replace", stop)
    with pytest.raises(RuntimeError, match=KILLED):
        build(kb, images, out, overwrite=True)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"no manifest\.json"):
        Index.open(out)
    build(kb, images, out)
    assert contents(out) == contents(tmp_path / "whole")


def test_same_inputs_are_not_built_again_and_others_need_overwrite(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    out = tmp_path / "index"
    build(kb, images, out)
    before = contents(out)
    encoder = FusedEncoder()
    encoder.fuse = Fuse(1)
    build(kb, images, out, encoder=encoder)
    assert contents(out) == before
    other = FakeEncoder(fingerprint="fake-encoder-2")
    with pytest.raises(ValueError, match=r"encoder: 'fake-encoder-1' there, 'fake-encoder-2' now.*--overwrite"):
        build(kb, images, out, encoder=other)
    assert contents(out) == before
    (images / "flag" / "Lost.png").write_bytes((images / "flag" / "Plain.png").read_bytes())
    with pytest.raises(ValueError, match=r"other inputs \(pictures"):
        build(kb, images, out)
    index = build(kb, images, out, encoder=other, overwrite=True)
    assert index.manifest.inputs.encoder == "fake-encoder-2" and index.image_path(4) is not None


def test_an_unfinished_build_of_other_inputs_needs_overwrite(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    fusion = FusedFusion()
    fusion.fuse = Fuse(2)
    with pytest.raises(RuntimeError, match=KILLED):
        build(kb, images, tmp_path / "index", fusion=fusion)
    with pytest.raises(ValueError, match=r"unfinished build of other inputs \(candidates"):
        build(kb, images, tmp_path / "index", candidates="title")
    build(kb, images, tmp_path / "index", candidates="title", overwrite=True)
    build(kb, images, tmp_path / "whole", candidates="title")
    assert contents(tmp_path / "index") == contents(tmp_path / "whole")


def test_overwrite_replaces_a_damaged_index(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    build(kb, images, tmp_path / "index")
    before = contents(tmp_path / "index")
    (tmp_path / "index" / "summaries.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"summaries\.jsonl: 0 bytes"):
        build(kb, images, tmp_path / "index")
    build(kb, images, tmp_path / "index", overwrite=True)
    assert contents(tmp_path / "index") == before


def test_bad_input_changes_nothing(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"out": home}, "neither empty nor an index"),
        ({"images": tmp_path / "absent"}, "images: .*absent is neither a folder"),
        ({"candidates": "name"}, "candidates must be one of .* got 'name'"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"kb_format": "warc"}, "format 'warc' is unknown"),
    ]
    for changes, message in cases:
        options: dict[str, Any] = {"kb": kb, "images": images, "out": tmp_path / "index"} | changes
        with pytest.raises(ValueError, match=message):
            build(**options)
    assert [path.name for path in home.iterdir()] == ["letter.txt"]
    assert not (tmp_path / "index").exists()


def test_the_first_image_that_is_found_is_the_main_one(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    articles = json.loads(kb.read_text())
    lost = articles["https://e.example/wiki/Lost"]
    lost["image_urls"] += ["https://e.example/images/flag/Gone.png", "https://e.example/images/flag/Ireland.png"]
    lost["image_section_indices"] = [0, 0, 0]
    lost["image_reference_descriptions"] = ["", None, "Ireland's"]
    kb.write_text(json.dumps(articles))
    index = build(kb, images, tmp_path / "index")
    assert json.loads((tmp_path / "index" / "report.json").read_text())["missing"] == []
    assert [image.caption for image in index.entity(4).images] == ["", "", "Ireland's"]
    assert len(index.section_rows(4)) == 1
    found, expected = index.image_path(4), index.image_path(2)
    assert found is not None and expected is not None and found.read_bytes() == expected.read_bytes()


@pytest.mark.parametrize("cut", [40, 900, 2000])
def test_a_damaged_knowledge_base_leaves_nothing_behind(tmp_path: Path, cut: int) -> None:
    kb, images = write_kb(tmp_path)
    whole = kb.read_bytes()
    kb.write_bytes(whole[:cut])
    with pytest.raises(ValueError, match=r"kb\.json: entry"):
        build(kb, images, tmp_path / "index")
    assert not (tmp_path / "index").exists()
    kb.write_bytes(whole)
    build(kb, images, tmp_path / "index")
    before = contents(tmp_path / "index")
    kb.write_bytes(whole[:cut])
    with pytest.raises(ValueError, match=r"kb\.json: entry"):
        build(kb, images, tmp_path / "index", overwrite=True)
    assert contents(tmp_path / "index") == before


def test_images_that_changed_are_noticed_in_an_unfinished_build(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    fusion = FusedFusion()
    fusion.fuse = Fuse(2)
    with pytest.raises(RuntimeError, match=KILLED):
        build(kb, images, tmp_path / "index", fusion=fusion)
    (images / "flag" / "Lost.png").write_bytes((images / "flag" / "Plain.png").read_bytes())
    with pytest.raises(ValueError, match=r"unfinished build of other inputs \(pictures"):
        build(kb, images, tmp_path / "index")
    build(kb, images, tmp_path / "index", overwrite=True)
    build(kb, images, tmp_path / "whole")
    assert contents(tmp_path / "index") == contents(tmp_path / "whole")


def test_killed_while_reading_articles(tmp_path: Path) -> None:
    folder = tmp_path / "kb"
    folder.mkdir()
    for name in ("a", "b", "c"):
        Image.new("RGB", (40, 40), "red").save(folder / f"{name}.png")
        (folder / f"{name}.md").write_text(f"# Red {name}\nRed.\n![]({name}.png)\n## Use\nNone.\n")
    script = (
        "import os, pathlib, signal, sys\n"
        "from indexes import stages\n"
        "from tests.indexes.test_build import build\n"
        "written, calls = stages.to_row, []\n"
        "def stop(entity):\n"
        "    calls.append(entity)\n"
        "    if len(calls) == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return written(entity)\n"
        "stages.to_row = stop\n"
        "build(pathlib.Path(sys.argv[1]), None, pathlib.Path(sys.argv[2]))\n"
    )
    arguments = [sys.executable, "-c", script, str(folder), str(tmp_path / "killed")]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    index = build(folder, None, tmp_path / "killed")
    assert index.manifest.counts.with_image == 3  # found in the knowledge base itself
    build(folder, None, tmp_path / "whole")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    before = contents(tmp_path / "whole")
    build(folder, None, tmp_path / "whole")
    assert contents(tmp_path / "whole") == before
    (folder / "c.md").write_text("# Changed\n")
    with pytest.raises(ValueError, match=r"other inputs \(knowledge_base"):
        build(folder, None, tmp_path / "whole")


def test_skipped_entries_survive_a_kill(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    articles = json.loads(kb.read_text())
    articles["broken"] = {"title": 3}
    kb.write_text(json.dumps(articles))
    fusion = FusedFusion()
    fusion.fuse = Fuse(2)
    with pytest.raises(RuntimeError, match=KILLED):
        build(kb, images, tmp_path / "resumed", fusion=fusion, max_bad=0.2)
    build(kb, images, tmp_path / "resumed", max_bad=0.2)
    build(kb, images, tmp_path / "whole", max_bad=0.2)
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")
    skipped = json.loads((tmp_path / "resumed" / "report.json").read_text())["skipped"]
    assert (skipped["count"], skipped["of"], skipped["entries"][0]["place"]) == (1, 8, "entry 8 ('broken')")


def test_values_that_are_not_finite_stop_the_build(tmp_path: Path) -> None:
    class Broken(FakeEncoder):
        def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
            return super().encode_texts(texts) * float("nan")

    kb, images = write_kb(tmp_path)
    with pytest.raises(ValueError, match="not finite"):
        build(kb, images, tmp_path / "index", encoder=Broken())


def articles(count: int) -> list[Entity]:
    return [Entity(str(n), f"Title {n}", (Section("s", f"Text {n}. More.", 0),)) for n in range(count)]


def test_summaries_resume_after_the_last_whole_line(tmp_path: Path) -> None:
    path, entities = tmp_path / "summaries.jsonl", articles(7)
    assert summarize_all(entities, FakeSummarizer(), path, 2) == 7
    whole = path.read_bytes()
    assert json.loads(whole.splitlines()[3]) == {"id": "3", "summary": "Title 3. Text 3"}
    assert summarize_all(entities, FakeSummarizer(), path, 2) == 0
    third = len(b"".join(whole.splitlines(keepends=True)[:3]))
    path.write_bytes(whole[: third + 5])  # three whole lines and a truncated one
    assert summarize_all(entities, FakeSummarizer(), path, 2) == 4
    assert path.read_bytes() == whole


def test_a_summary_is_in_the_file_before_the_next_one_is_made(tmp_path: Path) -> None:
    path, lines = tmp_path / "summaries.jsonl", []

    class Watching(FakeSummarizer):
        def stream(self, entities: Iterable[Entity]) -> Generator[str]:
            for summary in super().stream(entities):
                lines.append(len(path.read_bytes().splitlines()))
                yield summary

    assert summarize_all(articles(5), Watching(), path, 3) == 5
    assert lines == [0, 1, 2, 3, 4]


def test_summaries_of_other_entities_are_refused(tmp_path: Path) -> None:
    path, entities = tmp_path / "summaries.jsonl", articles(4)
    summarize_all(entities, FakeSummarizer(), path, 2)
    with pytest.raises(ValueError, match=r"summaries\.jsonl: line 1: expected entity '3', found '0'"):
        summarize_all(entities[::-1], FakeSummarizer(), path, 2)
    with pytest.raises(ValueError, match=r"summaries\.jsonl: holds 4 lines, more than 3"):
        summarize_all(entities[:3], FakeSummarizer(), path, 2)
    path.write_text("[]\n" * 4)
    with pytest.raises(ValueError, match=r"summaries\.jsonl: line 1: not a summary"):
        summarize_all(entities, FakeSummarizer(), path, 2)


def test_a_summarizer_must_answer_for_every_entity(tmp_path: Path) -> None:
    class Lazy(FakeSummarizer):
        def stream(self, entities: Iterable[Entity]) -> Generator[str]:
            yield from islice(super().stream(entities), 1)

    with pytest.raises(ValueError, match="first-sentence: returned no summary of entity '1'"):
        summarize_all(articles(2), Lazy(), tmp_path / "summaries.jsonl", 2)


def test_the_kind_of_entity_index_is_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.search_kinds.AT_LEAST", 1)
    monkeypatch.setattr("indexes.recall._FEW", 4)
    kb, images = write_kb(tmp_path)
    flat, rescored = build(kb, images, tmp_path / "flat"), build(kb, images, tmp_path / "sq8", search="sq8")
    record = rescored.manifest.search
    assert record is not None and rescored.manifest.inputs.search == record.kind == "sq8"
    assert (record.rescored, record.recall, record.queries) == (2, 1.0, "4 main images")
    assert rescored.manifest.counts.searchable == 7
    vectors = FakeEncoder().encode_texts(["green white", "yellow", "blue white red"])
    np.testing.assert_allclose(rescored.search(vectors, 5)[0], flat.search(vectors, 5)[0], atol=1e-6)  # rows tie
    assert build(kb, images, tmp_path / "sq8").manifest == rescored.manifest  # auto takes what is there
    with pytest.raises(ValueError, match="search: 'sq8' there, 'flat' now"):
        build(kb, images, tmp_path / "sq8", search="flat")
    with pytest.raises(ValueError, match="search must be one of auto, flat, sq8, hnsw, ivf-pq, milvus, got 'lsh'"):
        build(kb, images, tmp_path / "lsh", search="lsh")


def test_the_entity_index_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb, images = write_kb(tmp_path)
    fusion = FusedFusion()
    fusion.fuse = Fuse(1)
    with pytest.raises(RuntimeError, match=KILLED):
        build(kb, images, tmp_path / "index", fusion=fusion)
    fusion.fuse = Fuse(100)
    with monkeypatch.context() as patch:
        patch.delattr("indexes.build.write_search")
        build(kb, images, tmp_path / "index", fusion=fusion)
    build(kb, images, tmp_path / "whole")
    assert contents(tmp_path / "index") == contents(tmp_path / "whole")


@pytest.mark.parametrize("candidates", ["summary", "image", "combined"])
def test_another_kind_of_entity_index_needs_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, candidates: str
) -> None:
    monkeypatch.setattr("indexes.search_kinds.AT_LEAST", 1)
    kb, images = write_kb(tmp_path)
    before = build(kb, images, tmp_path / "index", candidates=candidates)
    files = contents(tmp_path / "index")
    vectors = FakeEncoder().encode_texts(["green white", "yellow", "blue white red"])
    expected = before.search(vectors, 5)[0]
    encoder, fusion = FusedEncoder(), FusedFusion()
    encoder.fuse = fusion.fuse = Fuse(1)  # asked for nothing
    models = {"encoder": encoder, "fusion": fusion, "candidates": candidates, "overwrite": True}
    with monkeypatch.context() as patch:
        patch.setattr("indexes.reindex.write_search", lambda *args, **options: Fuse(1).burn())
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
