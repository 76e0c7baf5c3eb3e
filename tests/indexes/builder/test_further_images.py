"""Several images per entity: further keys for step 1, and sections' own images for step 2."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from indexes.article_images import FurtherImages, ImageUse, MainImage, choose_further
from indexes.builder.estimate import estimate_build
from indexes.builder.image_records import ImageRecords
from indexes.builder.report import read_report
from indexes.builder.stages import section_texts
from indexes.knowledge import sources
from indexes.lines import save_offsets
from indexes.store.index import Index
from indexes.store.manifest import FILES, IMAGE_OWNERS, OWNERS
from indexes.store.search import BestKeySearch, best_of_each
from indexes.svg import load_any
from omgm.profile import load_profile
from retriever.pipeline import Retriever
from retriever.protocols import Step
from retriever.recognition import Recognition, Signs
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.types import ArticleImage, BoolArray, Candidate, Entity, FloatArray, IntArray, Query, Section
from tests.fakes.builds import KILLED, FusedEncoder, FusedFusion, burning
from tests.fakes.models import FakeEncoder, FakeFusion
from tests.fakes.plans import build_index, plan
from tests.fakes.rows import write_jsonl
from tests.paths import contents

ROWS: list[dict[str, Any]] = [
    # red main image; green and blue further ones, green belonging to the second section
    {"id": "a", "title": "A", "sections": [{"title": "A", "text": "One."}, {"title": "Use", "text": "Two."}]}
    | {"image": "red.png", "images": ["red.png", "gone.png", {"url": "green.png", "section": 1}, "blue.png"]},
    {"id": "b", "title": "B", "sections": [{"title": "B", "text": "It is white."}], "image": "white.png"},
    # whose further image is broken
    {"id": "c", "title": "C", "sections": [{"title": "C", "text": "Black."}]}
    | {"image": "black.png", "images": [{"url": "broken.png", "section": 0}, "yellow.png"]},
    {"id": "d", "title": "D green", "sections": [], "images": ["gone.png"]},
]


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    for color in ("red", "green", "blue", "white", "black", "yellow"):
        Image.new("RGB", (90, 60), color).save(tmp_path / "images" / f"{color}.png")
    (tmp_path / "images" / "broken.png").write_text("none")
    return write_jsonl(tmp_path / "kb.jsonl", *ROWS)


def build(kb: Path, out: str, **options: Any) -> Index:
    defaults: dict[str, Any] = {"candidates": "combined", "image_keys": 3, "section_images": True, "batch_size": 2}
    images = kb.parent / "images"
    return build_index(kb, images, kb.parent / out, **defaults | options)


def found(index: Index, color: str, k: int) -> tuple[list[str | None], list[float]]:
    scores, rows = index.search(FakeEncoder().encode_images([Image.new("RGB", (9, 9), color)]), k)
    return [index.entity(row).id if row >= 0 else None for row in rows[0].tolist()], scores[0].tolist()


def test_an_entity_is_found_once_by_its_best_key(kb: Path, caplog: pytest.LogCaptureFixture) -> None:
    index = build(kb, "index", image_weight=0.75)
    assert index.image_weight == build(kb, "index", image_weight=0.75).image_weight == 0.75
    counts = index.manifest.counts
    assert (counts.entities, counts.searchable, counts.further_keys, counts.with_image) == (4, 4, 3, 3)
    assert np.load(index.folder / OWNERS).tolist() == [0, 0, 2]
    assert set(index.manifest.files) == {*FILES, OWNERS, IMAGE_OWNERS}
    assert "left out 1 unreadable further images (first: broken.png: not an image of a known format" in caplog.text
    for color, expected in (("red", "a"), ("blue", "a"), ("yellow", "c")):
        names, scores = found(Index.open(index.folder, image_weight=0.75), color, 4)
        assert names[0] == expected and sorted(map(str, names)) == ["a", "b", "c", "d"]
        assert scores[0] == pytest.approx(0.75, abs=1e-3)  # the image's whole weight, and no word of its summary
    names, scores = found(Index.open(index.folder, image_weight=0.75), "green", 2)
    assert names == ["d", "a"] and scores == pytest.approx([1, 0.75], abs=1e-3)  # without an image, by its title alone
    assert found(index, "red", 1)[0] == ["a"]


def test_images_beyond_the_limit_are_said(kb: Path) -> None:
    index = build(kb, "index", image_keys=2)
    [note] = read_report(index.folder)["notes"]
    # of a: gone.png is missing, so red.png and green.png are searched; of c: black.png and yellow.png
    assert note == (
        "3 images of 2 entities, such as a: not searched, only the first 2 of each are; to search more, set "
        "search.image_keys"
    )
    for keys in (1, 4):  # one as in the paper, or enough
        assert not read_report(build(kb, f"index{keys}", image_keys=keys).folder).get("notes")


def test_every_image_that_belongs_to_an_entry_is_a_key_by_default(tmp_path: Path) -> None:
    """By file names, which the entries do not name; the profile's limit is above what collections have."""
    (tmp_path / "images").mkdir()
    for name, count in (("red-fox", 5), ("owl", 8)):
        for number in range(1, count + 1):
            Image.new("RGB", (90, 60), (20 * number, 90, 160)).save(tmp_path / "images" / f"{name}-{number}.png")
    kb = write_jsonl(
        tmp_path / "kb.jsonl", *({"id": one, "title": one, "text": "An animal."} for one in ("red-fox", "owl"))
    )
    index = build(kb, "index", image_keys=load_profile("embedded").search.image_keys)
    counts = index.manifest.counts
    assert (counts.with_image, counts.further_keys, counts.image_tokens) == (2, 4 + 7, 5 + 8)


