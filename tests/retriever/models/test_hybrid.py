from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from indexes.store.index import Index
from retriever.models.bm25 import BM25
from retriever.models.hybrid import HybridReranker, best_cosines
from retriever.protocols import VectorReranker
from retriever.step3_sections import SectionRerank
from retriever.texts import section_passage
from retriever.types import Candidate, FloatArray, Options, Query
from tests.fakes.knowledge_base import build_small_index
from tests.fakes.models import FakeSections


class Words:
    """Scores passages by their length."""

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        return [np.array([len(text) / 10 for text in texts], np.float32) for texts in passages]


def test_the_best_window_counts() -> None:
    question = np.array([1, 0], np.float32)
    sections = [np.array([[0, 127], [127, 127]], np.int8), np.array([[127, 0]], np.int8), np.empty((0, 2), np.int8)]
    assert np.allclose(best_cosines(question, sections), [np.sqrt(0.5), 1, -1], atol=1e-6)
    assert best_cosines(question, []).shape == (0,)


@pytest.mark.parametrize("weight", [0, 0.25, 1])
def test_a_weighted_mean_of_words_and_cosine(weight: float) -> None:
    hybrid = HybridReranker(FakeSections(), weight, Words())
    assert isinstance(hybrid, VectorReranker)
    question, passages = "red flag", ["red", "green bird"]
    [scores] = hybrid.score([question], [passages])
    same, other = (
        FakeSections().encode_questions(["red", "green bird"]) @ FakeSections().encode_questions([question])[0]
    )
    expected = [(1 - weight) * 0.3 + weight * same, (1 - weight) * 1.0 + weight * other]
    assert np.allclose(scores, expected, atol=1e-6)
    assert [len(one) for one in hybrid.score([question, question], [[], ["red"]])] == [0, 1]


def test_other_languages_are_compared_by_words() -> None:
    question = "Wie hoch ist der Turm?"
    assert np.allclose(HybridReranker(FakeSections(), 0.9, Words()).score([question], [["hoch", "der"]])[0], [0.4, 0.3])


def test_a_section_that_only_repeats_the_titles_is_last() -> None:
    texts = [section_passage("Keychron Q1", title, text) for title, text in (("", "Keychron Q1"), ("Case", "aluminum"))]
    for question in ("What is the Keychron Q1?", "Was ist der Keychron Q1?"):
        [scores] = HybridReranker(FakeSections(), 0.5).score([question], [texts])
        assert scores.dtype == np.float32 and scores[0] == -0.5 < scores[1]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index.open(build_small_index(tmp_path_factory.mktemp("hybrid"), sections=FakeSections()))


def rerank(index: Index, encoder: FakeSections, *questions: str) -> list[list[tuple[int, float | None]]]:
    step = SectionRerank(HybridReranker(encoder, 0.5), index, beta=0)
    queries = [Query(Image.new("RGB", (8, 8)), question, options=Options()) for question in questions]
    row = index.row_of("https://e.example/wiki/France")
    assert row is not None
    ranked = step.start(queries)([[Candidate(row)] if query.question else [] for query in queries])
    return [[(one.position, one.sim_t) for one in found[0].sections] if found else [] for found in ranked]


def test_step_3_reads_the_vectors_of_the_index(index: Index) -> None:
    encoder, question = FakeSections(), "Which colors has the flag?"
    found, _, again = rerank(index, encoder, question, "", question)
    assert encoder.encoded == 0  # all vectors of sections are those of the index
    row = index.row_of("https://e.example/wiki/France")
    entity = index.entity(row or 0)
    texts = [section_passage(entity.title, section.title, section.text) for section in entity.sections]
    [expected] = HybridReranker(FakeSections(), 0.5).score([question], [texts])
    assert found == again
    assert {position: score for position, score in found if score is not None} == pytest.approx(
        dict(enumerate(expected.tolist()))
    )


def test_step_3_encodes_sections_that_no_index_holds(tmp_path: Path, index: Index) -> None:
    plain, encoder = Index.open(build_small_index(tmp_path)), FakeSections()
    question = "How large is the area?"
    assert rerank(plain, encoder, question) == rerank(index, FakeSections(), question)
    encoded = encoder.encoded
    assert encoded == 2
    step = SectionRerank(HybridReranker(encoder, 0.5), plain, beta=0)
    assert step.reranker.score([question], [["Any text"]])[0].shape == (1,)
    assert not isinstance(BM25(), VectorReranker)


def test_vectors_of_words(index: Index) -> None:
    vectors: list[NDArray[np.int8]] | None = index.section_vectors(0)
    assert vectors is not None and all(one.shape[1] == FakeSections.dimension for one in vectors)
