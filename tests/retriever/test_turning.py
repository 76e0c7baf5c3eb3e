"""Searching images that are not recognized as they are turned by quarters."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from starlette.testclient import TestClient

from indexes.store.index import Index
from retriever.image_cache import content_of, set_content
from retriever.looks import Retrieve, declined
from retriever.models.bm25 import BM25
from retriever.pipeline import Retriever
from retriever.protocols import Step
from retriever.recognition import Recognition
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from retriever.turning import TURNS, _turned, unturned
from retriever.types import Options, Query, RetrievalResult, TextLine
from serving.app import create_app
from tests.fakes.images import data_uri
from tests.fakes.knowledge_base import build_small_index
from tests.fakes.models import PALETTE, FakeEncoder, FakeFusion
from tests.fakes.world import FakeGenerator
from tests.retriever.test_crops import STRICT, count_queries, flag

LEFT = {90: Image.Transpose.ROTATE_90, 180: Image.Transpose.ROTATE_180, 270: Image.Transpose.ROTATE_270}
"""Turns an image so far to the left that so many degrees clockwise make it upright."""


class LeftEncoder(FakeEncoder):
    """Sees only the left third of an image, and of a text the first color, which is a flag's on the left."""

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        return super().encode_images([image.crop((0, 0, image.width // 3, image.height)) for image in images])

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        words = (re.findall(r"\w+", text.lower()) for text in texts)
        return super().encode_texts([next((word for word in own if word in PALETTE), "") for own in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_small_index(tmp_path_factory.mktemp("turning"), encoder=LeftEncoder())


@pytest.fixture
def retriever(folder: Path) -> Retriever[Index]:
    index = Index.open(folder)
    first, second = EntitySearch(LeftEncoder(), index, k=4), FusionRerank(FakeFusion(), index, alpha=1.0)
    # Nothing promises a part to be better, so what is not recognized turned is searched no further.
    steps: list[Step] = [first, second, SectionRerank(BM25(), index, beta=0.5)]
    retriever = Retriever(steps, index, STRICT, propose=lambda query, crops: [0.0] * len(crops))
    retriever.threads = 1  # so that no batch is split
    return retriever


def on_its_side(country: str, degrees: int) -> Query:
    """Returns a query whose image shows a flag that so many degrees clockwise make upright."""
    image = flag(country, (300, 200))
    return Query(image.transpose(LEFT[degrees]) if degrees else image, "", f"{country} {degrees}")


def best(retriever: Retriever[Index], result: RetrievalResult) -> str:
    return retriever.index.entity(result.candidates[0].row).title


@pytest.mark.parametrize("degrees", TURNS)
def test_a_flag_on_its_side_is_recognized_and_says_so(retriever: Retriever[Index], degrees: int) -> None:
    query, asked = on_its_side("Ireland", degrees), list[int]()
    retriever.recognition = replace(STRICT, crop_threshold=None)
    [before] = retriever.retrieve([query])
    assert before.recognized is not None and before.recognized < 0.5 and before.turned == 0
    retriever.recognition = STRICT
    count_queries(retriever, asked)
    [found] = retriever.retrieve([query])
    assert (best(retriever, found), found.turned, found.crop, found.query_id) == ("Ireland", degrees, None, query.id)
    assert found.recognized is not None and found.recognized > 0.9
    assert asked == [1, 3, 1]  # as it is, turned by the first step, and the best by all steps; no parts
    assert list(found.timings_ms) == ["step1", "step2", "step3"] == list(found.rankings)


def test_the_turned_image_is_the_upright_one() -> None:
    upright = flag("Ireland", (30, 20))
    upright.putpixel((0, 0), (1, 2, 3))  # not symmetrical
    for place, degrees in enumerate(TURNS):
        image = upright.transpose(LEFT[degrees])
        set_content(image, "photo")
        turned = _turned(Query(image, ""), place).image
        assert turned.tobytes() == upright.tobytes() and content_of(turned) == f"photo turned {degrees}"


def test_what_is_recognized_or_unknown_is_searched_once(retriever: Retriever[Index]) -> None:
    asked = list[int]()
    count_queries(retriever, asked)
    [found] = retriever.retrieve([on_its_side("Ireland", 0)])
    assert found.turned == 0 and found.recognized is not None and found.recognized > 0.9
    query = on_its_side("Ireland", 90)
    assert retriever.retrieve([replace(query, options=Options(alpha=0.5))])[0].turned == 0
    assert retriever.retrieve([query], steps=1)[0].turned == 0
    retriever.recognition = replace(STRICT, crop_threshold=None)  # search.crops = false
    assert retriever.retrieve([query])[0].turned == 0
    assert asked == [1, 1, 1, 1]


def test_what_gains_little_goes_through_the_first_step_only(retriever: Retriever[Index]) -> None:
    image = Image.new("RGB", (300, 300), "white")
    image.paste("green", (0, 150, 100, 300))  # half of the left third: 0.71 like Ireland
    image.paste("green", (100, 200, 150, 300))
    image.paste("green", (150, 250, 169, 300))  # 0.53 of the lower third, which is turned to the left: 0.75
    query, asked = Query(image, "", "stripe"), list[int]()
    count_queries(retriever, asked)
    [kept] = retriever.retrieve([query])
    assert kept.turned == 0 and kept.recognized is not None and kept.recognized < 0.5
    assert asked == [1, 3]
    turned = [_turned(query, place) for place in range(len(TURNS))]
    scores = [result.candidates[0].sim_c for result in retriever.retrieve([query, *turned], 1)]
    assert scores == pytest.approx([0.707, 0.749, 0.0, 0.0], abs=2e-3)
    retriever.propose = None  # any gain counts
    asked.clear()
    assert retriever.retrieve([query])[0].turned == 0 and asked[:3] == [1, 3, 1]


def test_a_batch_gives_what_each_image_gives_alone(retriever: Retriever[Index]) -> None:
    queries = [on_its_side("Ireland", degrees) for degrees in (0, *TURNS)]
    queries.append(Query(Image.new("RGB", (90, 60), "white"), "", "white"))
    asked = list[int]()
    together = retriever.retrieve(queries)
    for one, query in zip(together, queries, strict=True):
        [alone] = retriever.retrieve([query])
        assert (one.query_id, one.turned) == (query.id, alone.turned)
        assert one.recognized == pytest.approx(alone.recognized)
        assert [candidate.row for candidate in one.candidates] == [candidate.row for candidate in alone.candidates]
    assert [one.turned for one in together] == [0, 90, 180, 270, 0]
    count_queries(retriever, asked)
    retriever.retrieve(queries)
    assert asked == [5, 4 * 3, 3]  # one batch of all that are declined


def test_what_is_turned_is_read_too_and_its_boxes_are_in_the_image(retriever: Retriever[Index]) -> None:
    read = list[tuple[int, int]]()

    def refine(
        retrieve: Retrieve,
        queries: Sequence[Query],
        shown: Sequence[Query],
        results: Sequence[RetrievalResult],
        recognition: Recognition,
    ) -> list[RetrievalResult]:
        read.extend(query.image.size for query in queries)
        assert all(max(query.image.size) <= 512 for query in shown[1:])
        if not any(result.recognized and result.recognized > 0.9 for result in results):
            return [replace(result, text=()) for result in results]
        line = TextLine("IRELAND", 0.9, (0.1, 0.2, 0.4, 0.5))
        again = {step: ms + 7.0 for step, ms in results[0].timings_ms.items()} | {"read": 1000.0}
        return [replace(result, text=(line,), by_text=True, timings_ms=again) for result in results]

    retriever.refine = refine
    [found] = retriever.retrieve([Query(flag("Ireland", (900, 600)).transpose(LEFT[90]), "", "large")])
    assert read == [(600, 900), (900, 600)]  # the words are read in the image as large as it is
    assert found.turned == 90 and found.by_text and found.text is not None
    assert found.text[0].box == pytest.approx((0.2, 0.6, 0.5, 0.9))  # the left is the lower end of the image
    assert list(found.timings_ms) == ["step1", "step2", "step3", "read"] and found.timings_ms["read"] == 1000


def test_a_box_of_a_turned_image_is_one_of_the_image() -> None:
    image = Image.new("L", (200, 100))
    image.paste(255, (20, 10, 60, 80))
    for place in range(len(TURNS)):
        turned = _turned(Query(image, ""), place).image
        left, top, right, bottom = turned.getbbox() or (0, 0, 0, 0)
        box = (left / turned.width, top / turned.height, right / turned.width, bottom / turned.height)
        assert unturned(box, TURNS[place]) == pytest.approx((0.1, 0.1, 0.3, 0.8))


def test_what_does_not_count_turned_keeps_its_result(retriever: Retriever[Index]) -> None:
    query = on_its_side("Ireland", 90)
    retriever.recognition = replace(STRICT, crop_threshold=None)
    [before] = retriever.retrieve([query])
    retriever.recognition = replace(STRICT, crop_threshold=0.999)  # turned it has 0.993
    [found] = retriever.retrieve([query])
    assert (found.turned, found.recognized, found.rankings) == (0, before.recognized, before.rankings)


def test_images_are_small_where_they_are_turned(retriever: Retriever[Index]) -> None:
    queries = [Query(Image.new("RGB", size, "red"), "") for size in ((4000, 3000), (30, 20), (1, 9000))]
    results = [RetrievalResult("", [], {}, recognized=share) for share in (0.1, 0.1, 0.1)]
    small = declined(queries, results, STRICT)
    assert [query.image.size for query in small.values()] == [(572, 429), (30, 20), (1, 530)]
    assert declined(queries, [replace(result, recognized=None) for result in results], STRICT) == {}


def test_looks_at_an_image_without_a_key_share_one_and_its_owner_sees_none(retriever: Retriever[Index]) -> None:
    keys: list[str | None] = []

    def refine(retrieve: Retrieve, queries: Sequence[Query], shown: Sequence[Query], *rest: Any) -> Any:
        keys.extend(content_of(query.image) for query in shown)
        return rest[0]

    retriever.refine = refine
    query, with_key = on_its_side("France", 0), on_its_side("France", 0)
    set_content(with_key.image, "the file's digest")
    for one in (query, query, with_key):
        retriever.retrieve([one])
    first, second, own = keys[0], keys[-2], keys[-1]
    assert first is not None and second is not None and first != second and own == "the file's digest"
    query.image.paste("red", (0, 0, 300, 200))
    assert content_of(query.image) is None


def test_through_http_the_response_says_how_far_it_was_turned(retriever: Retriever[Index]) -> None:
    def encoded(image: Image.Image, **options: object) -> str:
        file = io.BytesIO()
        image.save(file, "PNG", **options)
        return data_uri(file.getvalue())

    on_side = on_its_side("Ireland", 90).image
    exif = Image.Exif()
    exif[0x0112] = 6  # a camera says that 90 degrees clockwise make it upright
    with TestClient(create_app(retriever, FakeGenerator())) as client:
        for path in ("/retrieve", "/answer"):
            reply = client.post(path, json={"image": encoded(on_side), "question": "Which colors?"}).json()
            assert (reply["turned"], reply["crop"], reply["entity"]["title"]) == (90, None, "Ireland")
            reply = client.post(path, json={"image": encoded(on_side, exif=exif), "question": "Which colors?"}).json()
            assert (reply["turned"], reply["entity"]["title"]) == (0, "Ireland")
        described = client.get("/openapi.json").json()["components"]["schemas"]["AnswerOut"]["properties"]["turned"]
    assert described["enum"] == [0, 90, 180, 270] and "clockwise" in described["description"]