def test_one_image_key_leaves_the_index_as_it_was(kb: Path) -> None:
    index = build(kb, "index", image_keys=1, section_images=False)
    assert set(index.manifest.files) == set(FILES) and index.manifest.counts.further_keys == 0
    summaries = build(kb, "texts", candidates="summary", section_images=False)
    assert summaries.manifest.inputs.image_keys == 1  # of no use there
    with pytest.raises(ValueError, match="image_keys must be at least 1, got 0"):
        build(kb, "bad", image_keys=0)


def test_images_alone(kb: Path) -> None:
    index = build(kb, "index", candidates="image", image_keys=2)
    counts = index.manifest.counts
    assert (counts.searchable, counts.further_keys) == (3, 2)
    assert found(index, "green", 5)[0][0] == "a" and found(index, "yellow", 5)[0][0] == "c"
    assert found(index, "blue", 5)[0].count(None) == 2  # "d" has no key


def test_a_section_is_paired_with_its_own_image(kb: Path) -> None:
    index = build(kb, "index")

    def stored(color: str, text: str) -> torch.Tensor:
        tokens = FakeFusion().encode([Image.new("RGB", (90, 60), color)], [text])
        return torch.nn.functional.normalize(tokens, dim=-1)

    texts = ["wiki article a\n section title a\none", "wiki article a\n section title use\ntwo"]
    expected = torch.cat([stored("red", texts[0]), stored("green", texts[1])])
    torch.testing.assert_close(index.tokens(np.arange(2)), expected, atol=1e-3, rtol=0)
    main = build(kb, "main", section_images=False)
    expected = torch.cat([stored("red", text) for text in texts])
    torch.testing.assert_close(main.tokens(np.arange(2)), expected, atol=1e-3, rtol=0)
    assert torch.equal(index.tokens(np.arange(2, 4)), main.tokens(np.arange(2, 4)))


