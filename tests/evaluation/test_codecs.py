"""Codecs measured on a small real index with fake models, compared with indexes built with the codecs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageOps

from evaluation.codecs import as_markdown, choose, measure_codecs, reconstruction_error
from evaluation.datasets import Question
from evaluation.replayed import ReencodedIndex, replayed
from indexes.store.index import Index
from retriever.models.bm25 import BM25
from retriever.models.hybrid import HybridReranker
from retriever.pipeline import Retriever
from retriever.protocols import Step
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from retriever.token_codec import TokenCodec
from retriever.types import FloatArray
from tests.fakes.knowledge_base import write_kb
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSections, FakeSummarizer
from tests.fakes.plans import build_index
from tests.retriever.test_pipeline import FRANCE, IRELAND, YELLOW, flag, titles

CODECS = ["float16", "int8", "pool4+int4", "bit1"]
QUERIES = [FRANCE, IRELAND, YELLOW]


class CountingFusion(FakeFusion):
    """Counts its batches of queries."""

    batches = 0

    def encode_sections(self, images: Sequence[Image.Image], texts: Sequence[Sequence[str]]) -> torch.Tensor:
        self.batches += 1
        return super().encode_sections(images, texts)


class CountingReranker:
    """BM25 that counts its questions."""

    def __init__(self) -> None:
        self.asked = 0

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        self.asked += len(questions)
        return BM25().score(questions, passages)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Index]:
    folder = tmp_path_factory.mktemp("codecs")
    kb, images = write_kb(folder)
    models: dict[str, Any] = {"summarizer": FakeSummarizer(), "encoder": FakeEncoder(), "fusion": FakeFusion()}
    return {name: build_index(kb, images, folder / name, tokens=name, **models) for name in CODECS}


def pipeline(index: Index, fusion: FakeFusion | None = None, reranker: Any = None) -> Retriever[Index]:
    step2 = FusionRerank(fusion or FakeFusion(), index, alpha=0.5)
    return Retriever(
        [EntitySearch(FakeEncoder(), index, k=4), step2, SectionRerank(reranker or BM25(), index, beta=0.5)], index
    )


@pytest.mark.parametrize("name", CODECS)
def test_a_replay_scores_like_an_index_of_the_codec(
    built: dict[str, Index], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retriever.pipeline.free_threads", lambda: 2)  # a pipeline splits its batch, a replay does not
    exact = built["float16"]
    view = ReencodedIndex(exact, TokenCodec.parse(name))
    found = replayed(pipeline(exact), QUERIES).retriever(view).retrieve(QUERIES)
    expected = pipeline(built[name]).retrieve(QUERIES)
    # The index was encoded from float32 and the view from float16, so a value may be rounded to a different level.
    tolerance = 1e-6 if name == "float16" else 0.03
    for ours, theirs in zip(found, expected, strict=True):
        sims = {c.row: c.sim_m for c in theirs.candidates}
        assert {c.row for c in ours.candidates} == sims.keys()
        assert all(sims[c.row] == pytest.approx(c.sim_m, abs=tolerance) for c in ours.candidates)
        if name == "float16":
            assert [(c.row, c.sections) for c in ours.candidates] == [(c.row, c.sections) for c in theirs.candidates]


def test_borders_are_cut_off_as_in_the_pipeline(built: dict[str, Index]) -> None:
    retriever = pipeline(built["float16"])
    framed = [replace(query, image=ImageOps.expand(query.image, 200, "white")) for query in QUERIES]
    untrimmed = retriever.retrieve(framed)
    retriever.trim_borders = True
    expected = retriever.retrieve(framed)
    view = ReencodedIndex(built["float16"], TokenCodec("float16"))
    found = replayed(retriever, framed).retriever(view).retrieve(framed)
    for ours, theirs, whole in zip(found, expected, untrimmed, strict=True):
        scores = [candidate.score for candidate in ours.candidates]
        assert [candidate.row for candidate in ours.candidates] == [candidate.row for candidate in theirs.candidates]
        assert scores == pytest.approx([candidate.score for candidate in theirs.candidates], abs=1e-6)
        assert scores != pytest.approx([candidate.score for candidate in whole.candidates], abs=1e-3)


def test_what_does_not_depend_on_tokens_is_computed_once(built: dict[str, Index]) -> None:
    fusion, reranker = CountingFusion(), CountingReranker()
    replay = replayed(pipeline(built["float16"], fusion, reranker), QUERIES)
    view = ReencodedIndex(built["float16"], TokenCodec("float16"))
    first = replay.retriever(view).retrieve(QUERIES)
    again = replay.retriever(view).retrieve(QUERIES)
    assert [one.candidates for one in first] == [one.candidates for one in again]
    assert (fusion.batches, reranker.asked) == (1, 3)


def write_questions(index: Index, folder: Path) -> list[Question]:
    """Returns questions about France (twice, the second with a wrong section), Ireland, and one without its image."""
    folder.mkdir()
    flag("blue", "white", "red").save(folder / "france.png")
    flag("green", "white").save(folder / "ireland.png")
    [france, ireland] = [
        next(index.entity(row) for row in range(len(index)) if index.entity(row).title == title)
        for title in ("France", "Ireland")
    ]
    area = next(section.index for section in france.sections if section.title == "Area")
    ask = FRANCE.question
    return [
        Question("a", ask, "france", ("1",), (france.id,), area),
        Question("b", ask, "france", ("1",), (france.id,), area + 100),
        Question("c", IRELAND.question, "ireland", ("1",), (ireland.id,)),
        Question("d", ask, "gone", ("1",), (france.id,), area),
    ]


def test_measured(built: dict[str, Index], tmp_path: Path) -> None:
    index = built["float16"]
    questions = write_questions(index, tmp_path / "queries")
    assert titles(index, pipeline(index).retrieve([FRANCE])[0])[0] == "France"
    fusion = CountingFusion()
    found = measure_codecs(pipeline(index, fusion), questions, tmp_path / "queries", codecs=["int8"], batch_size=1)
    assert (found["n_queries"], found["n_failed"], found["token_shape"], found["loss"]) == (4, 1, [32, 8], 0.5)
    assert fusion.batches == 3  # a batch without images runs no model
    exact, coded = found["codecs"]
    assert [exact["codec"], coded["codec"]] == ["float16", "int8"]
    assert [exact["bytes_per_section"], coded["bytes_per_section"]] == [32 * 8 * 2, 32 * (8 + 2)]
    # of four questions, the last has no image; of three that name a section, one names a wrong one
    ireland = titles(index, pipeline(index).retrieve([IRELAND])[0])[0] == "Ireland"
    assert exact["recall@1"]["value"] == (2 + ireland) / 4 and exact["recall@1"]["n"] == 4
    assert exact["section_recall@1"]["value"] == pytest.approx(1 / 3) and exact["section_recall@1"]["n"] == 3
    assert exact["recall@1"]["loss"] == 0 and exact["recall@1"]["p"] == 1
    assert exact["error"] < 1e-3 < coded["error"] < 0.02 and coded["cosine"] > 0.999
    assert 0 < found["n_sections"] <= 5
    assert found["chosen"] == "int8" and coded["recall@1"]["n_differing"] == 0
    assert json.loads(json.dumps(found)) == found
    table = as_markdown(found)
    assert "| `float16` | 512 | 0.0" in table and "| `int8` | 320 |" in table
    assert table.splitlines()[0].startswith("4 questions, sections of 32 tokens of dimension 8;")
    assert table.endswith("The smallest codec that loses at most 0.5 points: `int8`\n")


def test_questions_without_sections_have_no_section_recall(built: dict[str, Index], tmp_path: Path) -> None:
    questions = write_questions(built["float16"], tmp_path / "queries")[2:3]
    found = measure_codecs(pipeline(built["float16"]), questions, tmp_path / "queries", codecs=[], loss=1)
    [row] = found["codecs"]
    assert row["section_recall@1"] is None and row["recall@1"]["n"] == 1 and found["chosen"] == "float16"
    assert "| - | - | - |" in as_markdown(found)


def test_the_smallest_codec_within_the_loss_is_chosen() -> None:
    def row(name: str, size: int, entity: float | None, section: float | None) -> dict[str, Any]:
        losses = {"recall@1": entity, "section_recall@1": section}
        return {"codec": name, "bytes_per_section": size} | {
            k: v if v is None else {"loss": v} for k, v in losses.items()
        }

    rows = [row("a", 100, 0, 0), row("b", 50, 0.5, -1), row("c", 40, 0.6, 0), row("d", 30, 0, 0.51), row("e", 60, 0, 0)]
    assert choose(rows, 0.5) == "b"
    assert choose(rows, 0.6) == "d"
    assert choose(rows, 0) == "e"
    assert choose([row("a", 100, 0, None), row("b", 50, 0.2, None)], 0.5) == "b"


def test_errors_by_hand() -> None:
    # signs of (0.6, 0.8, 0 ...) are all positive, so that a token becomes 1 / sqrt(8) everywhere: its cosine is
    # 1.4 / sqrt(8), and the distance of two unit vectors is sqrt(2 - 2 cosine)
    token = torch.tensor([[[0.6, 0.8, 0, 0, 0, 0, 0, 0]]])
    cosine = 1.4 / 8**0.5
    found = reconstruction_error([token], TokenCodec("bit1"))
    assert found == {"error": pytest.approx((2 - 2 * cosine) ** 0.5, abs=1e-3), "cosine": pytest.approx(cosine)}
    # two orthogonal tokens pooled into one: both are 45 degrees from it
    pair = torch.eye(2)[None]
    found = reconstruction_error([pair, pair], TokenCodec("float16", 1))
    assert found == {"error": pytest.approx((2 - 2**0.5) ** 0.5, abs=1e-3), "cosine": pytest.approx(0.5**0.5)}
    assert reconstruction_error([], TokenCodec("int8")) == {"error": None, "cosine": None}


def test_other_tokens_and_unlabeled_questions_are_refused(built: dict[str, Index], tmp_path: Path) -> None:
    questions = write_questions(built["float16"], tmp_path / "queries")
    with pytest.raises(ValueError, match=r"int8: stores tokens as int8, .* --set fusion\.tokens=float16"):
        measure_codecs(pipeline(built["int8"]), questions, tmp_path)
    with pytest.raises(ValueError, match="no question names an entity or section"):
        measure_codecs(pipeline(built["float16"]), [], tmp_path)
    with pytest.raises(ValueError, match="token codec 'int3' is unknown"):
        measure_codecs(pipeline(built["float16"]), questions, tmp_path, codecs=["int3"])
    two = pipeline(built["float16"])
    two.steps = two.steps[:2]
    with pytest.raises(ValueError, match="only a pipeline of steps 1, 2 and 3"):
        measure_codecs(two, questions, tmp_path / "queries")


def test_replays_compare_stored_vectors_of_sections(tmp_path: Path) -> None:
    """Encoding the sections of every candidate again would take seconds per question."""
    kb, images = write_kb(tmp_path)
    sections, models = FakeSections(), (FakeEncoder(), FakeFusion())
    index = build_index(
        kb,
        images,
        tmp_path / "index",
        summarizer=FakeSummarizer(),
        encoder=models[0],
        fusion=models[1],
        sections=sections,
    )
    before, step3 = sections.encoded, SectionRerank(HybridReranker(sections, 0.5), index, 0.5)
    steps: list[Step] = [EntitySearch(models[0], index, 3), FusionRerank(models[1], index, 0.5, "cosine"), step3]
    retriever = Retriever(steps, index)
    expected = retriever.retrieve(QUERIES)
    replay = replayed(retriever, QUERIES)
    for _ in range(2):
        found = replay.retriever(ReencodedIndex(index, TokenCodec.parse("float16"))).retrieve(QUERIES)
        for ours, theirs in zip(found, expected, strict=True):
            assert [one.sections for one in ours.candidates] == [one.sections for one in theirs.candidates]
    assert sections.encoded == before
