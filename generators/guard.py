"""A generator that declines questions about images that were not recognized, and those that no section fits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType
from typing import Self

from retriever.asking import Generator
from retriever.recognition import is_declined
from retriever.types import Generation, GenerationRequest

NOTHING_FITS = "nothing in the index fits the question; name what it is about, or send an image of it"


class GuardedGenerator:
    """Asks another generator if the image was recognized, and multiplies its confidence by that of the recognition.

    Of a question without an image, what is recognized is the entity that it is about.

    Args:
        generator: The generator that answers.
        threshold: Requests with a lower `recognized` are declined; those without it never are.
    """

    def __init__(self, generator: Generator, threshold: float) -> None:
        self.generator, self.threshold = generator, threshold

    async def __aenter__(self) -> Self:
        """Enters the other generator if it is a context manager."""
        if isinstance(self.generator, AbstractAsyncContextManager):
            await self.generator.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Exits the other generator."""
        if isinstance(self.generator, AbstractAsyncContextManager):
            await self.generator.__aexit__(kind, error, trace)

    @property
    def name(self) -> str:
        """The name of the generator that answers."""
        return self.generator.name

    @property
    def concurrency(self) -> int:
        """How many requests the generator that answers works on at the same time."""
        return getattr(self.generator, "concurrency", 1)

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request; declined requests do not reach the other generator."""
        asked = [number for number, request in enumerate(requests) if not self._declined(request)]
        answers = await self.generator.generate([requests[number] for number in asked]) if asked else []
        given = dict(zip(asked, answers, strict=True))
        return [
            _joint(given[number], request) if number in given else _none(request)
            for number, request in enumerate(requests)
        ]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer piece by piece, then the whole `Generation`."""
        if self._declined(request):
            yield _none(request)
            return
        async for piece in self.generator.stream(request):
            yield _joint(piece, request) if isinstance(piece, Generation) else piece

    def _declined(self, request: GenerationRequest) -> bool:
        return is_declined(request.recognized, self.threshold)


def _none(request: GenerationRequest) -> Generation:
    limitation = NOTHING_FITS if request.image is None else None
    return Generation(None, request.recognized, declined=True, limitation=limitation)


def _joint(generation: Generation, request: GenerationRequest) -> Generation:
    if request.recognized is None:
        return generation
    own = 1.0 if generation.confidence is None else generation.confidence
    return replace(generation, confidence=own * request.recognized)
