from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from generators.guard import NOTHING_FITS, GuardedGenerator
from retriever.types import Generation, GenerationRequest


class Echo:
    """Answers with the question and records its requests."""

    name = "echo"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        self.asked += [request.question for request in requests]
        return [Generation(r.question, None if r.question == "no confidence" else 0.5) for r in requests]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        self.asked.append(request.question)
        yield request.question
        yield Generation(request.question, 0.5)


def request(question: str, recognized: float | None) -> GenerationRequest:
    return GenerationRequest(question, None, None, recognized=recognized)


def test_only_what_is_recognized_is_asked() -> None:
    echo = Echo()
    requests = [request("a", 0.2), request("b", 0.8), request("c", None), request("no confidence", 0.6)]
    answers = asyncio.run(GuardedGenerator(echo, 0.5).generate(requests))
    assert echo.asked == ["b", "c", "no confidence"]
    assert [answer.answer for answer in answers] == [None, "b", "c", "no confidence"]
    assert [answer.confidence for answer in answers] == [0.2, 0.4, 0.5, 0.6]


def test_nothing_is_asked_if_all_are_declined() -> None:
    echo = Echo()
    assert asyncio.run(GuardedGenerator(echo, 0.5).generate([request("a", 0.1)])) == [
        Generation(None, 0.1, declined=True, limitation=NOTHING_FITS)
    ]
    assert echo.asked == []


def test_streams_are_guarded_too() -> None:
    async def collect(one: GenerationRequest) -> list[str | Generation]:
        return [piece async for piece in GuardedGenerator(Echo(), 0.5).stream(one)]

    assert asyncio.run(collect(request("a", 0.4))) == [Generation(None, 0.4, declined=True, limitation=NOTHING_FITS)]
    assert asyncio.run(collect(request("b", 0.5))) == ["b", Generation("b", 0.25)]
