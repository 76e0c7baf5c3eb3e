"""Several images of one question: what their results become."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from PIL import Image

from retriever.photographs import merged, single
from retriever.pipeline import Retriever
from retriever.recognition import Recognition, Signs
from retriever.types import Candidate, Query, RetrievalResult, ScoredSection, TextLine
from tests.fakes.world import LANDS, FakeIndex

RECOGNITION = Recognition(0.0, Signs(), threshold=0.5)
INDEX = FakeIndex()
RED, GREEN, BLUE = range(3)


def result(recognized: float | None, *scores: tuple[int, float], **fields: object) -> RetrievalResult:
    """Returns the result for one image; the best candidate's second section is its best."""
    candidates = [Candidate(row, score, score=score, sections=[ScoredSection(0)]) for row, score in scores]
    if candidates:
        candidates[0].sections = [ScoredSection(1, score=0.75), ScoredSection(0, score=0.5)]
    return RetrievalResult("", candidates, {"step1": 1.0}, recognized=recognized, **fields)  # type: ignore[arg-type]


def merge(*results: RetrievalResult, recognition: Recognition | None = RECOGNITION) -> RetrievalResult:
    images = [Image.new("RGB", (4, 4)) for _ in results]
    queries = single(Query(images[0], "When?", more=tuple(images[1:])))
    assert [query.image for query in queries] == images and not any(query.more for query in queries)
    return merged(INDEX, recognition, queries, results)


def scores(found: RetrievalResult) -> list[tuple[int, float, int]]:
    """Returns the row, the score and the number of the image of each candidate."""
    return [(one.row, one.score, one.photograph) for one in found.candidates]


def test_one_image_is_as_before() -> None:
    found = result(0.9, (RED, 0.7))
    assert merge(found) is found


def test_the_same_thing_twice_has_its_best_scores() -> None:
    found = merge(result(0.7, (RED, 0.6), (GREEN, 0.5)), result(0.9, (RED, 0.8), (BLUE, 0.55)))
    assert scores(found) == [(RED, 0.8, 2), (BLUE, 0.55, 2), (GREEN, 0.5, 1)]
    assert found.recognized == 0.9 and not any(one.sections for one in found.photographs)
    assert [(one.entity_id, one.entity_title, one.recognized) for one in found.photographs] == [
        (LANDS[RED].id, "Redland", 0.7),
        (LANDS[RED].id, "Redland", 0.9),
    ]


def test_the_sections_are_those_of_the_image_that_shows_it_best() -> None:
    found = merge(result(0.9, (RED, 0.8)), result(0.9, (RED, 0.6)))
    assert [section.position for section in found.candidates[0].sections] == [1, 0]
    tie = merge(result(0.9, (GREEN, 0.8), (RED, 0.8)), result(0.9, (RED, 0.8)), recognition=None)
    assert scores(tie) == [(RED, 0.8, 2), (GREEN, 0.8, 1)]  # the one whose sections are ranked
    assert len(tie.candidates[0].sections) == 2


def test_an_image_that_is_not_recognized_adds_nothing_to_one_that_is() -> None:
    found = merge(result(0.4, (GREEN, 0.9)), result(0.6, (RED, 0.7), (BLUE, 0.2)), result(0.1))
    assert scores(found) == [(RED, 0.7, 2), (BLUE, 0.2, 2)]
    assert found.recognized == 0.6 and [one.entity_title for one in found.photographs] == ["Greenland", "Redland", None]
    assert not any(one.sections for one in found.photographs)


def test_without_a_recognized_image_all_add_candidates() -> None:
    found = merge(result(0.4, (GREEN, 0.9), (RED, 0.2)), result(0.3, (RED, 0.95)))
    assert scores(found) == [(RED, 0.95, 2), (GREEN, 0.9, 1)] and found.recognized == 0.3
    unknown = merge(result(None, (GREEN, 0.9)), result(None, (RED, 0.7)), recognition=None)
    assert scores(unknown) == [(GREEN, 0.9, 1), (RED, 0.7, 2)] and unknown.recognized is None
    assert merge(result(0.0), result(0.0)).candidates == []


def test_different_things_are_both_evidence() -> None:
    reds = result(0.8, (RED, 0.7)), result(0.95, (RED, 0.75))
    found = merge(result(0.9, (GREEN, 0.6)), *reds, result(0.2, (BLUE, 0.9)))
    assert scores(found) == [(RED, 0.75, 3), (GREEN, 0.6, 1)]
    assert found.recognized == 0.9  # the lowest of Greenland's and Redland's
    green, worse, best, unknown = found.photographs
    assert worse.sections == unknown.sections == ()
    for one, row in ((green, GREEN), (best, RED)):
        first, second = one.sections
        assert first.evidence.entity_id == LANDS[row].id and (first.behind, second.behind) == (0.0, -0.25)
        assert first.evidence.text == LANDS[row].sections[1].text


def test_the_order_of_images_does_not_matter() -> None:
    line = TextLine("SALE", 0.9, (0.0, 0.0, 1.0, 1.0))
    results = [
        result(0.7, (RED, 0.6), (GREEN, 0.5), turned=90),
        result(0.9, (RED, 0.8), (BLUE, 0.55), crop=(0.0, 0.0, 0.5, 0.5)),
        result(0.2, (BLUE, 0.9), text=(line,)),
    ]
    for order in itertools.permutations(range(3)):
        found = merge(*(results[number] for number in order))
        assert [row for row, *_ in scores(found)] == [RED, BLUE, GREEN]
        assert (found.recognized, found.crop, found.turned) == (0.9, (0.0, 0.0, 0.5, 0.5), 0)
        assert [order[one.photograph - 1] for one in found.candidates] == [1, 1, 0]
        assert [one.turned for one in found.photographs] == [90 * (number == 0) for number in order]
        assert found.text == (replace(line, photograph=order.index(2) + 1),)


def test_a_retriever_of_single_images_says_so() -> None:
    class Nothing:
        name = "nothing"

        def start(self, queries: object) -> object:
            raise AssertionError

    image = Image.new("RGB", (4, 4))
    retriever = Retriever([Nothing()], INDEX)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="several images"):
        retriever.retrieve([Query(image, "When?", more=(image,))])
