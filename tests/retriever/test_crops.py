"""Searching parts of images that are not recognized as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from indexes.store.index import Index
from retriever.crops import CROPS, PROPOSALS, PROPOSED, Propose, _around
from retriever.models.bm25 import BM25
from retriever.pipeline import Retriever
from retriever.protocols import Finish, Step
from retriever.recognition import Recognition, Signs
from retriever.step1_search import EntitySearch, part_scores
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from retriever.types import Crop, Options, Query
from tests.fakes.knowledge_base import FLAGS, build_small_index
from tests.fakes.models import FakeEncoder, FakeFusion

STRICT = Recognition(-95.0, Signs(sim_c=100.0), 0.5, crop_threshold=0.9)
"""Recognizes what step 1 scores above 0.95; parts above 0.972."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_small_index(tmp_path_factory.mktemp("crops"))


def pipeline(
    folder: Path, recognition: Recognition | None = STRICT, trim: bool = False, propose: Propose | None = None
) -> Retriever[Index]:
    index = Index.open(folder)
    steps: list[Step] = [
        EntitySearch(FakeEncoder(), index, k=4),
        FusionRerank(FakeFusion(), index, alpha=1.0),
        SectionRerank(BM25(), index, beta=0.5),
    ]
    return Retriever(steps, index, recognition, trim_borders=trim, propose=propose)