def test_step_2_compares_with_every_image_of_an_article(kb: Path) -> None:
    """Their tokens are computed from the images without text and stored after the sections' rows."""
    index, fusion = build(kb, "index"), FakeFusion()
    counts = index.manifest.counts
    assert (counts.token_sections, counts.image_tokens, counts.labeled_tokens) == (4, 6, 0)
    assert np.load(index.folder / IMAGE_OWNERS).tolist() == [0, 0, 0, 1, 2, 2]  # red, green, blue; white; black, yellow
    assert [index.section_rows(row) for row in range(4)] == [range(2), range(5, 6), range(7, 8), range(10, 10)]
    assert [index.token_rows(row) for row in range(4)] == [range(5), range(5, 7), range(7, 10), range(10, 10)]
    images = [Image.new("RGB", (90, 60), color) for color in ("red", "green", "blue", "white", "black", "yellow")]
    expected = torch.nn.functional.normalize(fusion.encode(images, [""] * 6), dim=-1)
    assert torch.allclose(index.tokens(np.array([2, 3, 4, 6, 8, 9])), expected, atol=1e-3)
    query = Query(Image.new("RGB", (90, 60), "blue"), "Which one?")
    ranked = FusionRerank(fusion, index, alpha=0.0).start([query])([[Candidate(row) for row in range(3)]])[0]
    both = torch.nn.functional.normalize(fusion.encode([query.image] * 2, ["which one?", ""]), dim=-1)
    sims, alone = ([float((one @ row.T).amax(1).mean()) for row in index.tokens(np.arange(10))] for one in both)
    own = {0: max(alone[2:5]), 1: alone[6], 2: max(alone[8:10])}
    assert {one.row: one.sim_m for one in ranked} == pytest.approx(own, abs=1e-3)
    [first] = [one for one in ranked if one.row == 0]
    assert sorted(section.sim_m or 0 for section in first.sections) == pytest.approx(sorted(sims[:2]), abs=1e-3)


def test_recognition_does_not_depend_on_the_wording(kb: Path) -> None:
    """Candidates are ranked and recognized by the image alone; only their sections depend on the question."""
    index, fusion = build(kb, "index"), FakeFusion()
    steps: list[Step] = [EntitySearch(FakeEncoder(), index, k=4), FusionRerank(fusion, index, alpha=0.3)]
    retriever = Retriever(steps, index, Recognition(-3.0, Signs(2.0, 3.0, 1.0, 4.0, 0.5)))
    image = Image.new("RGB", (90, 60), "red")
    image.paste("blue", (30, 0, 90, 60))
    asked = [
        "",
        "What is this?",
        "Who designed it, and in which year?",
        "one two wiki article a",
        "\u3053\u308c\u306f?",
    ]
    first, *others = retriever.retrieve([Query(image, question) for question in asked])
    assert first.recognized is not None
    for other in others:
        assert other.recognized == pytest.approx(first.recognized, abs=1e-5)
        assert [c.row for c in other.candidates] == [c.row for c in first.candidates]
    sections = {tuple(section.sim_m for section in result.candidates[0].sections) for result in (first, *others)}
    assert len(sections) > 1


def test_an_image_without_sections_is_compared_too(tmp_path: Path) -> None:
    """An entity without text is not left to step 1 alone, unless the paper's method is chosen."""
    Image.new("RGB", (90, 60), "red").save(tmp_path / "red.png")
    kb = write_jsonl(tmp_path / "kb.jsonl", {"id": "a", "title": "A", "sections": [], "image": "red.png"})
    for image_keys, rows in ((2, range(1)), (1, range(0))):
        out = tmp_path / str(image_keys)
        options: dict[str, Any] = {"candidates": "combined", "image_keys": image_keys}
        index = build_index(kb, tmp_path, out, **options)
        assert (index.token_rows(0), index.section_rows(0)) == (rows, range(0))
        query = Query(Image.new("RGB", (90, 60), "red"), "Which one?")
        [[candidate]] = FusionRerank(FakeFusion(), index, alpha=0.5).start([query])([[Candidate(0, 0.5)]])
        assert (candidate.sim_m is None) == (image_keys == 1) and not candidate.sections


