from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from indexes.store.index import Index
from retriever.models.bm25 import BM25
from retriever.pipeline import Retriever
from retriever.protocols import Finish
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from retriever.texts import blip_caption
from retriever.types import Candidate, Options, Query, RetrievalResult, ScoredSection
from tests.fakes.knowledge_base import build_small_index
from tests.fakes.models import FakeEncoder, FakeFusion


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index.open(build_small_index(tmp_path_factory.mktemp("pipeline")))


@pytest.fixture(scope="module")
def retriever(index: Index) -> Retriever[Index]:
    return Retriever(
        [
            EntitySearch(FakeEncoder(), index, k=4),
            FusionRerank(FakeFusion(), index, alpha=0.5),
            SectionRerank(BM25(), index, beta=0.5),
        ],
        index,
    )


def flag(*colors: str) -> Image.Image:
    image = Image.new("RGB", (60, 40))
    width = 60 // len(colors)
    for band, color in enumerate(colors):
        image.paste(color, (band * width, 0, (band + 1) * width, 40))
    return image


FRANCE = Query(flag("blue", "white", "red"), "How large is the area it covers?", "q1")
IRELAND = Query(flag("green", "white"), "Which colors has the flag?", "q2")
YELLOW = Query(flag("yellow"), "What is its use?", "q3")


def titles(index: Index, retrieved: RetrievalResult) -> list[str]:
    return [index.entity(candidate.row).title for candidate in retrieved.candidates]


def rows_of(retrieved: RetrievalResult) -> list[tuple[int, float | None, float | None, float]]:
    return [(c.row, c.sim_c, c.sim_m, c.score) for c in retrieved.candidates]


def sections_of(candidate: Candidate) -> list[tuple[int, float | None, float | None, float | None]]:
    return [(s.position, s.sim_m, s.sim_t, s.score) for s in candidate.sections]


def test_three_steps_find_the_section(retriever: Retriever[Index], index: Index) -> None:
    [found] = retriever.retrieve([FRANCE])
    assert found.query_id == "q1"
    assert titles(index, found)[0] == "France"
    best = found.candidates[0]
    assert index.entity(best.row).sections[best.sections[0].position].title == "Area"
    assert list(found.timings_ms) == ["step1", "step2", "step3"]
    assert all(ms >= 0 for ms in found.timings_ms.values())
    assert [len(found.rankings[step]) for step in ("step1", "step2", "step3")] == [4, 4, 4]
    assert found.rankings["step1"][0] == (best.row, best.sim_c)
    assert found.rankings["step2"] == found.rankings["step3"] == [(c.row, c.score) for c in found.candidates]


def test_equations_5_and_7_by_hand(retriever: Retriever[Index], index: Index) -> None:
    [found] = retriever.retrieve([FRANCE])
    query = FakeFusion().encode([FRANCE.image], [blip_caption(FRANCE.question)])[0].double()
    query /= query.norm(dim=-1, keepdim=True)
    lowest = min(c.sim_m for c in found.candidates if c.sim_m is not None)
    for candidate in found.candidates:
        span = index.section_rows(candidate.row)
        sims = [float((query @ index.tokens(np.array([i]))[0].double().T).amax(1).mean()) for i in span]
        assert candidate.sim_m == (pytest.approx(max(sims), abs=1e-5) if sims else None)
        assert candidate.sim_c is not None
        assert candidate.score == pytest.approx(0.5 * candidate.sim_c + 0.5 * (max(sims) if sims else lowest), abs=1e-5)
        expected: dict[int, float | None] = dict(enumerate(sims)) or {0: None}
        assert {s.position: s.sim_m for s in candidate.sections} == pytest.approx(expected)
    for section in found.candidates[0].sections:
        assert section.sim_m is not None and section.sim_t is not None
        assert section.score == pytest.approx(0.5 * section.sim_m + 0.5 * section.sim_t)
    assert all(section.sim_t is None for c in found.candidates[1:] for section in c.sections)


def test_a_batch_gives_what_each_query_gives_alone(retriever: Retriever[Index]) -> None:
    queries = [FRANCE, IRELAND, YELLOW]
    for together, query in zip(retriever.retrieve(queries), queries, strict=True):
        [alone] = retriever.retrieve([query])
        assert together.query_id == alone.query_id
        for a, b in zip(rows_of(together), rows_of(alone), strict=True):
            assert a == pytest.approx(b, abs=1e-6)
        for c, d in zip(together.candidates, alone.candidates, strict=True):
            for a_section, b_section in zip(sections_of(c), sections_of(d), strict=True):
                assert a_section == pytest.approx(b_section, abs=1e-6)


