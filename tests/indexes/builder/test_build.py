from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from indexes.builder.report import read_problems
from indexes.knowledge.sections import DROPPED_BY_REFERENCE
from indexes.store.index import Index
from retriever.images import FORMATS
from tests.fakes.builds import FusedEncoder, FusedFusion, build, burning
from tests.fakes.ghostscript import EPS, install_trap
from tests.fakes.knowledge_base import write_kb
from tests.fakes.models import FakeEncoder, FakeFusion
from tests.paths import contents


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
    missing = {
        "row": 4,
        "id": "https://e.example/wiki/Lost",
        "problem": "missing",
        "image": "https://e.example/images/flag/Lost.png",
        "path": None,
        "reason": "no file at any suffix of its path",
    }
    unreadable = {
        "row": 5,
        "id": "https://e.example/wiki/Broken",
        "problem": "unreadable",
        "image": "https://e.example/images/flag/Broken.png",
        "path": "flag/Broken.png",
        "reason": f"not an image of a known format ({known})",
    }
    assert list(read_problems(tmp_path / "index")) == [missing, unreadable]
    assert report.pop("words") == {"source": 41, "kept": 39}  # texts, and the titles Area and Use
    assert report.pop("pictures") == {"files": 0, "found": 4, "rule": ""}
    assert report.pop("left_out") == [
        {
            "reason": "sections titled References",
            "unit": "words",
            "count": 2,  # the title and [1]
            "places": 1,
            "example": "entry 1 ('https://e.example/wiki/France'): [1]",
        }
    ]
    assert report == {
        "skipped": {"count": 0, "of": 7, "entries": []},
        "missing": {"count": 1, "reasons": {missing["reason"]: 1}, "entries": [missing]},
        "unreadable": {"count": 1, "reasons": {unreadable["reason"]: 1}, "entries": [unreadable]},
        "shared_images": {
            "images": 1,
            "entities": 2,
            "most_frequent": [
                {
                    "image": "https://e.example/images/flag/Plain.png",
                    "entities": 2,
                    "ids": ["https://e.example/wiki/Empty", "https://e.example/wiki/Plain"],
                }
            ],
        },
        "plain_images": {
            "count": 2,
            "entries": [
                {"id": f"https://e.example/wiki/{name}", "image": "https://e.example/images/flag/Plain.png"}
                for name in ("Empty", "Plain")
            ],
        },
    }
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        f"1 image missing, 1 unreadable (flag/Broken.png: not an image of a known format ({known}))"
    ]
    assert sorted(path.name for path in (tmp_path / "index" / "images").iterdir()) == [
        "0.jpg", "2.jpg", "3.jpg", "6.jpg"]  # fmt: skip
    assert not (tmp_path / "index" / ".parts").exists()
    assert str(tmp_path) not in (tmp_path / "index" / "manifest.json").read_text()


def test_stored_tokens_are_the_fusion_encoders(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    index = build(kb, images, tmp_path / "index")
    with Image.open(images / "flag" / "France.png") as image:
        # the text spelled out: lowercased, with "#", ":" and "." replaced by spaces, which are then collapsed
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
        fusion = burning(FusedFusion(), 100)
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
    with pytest.raises(ValueError, match=rf"{name}: (?:contains no entities; check the file|holds no list)"):
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
    _, unreadable = read_problems(tmp_path / "index")
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


def test_same_inputs_are_not_built_again_and_others_need_overwrite(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kb, images = write_kb(tmp_path)
    out = tmp_path / "index"
    build(kb, images, out)
    before = contents(out)
    encoder = burning(FusedEncoder(), 1)
    build(kb, images, out, encoder=encoder)
    assert contents(out) == before
    other = FakeEncoder(fingerprint="fake-encoder-2")
    with pytest.raises(ValueError, match=r"encoder was .fake-encoder-1. and is now .fake-encoder-2.*--overwrite"):
        build(kb, images, out, encoder=other)
    assert contents(out) == before
    (images / "flag" / "Lost.png").write_bytes((images / "flag" / "Plain.png").read_bytes())
    with pytest.raises(ValueError, match=r"other inputs \(images: other content"):
        build(kb, images, out)
    index = build(kb, images, out, encoder=other, overwrite=True)
    assert index.manifest.inputs.encoder == "fake-encoder-2" and index.image_path(4) is not None
    [rebuilding] = [line for line in caplog.messages if line.startswith("rebuilding: ")]
    assert 'encoder was "fake-encoder-1" and' in rebuilding and "--overwrite" not in rebuilding


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
    assert [entry["problem"] for entry in read_problems(tmp_path / "index")] == ["unreadable"]
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


def test_values_that_are_not_finite_stop_the_build(tmp_path: Path) -> None:
    class Broken(FakeEncoder):
        def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
            return super().encode_texts(texts) * float("nan")

    kb, images = write_kb(tmp_path)
    with pytest.raises(ValueError, match="not finite"):
        build(kb, images, tmp_path / "index", encoder=Broken())
