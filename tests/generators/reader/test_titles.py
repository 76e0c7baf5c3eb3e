"""Questions without an image, and the article's title as their answer."""

from __future__ import annotations

import pytest
from PIL import Image

from generators.reader.reader import ExtractiveReader
from generators.reader.titles import posed, unposed
from retriever.types import Evidence, Generation, GenerationRequest, OtherSection

TEXT = "The capital of Norway is Oslo. Its parliament is the Storting, which has 169 seats."
NORWAY = Evidence("no", "Norway", "Government", TEXT)


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Which country has the capital Oslo?", "Oslo", "Norway"),
        ("What's the country whose parliament is the Storting called?", "the Storting", "Norway"),
        ("Oslo is the capital of which country?", "The capital of Norway is Oslo", "Norway"),
        ("What country has Oslo as its capital?", "Oslo", "Norway"),
        ("What is the capital of Norway?", "Oslo", "Oslo"),
        ("Which Norway has the capital Oslo?", "Oslo", "Oslo"),  # it is named
        ("Which is the capital, Oslo or Bergen?", "Oslo", "Oslo"),
        ("Where is Oslo?", "Oslo", "Oslo"),
        ("Which parliament does it have?", "Storting", "Storting"),  # it is known
        ("Which country has 169 seats?", "Storting", "Storting"),
        ("Which country has the capital Oslo?", None, None),
    ],
)
def test_an_answer_that_the_question_says(question: str, answer: str | None, expected: str | None) -> None:
    request = GenerationRequest(question, None, NORWAY)
    text = posed(request).evidence
    assert text is not None
    start = text.text.rfind(answer) if answer else 0
    generation = Generation(answer, 0.9, None if answer is None else (start, start + len(answer)))
    found = unposed(request, generation)
    assert found.answer == expected
    assert found.span is None or TEXT[slice(*found.span)] == answer  # a place in the section itself
    shown = GenerationRequest(question, Image.new("RGB", (2, 2)), NORWAY)
    assert posed(shown) is shown and unposed(shown, generation) is generation  # of an image, the title is known


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("Which kingdom has 169 seats?", "Kingdom: Norway\n"),  # as its first sentence calls it
        ("Which country has 169 seats?", "Norway\n"),
        ("Whose parliament has 169 seats?", "Norway\n"),
        ("Which kingdom did Olav rule?", "Norway\n"),
        ("How many seats has the Storting?", ""),
        ("How many seats has Norway's parliament?", ""),
        ("Which kingdom is it?", ""),
    ],
)
def test_the_title_can_be_chosen_where_a_question_may_ask_for_it(question: str, line: str) -> None:
    seats = Evidence("no", "Norway", "Parliament", "Norway is a kingdom. The Storting has 169 seats.")
    request = GenerationRequest(question, None, NORWAY, others=(OtherSection(seats, -0.2),))
    asked = posed(request)
    assert asked.evidence is not None and asked.evidence.text == line + TEXT
    assert [other.evidence.text for other in asked.others] == [line + seats.text]
    span = (len(line) + 25, len(line) + 33)
    other = unposed(request, Generation("Storting", 0.9, span, evidence=asked.others[0].evidence))
    assert other.evidence == seats and seats.text[slice(*(other.span or ()))] == "Storting"


async def test_a_reader_names_what_is_asked_for_here_and_in_batches_of_a_service() -> None:
    requests = [
        GenerationRequest(question, None, NORWAY)
        for question in ("Which country has 169 seats?", "What is the capital of Norway?")
    ]

    async def submit(request: GenerationRequest) -> Generation:
        return reader.read_all([request])[0]

    reader, served = ExtractiveReader(), ExtractiveReader(apart=True)
    served.submit = submit
    for own in (reader, served):
        first, second = await own.generate(requests)
        assert (first.answer, first.span, second.answer) == ("Norway", None, "Oslo")