def test_a_build_that_an_older_version_began_has_no_tokens_of_images(tmp_path: Path) -> None:
    """Its lines lack the last number; lines added by this version have it."""
    lines = [["a.png", None, None, ["b.png"], [], [], 2], ["c.png", None, None, ["d.png"], [], [], 3, 2]]
    (tmp_path / "images.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    save_offsets(tmp_path / "images.jsonl")
    assert ImageRecords(tmp_path).image_owners().tolist() == [1, 1]


@pytest.mark.parametrize("calls", [1, 2, 3, 4, 5])
def test_a_killed_build_resumes(kb: Path, calls: int) -> None:
    build(kb, "whole")
    encoder = burning(FusedEncoder(), calls)  # three entities with images, one at a time, then 2 batches of texts
    with pytest.raises(RuntimeError, match=KILLED):
        build(kb, "resumed", encoder=encoder)
    fusion = burning(FusedFusion(), 1)
    if calls <= 3:
        with pytest.raises(RuntimeError, match=KILLED):
            build(kb, "resumed", fusion=fusion)
    build(kb, "resumed")
    assert contents(kb.parent / "resumed") == contents(kb.parent / "whole")


def test_each_image_is_decoded_once(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = list[str]()

    def load(source: Path | bytes, name: str = "") -> Image.Image:
        assert isinstance(source, Path)
        decoded.append(source.name)
        return load_any(source, name)

    monkeypatch.setattr(sources, "load_any", load)
    build(kb, "index")
    assert sorted(decoded) == [f"{name}.png" for name in ("black", "blue", "broken", "green", "red", "white", "yellow")]
    decoded.clear()
    build(kb, "main", image_keys=1, section_images=False)
    assert sorted(decoded) == ["black.png", "red.png", "white.png"]


def test_an_image_that_entities_share_is_encoded_once(tmp_path: Path) -> None:
    Image.new("RGB", (60, 40), "red").save(tmp_path / "red.png")
    sections = [{"title": "", "text": "Text."}]
    rows = [{"id": str(n), "title": f"Size {n}", "image": "red.png", "sections": sections} for n in range(5)]
    path = write_jsonl(tmp_path / "kb.jsonl", *rows)
    seen = {"step 1": 0, "step 2": 0}

    class Encoder(FakeEncoder):
        def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
            seen["step 1"] += len(images)
            return super().encode_images(images)

    class Fusion(FakeFusion):
        def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> torch.Tensor:
            seen["step 2"] += len(images)
            return super().encode_sections(images, texts)

    index = build_index(path, tmp_path, tmp_path / "index", encoder=Encoder(), fusion=Fusion(), candidates="image")
    assert seen == {"step 1": 1, "step 2": 1}
    texts = [section_texts(index.entity(row))[0] for row in range(5)]
    with Image.open(tmp_path / "red.png") as red:
        expected = FakeFusion().encode([red.convert("RGB")] * 5, texts)
    unit = torch.nn.functional.normalize(expected, dim=-1)
    torch.testing.assert_close(index.tokens(np.arange(5)), unit, atol=1e-2, rtol=0)


def test_another_kind_of_entity_index_keeps_the_further_keys(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.store.search_kinds.AT_LEAST", 1)
    flat = build(kb, "index", search="flat")
    changed = build(kb, "index", search="hnsw", overwrite=True)
    assert set(changed.manifest.files) == {*FILES, OWNERS, IMAGE_OWNERS} and changed.manifest.search is not None
    assert changed.manifest.search.kind == "hnsw"
    for color in ("green", "yellow"):
        assert found(changed, color, 1) == found(flat, color, 1)
    # a build of something else leaves no owners file behind
    build(kb, "index", image_keys=1, overwrite=True)
    assert not any((kb.parent / "index" / name).exists() for name in (OWNERS, IMAGE_OWNERS))


def test_a_changed_further_image_is_noticed(kb: Path) -> None:
    build(kb, "index")
    build(kb, "index")  # nothing to do
    Image.new("RGB", (91, 61), "blue").save(kb.parent / "images" / "green.png")
    with pytest.raises(ValueError, match="images: other content"):
        build(kb, "index")


def test_an_estimate_counts_further_images(kb: Path) -> None:
    for image_keys, keys in ((1, 4), (3, 7)):
        options = {"candidates": "combined", "image_keys": image_keys, "section_images": image_keys > 1}
        estimate = estimate_build(plan(kb, kb.parent / "images", kb, **options))
        assert estimate.temporary_bytes == keys * 2 * 7 * 2


def choose(use: ImageUse, **names: str | None) -> FurtherImages:
    sections = tuple(Section(title, "text", index) for index, title in ((0, "first"), (2, "third"), (3, "fourth")))
    images = [("main", None), ("m2", 2), ("x", 2), ("y", 0), ("y2", 3), ("main", 3)]
    entity = Entity("e", "E", sections, "main", images=tuple(ArticleImage(*image) for image in images))
    return choose_further(entity, MainImage("main"), use, {"main": "main", **names}.get)


def test_which_images_are_chosen() -> None:
    known = {"m2": "main", "x": "x", "y": "y", "y2": "y"}  # "m2" is the main image's file, "y2" that of "y"
    assert choose(ImageUse(9), **known) == FurtherImages(("x", "y"))
    assert choose(ImageUse(2), **known) == FurtherImages(("x",))
    assert choose(ImageUse(1), **known) == FurtherImages()
    # the first readable image of a section counts: "m2" for the second, and that is the main one
    assert choose(ImageUse(1, True), **known) == FurtherImages((), ("y", None, "y"))
    assert choose(ImageUse(1, True), **known | {"m2": None}) == FurtherImages((), ("y", "x", "y"))
    assert choose(ImageUse(3, True)) == FurtherImages()
    assert FurtherImages((), ("y", None, "y")).of_sections("main", 3) == {"y": [0, 2], "main": [1]}
    assert FurtherImages().of_sections("main", 2) == {"main": [0, 1]}
    unreadable = choose_further(Entity("e", "E", ()), MainImage("m", "unreadable", "cut"), ImageUse(3), str)
    assert unreadable == FurtherImages()


def test_the_best_score_of_each_row() -> None:
    scores = np.array([[0.1, 0.9, 0.5, 0.7, -np.inf], [0.3, 0.3, 0.2, 0.1, 0.0]], np.float32)
    rows = np.array([[3, 5, 3, 5, -1], [4, 1, 4, 1, 4]])
    best = best_of_each(scores, rows, 3)
    assert best[1].tolist() == [[5, 3, -1], [4, 1, -1]]
    assert best[0].tolist() == [[np.float32(0.9), 0.5, -np.inf], [np.float32(0.3), np.float32(0.3), -np.inf]]


class Depths:
    """A search that records the requested numbers of results and finds at most `most`."""

    def __init__(self, scores: FloatArray, most: int = 1000) -> None:
        self._scores, self._most, self.shape, self.asked = scores, most, (len(scores), 1), list[int]()

    def search(self, vectors: torch.Tensor, k: int, among: BoolArray | None = None) -> tuple[FloatArray, IntArray]:
        self.asked.append(k)
        order = np.argsort(-self._scores, kind="stable")[: min(k, self._most)]
        missing = k - len(order)
        scores = np.pad(self._scores[order], (0, missing), constant_values=-np.inf)
        return scores[None], np.pad(order, (0, missing), constant_values=-1)[None]


def test_more_keys_are_asked_for_until_there_are_enough_entities() -> None:
    inner = Depths(np.array([0.1, 0.2, *np.arange(1, 11) / 100 + 0.5], np.float32))  # further keys score best
    search = BestKeySearch(inner, 2, np.zeros(10, np.int64))
    scores, rows = search.search(torch.zeros(1, 1), 2)
    assert rows.tolist() == [[0, 1]] and scores[0].tolist() == pytest.approx([0.6, 0.2])
    assert inner.asked == [4, 12]
    assert search.search(torch.zeros(1, 1), 1)[1].tolist() == [[0]] and inner.asked == [4, 12, 2]


def test_no_more_keys_are_asked_for_where_there_are_none() -> None:
    """As with inverted lists: the search probes a few of them, for any number of results."""
    inner = Depths(np.linspace(0.9, 0.1, 100, dtype=np.float32), most=5)
    rows = BestKeySearch(inner, 60, np.arange(40)).search(torch.zeros(1, 1), 10)[1]
    assert rows.tolist() == [[0, 1, 2, 3, 4, -1, -1, -1, -1, -1]]
    assert inner.asked == [20]  # not 20, 80 and 100
