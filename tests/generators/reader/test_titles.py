"""Questions without an image, and the article's title as their answer."""

from __future__ import annotations

import pytest
from PIL import Image

from generators.reader.reader import ExtractiveReader
from generators.reader.titles import asked_for
from retriever.types import Evidence, Generation, GenerationRequest

TEXT = "The capital of Norway is Oslo. Its parliament is the Storting, which has 169 seats."
NORWAY = Evidence("no", "Norway", "Government", TEXT)


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Which country has the capital Oslo?", "Oslo", "Norway"),
        ("What's the country whose parliament is the Storting called?", "the Storting", "Norway"),
        ("Oslo is the capital of which country?", "The capital of Norway is Oslo", "Norway"),
        ("What is the capital of Norway?", "Oslo", "Oslo"),
        ("Which Norway has the capital Oslo?", "Oslo", "Oslo"),  # it is named
        ("Which is the capital, Oslo or Bergen?", "Oslo", "Oslo"),
        ("Where is Oslo?", "Oslo", "Oslo"),
        ("Which country has 169 seats?", "Storting", "Storting"),
        ("Which country has the capital Oslo?", None, None),
    ],
)
def test_an_answer_that_the_question_says(question: str, answer: str | None, expected: str | None) -> None:
    generation = Generation(answer, 0.9, None if answer is None else (0, 4))
    assert asked_for(GenerationRequest(question, None, NORWAY), generation).answer == expected
    shown = GenerationRequest(question, Image.new("RGB", (2, 2)), NORWAY)
    assert asked_for(shown, generation) is generation  # of an image, the title is known


async def test_a_reader_names_what_is_asked_for_here_and_in_batches_of_a_service() -> None:
    requests = [
        GenerationRequest(question, None, NORWAY)
        for question in ("Which country has the capital Oslo?", "What is the capital of Norway?")
    ]

    async def submit(request: GenerationRequest) -> Generation:
        return reader.read(request.question, NORWAY)

    reader, served = ExtractiveReader(), ExtractiveReader(apart=True)
    served.submit = submit
    for own in (reader, served):
        first, second = await own.generate(requests)
        assert (first.answer, first.span, second.answer) == ("Norway", None, "Oslo")
