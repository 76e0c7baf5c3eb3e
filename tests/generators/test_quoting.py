from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from PIL import Image

from generators.quoting import QuotingGenerator
from retriever.types import NOT_RECOGNIZED, Evidence, Generation, GenerationRequest, Reading, TextLine

LABEL = (
    TextLine("ACME", 1.0, (0.1, 0.1, 0.5, 0.3)),
    TextLine("Foods", 0.9, (0.1, 0.3, 0.5, 0.5)),
    TextLine("net 500 g", 0.8, (0.1, 0.8, 0.4, 0.85)),
    TextLine("xqz", 0.7, (0.0, 0.0, 1.0, 0.9)),
)
"""A label on an image of 200 x 100 pixels; its last line is a pattern that was taken for text."""


EVIDENCE = Evidence("e", "Beans", "Facts", "Maker: Acme\nText: ACME Foods 500 g")


class Article:
    """Answers with what the article says, if anything."""

    name = "article"

    def __init__(self, answer: str | None = None, confidence: float | None = 0.5) -> None:
        self.answer, self.confidence = answer, confidence

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return [Generation(self.answer, self.confidence) for _ in requests]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        [generation] = await self.generate([request])
        if generation.answer is not None:
            yield generation.answer
        yield generation


def request(reading: Reading | None, recognized: float | None, text: tuple[TextLine, ...] | None) -> GenerationRequest:
    image = Image.new("RGB", (200, 100))
    return GenerationRequest("?", image, EVIDENCE, recognized=recognized, text=text, reading=reading)


def answer(article: Article, one: GenerationRequest) -> Generation:
    """Returns the answer to a request, which a stream has as well."""
    generator = QuotingGenerator(article, 0.4)

    async def both() -> tuple[list[Generation], list[str | Generation]]:
        return await generator.generate([one]), [piece async for piece in generator.stream(one)]

    [generation], [*pieces, last] = asyncio.run(both())
    assert last == generation and pieces == ([] if generation.answer is None else [generation.answer])
    return generation


@pytest.mark.parametrize("recognized", [0.1, 0.9, None])
def test_a_question_for_the_text_gets_its_lines(recognized: float | None) -> None:
    for article in (Article(), Article("ACME Foods 500 g", 0.7), Article("something else", 0.9)):
        found = answer(article, request("text", recognized, LABEL))
        assert (found.answer, found.quote) == ("ACME\nFoods\nnet 500 g", LABEL[:3])
        assert found.confidence == pytest.approx(0.9) and found.declined == (recognized == 0.1) and found.reason is None


def test_an_article_that_plainly_tells_the_text_is_quoted() -> None:
    for confidence in (0.8, None):  # a chat model reports none
        found = answer(Article("ACME Foods 500 g", confidence), request("text", 0.9, LABEL))
        assert (found.answer, found.quote) == ("ACME Foods 500 g", None)
    assert found.confidence == 0.9
    declined = answer(Article("ACME Foods 500 g", 0.8), request("text", 0.1, LABEL))
    assert declined.quote == LABEL[:3] and declined.declined


def test_a_name_is_the_largest_print_unless_the_article_has_the_answer() -> None:
    for article in (Article("Acme", 0.8), Article("Acme"), Article("Acme Food", 0.1)):  # the last two are on the image
        assert answer(article, request("name", 0.8, LABEL)).answer == article.answer
    for article, recognized, declined in (
        (Article(), 0.8, False),
        (Article("Beans", 0.9), 0.8, False),  # not in the article's words
        (Article("Maker"), 0.8, False),
        (Article("Acme"), 0.1, True),
    ):
        found = answer(article, request("name", recognized, LABEL))
        assert (found.answer, found.quote, found.declined) == ("ACME Foods", LABEL[:2], declined)


def test_letters_are_measured_where_a_line_slopes_or_runs_up() -> None:
    sloping = TextLine("made with sunflower oil only", 1.0, (0.0, 0.0, 1.0, 0.9))
    upright = TextLine("ZENITH", 1.0, (0.8, 0.0, 0.95, 1.0))
    assert answer(Article(), request("name", 0.1, (*LABEL[:1], sloping, upright))).quote == (upright,)


@pytest.mark.parametrize("text", [(), None, LABEL[3:]])
def test_where_nothing_is_legible_there_is_no_answer(text: tuple[TextLine, ...] | None) -> None:
    found = answer(Article(), request("text", 0.1, text))
    assert (found.answer, found.quote, found.declined, found.confidence) == (None, (), True, 0.0)
    assert found.reason == "no text on the image is legible; go closer, or turn it upright"
    assert answer(Article(), request("name", 0.1, text)) == Generation(None, 0.1, declined=True)
    assert answer(Article(), request("name", 0.1, text)).reason == NOT_RECOGNIZED
    assert answer(Article("Maker"), request("name", 0.8, text)).answer == "Maker"
    few = (replace(LABEL[0], text="A"),)  # a letter is no name
    assert answer(Article(), request("name", 0.1, few)).quote is None


def test_other_questions_are_guarded_as_before() -> None:
    assert answer(Article("Acme"), request(None, 0.5, LABEL)) == Generation("Acme", 0.25)
    assert answer(Article("Acme"), request(None, 0.1, LABEL)) == Generation(None, 0.1, declined=True)
    assert answer(Article(), request(None, 0.5, LABEL)) == Generation(None, 0.25)