def test_no_queries(retriever: Retriever[Index]) -> None:
    assert retriever.retrieve([]) == []


def test_k_beyond_the_index_returns_every_entity_once(retriever: Retriever[Index], index: Index) -> None:
    [found] = retriever.retrieve([Query(FRANCE.image, FRANCE.question, options=Options(k=50))])
    assert sorted(c.row for c in found.candidates) == list(range(len(index)))
    assert all(np.isfinite(c.score) for c in found.candidates)


def test_each_query_has_its_own_options(retriever: Retriever[Index]) -> None:
    one = Query(FRANCE.image, FRANCE.question, "one", Options(k=1))
    first = Query(FRANCE.image, FRANCE.question, "alpha", Options(alpha=1.0, beta=1.0))
    second = Query(FRANCE.image, FRANCE.question, "beta", Options(alpha=0.0, beta=0.0))
    a, b, c, d = retriever.retrieve([one, first, second, FRANCE])
    assert len(a.candidates) == 1 and len(d.candidates) == 4
    assert [x.score for x in b.candidates] == [x.sim_c for x in b.candidates]
    assert [x.score for x in b.candidates[0].sections] == [x.sim_m for x in b.candidates[0].sections]
    assert c.candidates[0].score == c.candidates[0].sim_m
    assert [x.score for x in c.candidates[0].sections] == [x.sim_t for x in c.candidates[0].sections]


def test_options_out_of_range_name_themselves(retriever: Retriever[Index]) -> None:
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        retriever.retrieve([Query(FRANCE.image, "?", options=Options(k=0))])
    with pytest.raises(ValueError, match="between 0 and 1"):
        retriever.retrieve([Query(FRANCE.image, "?", options=Options(alpha=2.0))])
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        EntitySearch(FakeEncoder(), retriever.index, k=0)


def test_an_entity_without_image_is_ranked_by_what_it_has(retriever: Retriever[Index], index: Index) -> None:
    black = Query(flag("black", "yellow"), "Does it have an image?", options=Options(k=7))
    [found] = retriever.retrieve([black])
    words = next(c for c in found.candidates if index.entity(c.row).title == "Words")
    empty = next(c for c in found.candidates if index.entity(c.row).title == "Empty")
    lowest = min(c.sim_m for c in found.candidates if c.sim_m is not None)
    assert words.sim_m is None and words.sim_c is not None
    assert words.score == pytest.approx(0.5 * words.sim_c + 0.5 * lowest)
    assert [(s.position, s.sim_m) for s in words.sections] == [(0, None)]
    assert empty.sim_m is None and empty.sections == []


def test_only_entities_without_tokens(index: Index) -> None:
    rows = [row for row in range(len(index)) if index.entity(row).title in ("Words", "Lost")]
    step = FusionRerank(FakeFusion(), index, alpha=0.2)
    [found] = step.start([FRANCE])([[Candidate(rows[0], sim_c=0.1), Candidate(rows[1], sim_c=0.3)]])
    assert [(c.row, c.score) for c in found] == [(rows[1], 0.3), (rows[0], 0.1)]


def test_lists_of_length_0_and_1(index: Index) -> None:
    rerank = FusionRerank(FakeFusion(), index, alpha=0.5)
    sections = SectionRerank(BM25(), index, beta=0.5)
    row = next(row for row in range(len(index)) if index.entity(row).title == "France")
    found = rerank.start([FRANCE, FRANCE])([[], [Candidate(row, sim_c=0.4)]])
    assert found[0] == [] and [c.row for c in found[1]] == [row]
    found = sections.start([FRANCE, FRANCE])(found)
    assert found[0] == [] and len(found[1][0].sections) == 2
    assert sections.start([])([]) == rerank.start([])([]) == []


def test_step_3_works_without_step_2(index: Index) -> None:
    [found] = Retriever(
        [EntitySearch(FakeEncoder(), index, k=2), SectionRerank(BM25(), index, beta=0.9)], index
    ).retrieve([FRANCE])
    best = found.candidates[0]
    assert index.entity(best.row).sections[best.sections[0].position].title == "Area"
    assert [s.score for s in best.sections] == [s.sim_t for s in best.sections]


