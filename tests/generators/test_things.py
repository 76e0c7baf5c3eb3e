"""Answers about different things that several images of a question show."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from PIL import Image

from generators.chat import request_messages
from generators.reader.reader import ExtractiveReader
from generators.things import about_each, things_of
from retriever.types import Evidence, Generation, GenerationRequest, OtherSection, Photograph

FRONT, BACK = Image.new("RGB", (4, 4), "red"), Image.new("RGB", (4, 4), "blue")
NORWAY = Evidence("no", "Norway", "Government", "Norway has its capital in Oslo.", 1)
PERU = Evidence("pe", "Peru", "Nature", "Peru has deserts and mountains.", 0)
LIMA = Evidence("pe", "Peru", "Government", "Peru has its capital in Lima.", 1)


def photograph(*sections: Evidence) -> Photograph:
    others = tuple(OtherSection(section, -0.125 * place) for place, section in enumerate(sections))
    return Photograph("", "", 0.9, None, 0, others)


def request(*photographs: Photograph, question: str = "What is its capital?") -> GenerationRequest:
    return GenerationRequest(question, FRONT, PERU, more=(BACK,), photographs=photographs, recognized=0.9)


BOTH = request(photograph(NORWAY), photograph(PERU, LIMA))


def test_things_of_a_request() -> None:
    things = things_of(BOTH)
    about = {number: (one.image, one.evidence) for number, one in things.items()}
    assert about == {1: (FRONT, NORWAY), 2: (BACK, PERU)}
    assert [other.evidence for other in things[2].others] == [LIMA] and not things[2].photographs
    for one in (request(photograph(), photograph()), request()):
        assert things_of(one) == {1: one}


def test_the_reader_answers_about_each() -> None:
    reader = ExtractiveReader()
    same = request(photograph(), photograph())
    both, alone = asyncio.run(reader.generate([BOTH, same]))
    assert both.answer == "Norway (image 1): Oslo; Peru (image 2): Lima"
    assert both.passages == (NORWAY, LIMA) and both.evidence == LIMA
    assert both.span is not None and LIMA.text[slice(*both.span)] == "Lima"
    assert [alone] == asyncio.run(reader.generate([same]))  # batched or not

    async def pieces() -> list[str | Generation]:
        return [piece async for piece in reader.stream(BOTH)]

    assert asyncio.run(pieces()) == [both.answer, both]


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Which country is larger?", "How large is it?"),
        ("Which one is the smaller country?", "How large is it?"),
        ("Which of them is older?", "How old is it?"),
        ("Which has more inhabitants?", "How many inhabitants has it?"),
        ("Which river is over 5 km long?", "Which river is over 5 km long?"),
        ("What is under this bridge?", "What is under this bridge?"),
    ],
)
def test_a_comparison_asks_for_the_measure_of_each(question: str, asked: str) -> None:
    seen = list[str]()

    async def answers(requests: Sequence[GenerationRequest]) -> list[Generation]:
        seen.extend(one.question for one in requests)
        return [Generation("9", 0.5) for _ in requests]

    same = request(photograph(), photograph(), question=question)
    compared = request(photograph(NORWAY), photograph(PERU), question=question)
    asyncio.run(about_each([compared, same], answers))
    assert seen == [asked, asked, question]


def test_what_is_not_found_and_what_is_only_a_name() -> None:
    async def answers(requests: Sequence[GenerationRequest]) -> list[Generation]:
        return [given[one.evidence.entity_title] for one in requests if one.evidence is not None]

    given = {"Norway": Generation("Norway", 0.5), "Peru": Generation(None, 0.25, limitation="why")}
    [answer] = asyncio.run(about_each([BOTH], answers))
    assert (answer.answer, answer.confidence, answer.span) == ("Norway (image 1); Peru (image 2): not found", 0.5, None)
    given["Norway"] = Generation(None, 0.125)
    [answer] = asyncio.run(about_each([BOTH], answers))
    assert (answer.answer, answer.confidence, answer.limitation) == (None, 0.125, "why")


def test_a_chat_model_gets_all_images_and_texts() -> None:
    (_, user), cut = request_messages(BOTH, "evqa", True, 100, lambda text, most: (text, most < 50))
    *images, text = user["content"]
    assert [part["type"] for part in images] == ["image_url", "image_url"]
    assert images[0] != images[1] and not cut  # each section may have half of the tokens
    context = text["text"].removeprefix("- Context: ")
    assert context.startswith(
        "Image 1:\n# Wiki Article: Norway\n## Section Title: Government\nNorway has its capital in"
    )
    assert " in Oslo.\n\nImage 2:\n# Wiki Article: Peru\n" in context and "Peru has deserts" in context
    (_, user), cut = request_messages(BOTH, "evqa", False, 98, lambda text, most: (text, most < 50))
    assert cut and user["content"].startswith("- Context: Image 1:\n")
    same = request(photograph(), photograph())
    (_, user), _ = request_messages(same, "evqa", True, 100, lambda text, most: (text, False))
    assert len(user["content"]) == 3 and "Image" not in user["content"][2]["text"]