def flag(country: str, size: tuple[int, int]) -> Image.Image:
    image = Image.new("RGB", size)
    bands = FLAGS[country]
    for number, color in enumerate(bands):
        image.paste(color, (size[0] * number // len(bands), 0, size[0] * (number + 1) // len(bands), size[1]))
    return image


def on_black(country: str, at: tuple[int, int], size: tuple[int, int] = (220, 165)) -> Query:
    """Returns a query whose image of 400 x 300 pixels shows a flag on black."""
    image = Image.new("RGB", (400, 300))
    image.paste(flag(country, size), at)
    return Query(image, "What is shown?", country)


def titles(retriever: Retriever[Index], queries: list[Query]) -> list[str]:
    return [retriever.index.entity(found.candidates[0].row).title for found in retriever.retrieve(queries)]


@pytest.mark.parametrize(("crops", "places"), [(CROPS, {0.75: 9, 0.55: 9}), (PROPOSALS, {0.5: 25, 0.625: 16, 0.75: 9})])
def test_crops_are_parts_of_the_image_of_some_sizes(crops: Sequence[Crop], places: dict[float, int]) -> None:
    for left, top, right, bottom in crops:
        assert 0 <= left < right <= 1 + 1e-9 and 0 <= top < bottom <= 1 + 1e-9
        assert right - left == pytest.approx(bottom - top)
    assert Counter(round(right - left, 6) for left, _, right, _ in crops) == places


def test_crops_around_one_stay_in_the_image() -> None:
    around = _around((0.5, 0.0, 1.0, 0.5))
    assert around[0] == pytest.approx((0.5375, 0.0375, 0.9625, 0.4625))  # 0.85 times as large, in the middle
    assert around[5] == pytest.approx((0.44, 0.0, 0.94, 0.5)) and around[6] == pytest.approx((0.5, 0.0, 1.0, 0.5))
    assert around[9] == pytest.approx((0.425, 0.0, 1.0, 0.575))
    assert all(0 <= edge <= 1 + 1e-9 for crop in around for edge in crop)


@pytest.mark.parametrize(("at", "place"), [((0, 0), 9), ((90, 68), 13), ((180, 135), 17)])
def test_a_thing_that_fills_a_part_of_the_frame_is_found_there(folder: Path, at: tuple[int, int], place: int) -> None:
    query, retriever = on_black("Ireland", at), pipeline(folder)
    [whole] = pipeline(folder, Recognition(-95.0, Signs(sim_c=100.0), 0.5)).retrieve([query])
    assert whole.recognized is not None and whole.recognized < 0.5 and whole.crop is None
    [found] = retriever.retrieve([query])
    assert found.crop == CROPS[place]
    assert retriever.index.entity(found.candidates[0].row).title == "Ireland"
    assert found.recognized is not None and found.recognized > 0.9 and found.query_id == "Ireland"
    assert list(found.timings_ms) == ["step1", "step2", "step3"] and list(found.rankings) == ["step1", "step2", "step3"]


def count_queries(retriever: Retriever[Index], asked: list[int]) -> None:
    """Appends the number of queries of each call of step 1 to `asked`."""
    first, *others = retriever.steps

    class Counted:
        name = "step1"

        def start(self, queries: Sequence[Query]) -> Finish:
            asked.append(len(queries))
            return first.start(queries)

    retriever.steps = [Counted(), *others]


def test_what_is_recognized_or_unknown_is_searched_once(folder: Path) -> None:
    retriever, asked = pipeline(folder), list[int]()
    count_queries(retriever, asked)
    [found] = retriever.retrieve([Query(flag("France", (300, 200)), "", "whole")])
    assert found.crop is None and asked == [1]
    noise = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    [declined] = retriever.retrieve([Query(Image.fromarray(noise), "", "noise")])
    assert declined.crop is None and declined.recognized is not None and declined.recognized < 0.5
    assert sum(asked) == 2 + len(CROPS) + 1  # all parts by the first step, the best one by all steps
    asked.clear()
    retriever.retrieve([on_black("Ireland", (0, 0))], steps=1)
    retriever.retrieve([Query(on_black("Ireland", (0, 0)).image, "", options=Options(alpha=0.5))])
    assert asked == [1, 1]  # nothing says whether these are recognized
    retriever.recognition = None
    retriever.retrieve([on_black("Ireland", (0, 0))])
    assert asked == [1, 1, 1]


def test_only_proposed_crops_go_through_the_first_step(folder: Path) -> None:
    wanted, asked, given = PROPOSALS.index((0.375, 0.375, 1.0, 1.0)), list[int](), list[tuple[int, int]]()

    def propose(query: Query, crops: Sequence[Crop]) -> list[float]:
        given.append(query.image.size)
        return [1.0 if number == wanted else 0.0 for number in range(len(crops))]

    retriever = pipeline(folder, propose=propose)
    count_queries(retriever, asked)
    [found] = retriever.retrieve([on_black("Ireland", (150, 113), (250, 187))])
    assert found.crop == PROPOSALS[wanted] and retriever.index.entity(found.candidates[0].row).title == "Ireland"
    assert sum(asked) == 1 + PROPOSED + 1 and given == [(400, 300)]
    assert retriever.retrieve([Query(flag("France", (300, 200)), "")])[0].crop is None and len(given) == 1


@pytest.mark.parametrize(("gain", "searches"), [(0.04, 1), (0.06, 1 + PROPOSED)])
def test_crops_that_promise_little_cost_little(folder: Path, gain: float, searches: int) -> None:
    """A crop is searched if it is estimated to gain .05, and by all steps only if it does."""
    query = Query(on_black("Ireland", (300, 225), (20, 15)).image, "", "corner")  # no proposed crop shows it any larger
    [whole] = pipeline(folder, recognition=None).retrieve([query])
    promised = (whole.candidates[0].sim_c or 0.0) + gain
    retriever, asked = pipeline(folder, propose=lambda query, crops: [promised] * len(crops)), list[int]()
    count_queries(retriever, asked)
    [declined] = retriever.retrieve([query])
    assert declined.crop is None and sum(asked) == searches
    assert declined.candidates == whole.candidates


def test_what_is_nearly_recognized_is_looked_at_again(folder: Path) -> None:
    query = on_black("Ireland", (90, 60), (200, 150))
    [found] = pipeline(folder).retrieve([query])
    assert found.crop is not None and found.crop not in CROPS
    assert found.recognized is not None and found.recognized > 0.9


@pytest.mark.parametrize("size", [(1, 2), (2, 900), (900, 2), (3, 3)])
def test_parts_of_tiny_and_thin_images_have_pixels(folder: Path, size: tuple[int, int]) -> None:
    unsure = Recognition(-1.0, Signs(), 0.5, crop_threshold=0.9)  # 0.27 for any image, so parts are searched twice
    image = Image.new("RGB", size)
    image.paste("white", (0, 0, size[0], size[1] // 2))
    [found] = pipeline(folder, unsure).retrieve([Query(image, "What is shown?", "tiny")])
    assert found.crop is None and found.recognized == pytest.approx(0.269, abs=1e-3)


def test_a_plain_image_is_of_a_plain_thing_or_shows_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retriever = pipeline(folder, Recognition(5.0, Signs(), 0.5))
    images = [Image.new("RGB", (64, 48), "gray"), flag("Ireland", (64, 48))]
    queries = [Query(image, "What is shown?", str(number)) for number, image in enumerate(images)]
    sure = pytest.approx(0.993, abs=1e-3)
    assert [one.recognized for one in retriever.retrieve(queries)] == [0, sure]
    Image.new("RGB", (64, 48), "red").save(tmp_path / "swatch.png")
    monkeypatch.setattr(retriever.index, "image_path", lambda row: tmp_path / "swatch.png")
    assert [one.recognized for one in retriever.retrieve(queries)] == [sure, sure]


def test_scores_of_parts_leave_out_what_a_query_excludes(folder: Path) -> None:
    index, encoder = Index.open(folder), FakeEncoder()
    vectors = encoder.encode_images([flag("Ireland", (30, 20)), flag("France", (30, 20))])
    scores_of, image = part_scores(lambda image, parts: vectors, index), flag("Ireland", (30, 20))
    ireland = index.row_of(
        next(index.entity(row).id for row in range(len(index)) if index.entity(row).title == "Ireland")
    )
    assert ireland is not None
    plain = scores_of(Query(image, ""), CROPS[:2])
    without = scores_of(Query(image, "", options=Options(exclude=(ireland,))), CROPS[:2])
    assert plain[0] > without[0] and plain[1] == without[1]


def test_a_batch_gives_what_each_image_gives_alone(folder: Path) -> None:
    retriever = pipeline(folder)
    queries = [
        on_black("Ireland", (0, 0)),
        Query(flag("France", (300, 200)), "", "whole"),
        on_black("France", (180, 135)),
    ]
    queries += [on_black("Ireland", (90, 68)), on_black("France", (0, 135)), on_black("Ireland", (180, 0))]
    together = retriever.retrieve(queries)
    for one, query in zip(together, queries, strict=True):
        [alone] = retriever.retrieve([query])
        assert (one.query_id, one.crop) == (query.id, alone.crop)
        assert [c.row for c in one.candidates] == [c.row for c in alone.candidates]
        assert one.recognized == pytest.approx(alone.recognized, abs=1e-4)
    assert [one.crop is None for one in together] == [False, True, False, False, False, False]
    assert titles(retriever, queries) == ["Ireland", "France", "France", "Ireland", "France", "Ireland"]


def test_an_excluded_entity_is_not_found_in_a_part_either(folder: Path) -> None:
    query, retriever = on_black("Ireland", (90, 68)), pipeline(folder)
    [found] = retriever.retrieve([query])
    own = found.candidates[0].row
    [other] = retriever.retrieve([Query(query.image, "", options=Options(exclude=(own,)))])
    assert other.crop is None and own not in [candidate.row for candidate in other.candidates]


def test_a_part_is_given_as_shares_of_the_image_with_its_borders(folder: Path) -> None:
    inner = on_black("Ireland", (80, 57), (240, 185)).image
    inner.paste("gray", (0, 0, 8, inner.height))  # so that black is no border
    image = Image.new("RGB", (800, 600), "yellow")
    image.paste(inner, (200, 150))
    [found] = pipeline(folder, trim=True).retrieve([Query(image, "", "bordered")])
    assert found.crop is not None
    # trimmed to the content, 400 x 300 without a pixel of the copy, which are three, on each side; its middle
    left, top, right, bottom = found.crop
    assert (left * 800, right * 800) == pytest.approx((400 - 197 * 0.55, 400 + 197 * 0.55), abs=4)
    assert (top * 600, bottom * 600) == pytest.approx((300 - 147 * 0.55, 300 + 147 * 0.55), abs=4)


def test_a_part_that_is_not_recognized_itself_leaves_the_result_of_the_whole(folder: Path) -> None:
    query = on_black("Ireland", (0, 0))
    [by_part] = pipeline(folder).retrieve([query])
    assert by_part.crop is not None and by_part.recognized is not None
    [whole] = pipeline(folder, Recognition(-95.0, Signs(sim_c=100.0), 1.0)).retrieve([query])
    strict = Recognition(-95.0, Signs(sim_c=100.0), 1.0, crop_threshold=0.9)  # a part's 0.99 is above 0.9, not 1
    [found] = pipeline(folder, strict).retrieve([query])
    assert found.crop is None and found.recognized == whole.recognized
    assert found.rankings == whole.rankings