@pytest.mark.parametrize(("entities", "weight"), [(2, 0.25), (3, 1.0), (9, 0.0)])
def test_several_entities_compete_with_their_sections(index: Index, entities: int, weight: float) -> None:
    """Each scores a mean of its score and its best section's; without sections, the lowest of them; the rest stays."""
    first, second = EntitySearch(FakeEncoder(), index, k=4), FusionRerank(FakeFusion(), index, alpha=0.5)
    before = {c.row: c.score for c in Retriever([first, second], index).retrieve([FRANCE])[0].candidates}
    third = SectionRerank(BM25(), index, 0.5, entities, weight)
    [found] = Retriever([first, second, third], index).retrieve([FRANCE])
    rows = [*before][:entities]
    best = {c.row: c.sections[0].score for c in found.candidates if c.row in rows and c.sections}
    lowest = min(score for score in best.values() if score is not None)
    scores = {row: weight * before[row] + (1 - weight) * (best.get(row) or lowest) for row in rows}
    expected = sorted(rows, key=lambda row: -scores[row])
    assert [c.row for c in found.candidates] == [*expected, *[*before][entities:]]
    assert [c.score for c in found.candidates[:entities]] == pytest.approx([scores[row] for row in expected])
    assert all(s.sim_t is not None for c in found.candidates[:entities] for s in c.sections)
    shown = [c.score for c in found.candidates]
    assert shown == sorted(shown, reverse=True)


def test_equal_scores_keep_their_order(index: Index) -> None:
    row = next(row for row in range(len(index)) if index.entity(row).title == "France")
    step = FusionRerank(FakeFusion(), index, alpha=0.5)
    twins = [Candidate(row, sim_c=0.4, sections=[ScoredSection(9)]) for _ in range(3)]
    [found] = step.start([FRANCE])([list(twins)])
    assert [id(c) for c in found] == [id(c) for c in twins]


def test_a_new_step_needs_nothing_of_the_others(index: Index) -> None:
    class Reverse:
        name = "reverse"

        def start(self, queries: object) -> Finish:
            return lambda candidates: [found[::-1] for found in candidates]

    search = EntitySearch(FakeEncoder(), index, k=3)
    [found] = Retriever([search, Reverse()], index).retrieve([FRANCE])
    assert [row for row, _ in found.rankings["reverse"]] == [row for row, _ in found.rankings["step1"]][::-1]
    with pytest.raises(ValueError, match="a name of its own, got step1, step1"):
        Retriever([search, search], index)


class Sign:
    """A step that leaves the candidates unchanged."""

    def __init__(self, name: str) -> None:
        self.name = name

    def start(self, queries: object) -> Finish:
        return lambda candidates: candidates


def test_a_step_is_swapped_added_and_dropped(index: Index) -> None:
    search = EntitySearch(FakeEncoder(), index, k=2)
    retriever = Retriever([search, Sign("a")], index)
    retriever.steps = [Sign("b") if step.name == "a" else step for step in retriever.steps]
    retriever.steps = [*retriever.steps, Sign("c")]
    assert list(retriever.retrieve([FRANCE])[0].timings_ms) == ["step1", "b", "c"]
    retriever.steps = retriever.steps[:1]
    [result] = retriever.retrieve([FRANCE])
    assert list(result.rankings) == ["step1"] and len(result.candidates) == 2


def test_steps_that_do_not_fit_leave_the_pipeline_as_it_was(index: Index) -> None:
    retriever = Retriever([Sign("a")], index)
    with pytest.raises(ValueError, match="at least one step"):
        retriever.steps = []
    with pytest.raises(ValueError, match="a name of its own, got b, b"):
        retriever.steps = [Sign("b"), Sign("b")]
    assert [step.name for step in retriever.steps] == ["a"]


def test_a_batch_under_way_keeps_its_steps(index: Index) -> None:
    class Replaces(Sign):
        def start(self, queries: object) -> Finish:
            running.steps = [Sign("new")]
            return super().start(queries)

    running = Retriever([Replaces("a"), Sign("b")], index)
    assert list(running.retrieve([FRANCE])[0].timings_ms) == ["a", "b"]
    assert list(running.retrieve([FRANCE])[0].timings_ms) == ["new"]


def test_every_step_starts_before_the_first_finishes(index: Index) -> None:
    order: list[str] = []

    class RecordsOrder:
        def __init__(self, name: str) -> None:
            self.name = name

        def start(self, queries: object) -> Finish:
            order.append(f"start {self.name}")

            def finish(candidates: list[list[Candidate]]) -> list[list[Candidate]]:
                order.append(f"finish {self.name}")
                return candidates

            return finish

    Retriever([RecordsOrder("a"), RecordsOrder("b")], index).retrieve([FRANCE])
    assert sorted(order[:2]) == ["start a", "start b"]  # in threads of their own
    assert order[2:] == ["finish a", "finish b"]


def test_no_gradients_are_kept(retriever: Retriever[Index]) -> None:
    retriever.retrieve([FRANCE])
    assert torch.is_grad_enabled()
