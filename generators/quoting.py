"""Answers to questions about the text on an image: what was read on it, also where nothing else is recognized."""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Sequence

from PIL import Image

from generators.guard import GuardedGenerator
from retriever.label_reading import FEWEST, LEGIBLE
from retriever.results import answer_span
from retriever.types import Generation, GenerationRequest, TextLine

CONFIDENT = 0.75
"""From this confidence of its own on, what a generator found in the article stands before what was read on the image.

On 120 articles that do not tell what is written, the extractive reader reaches it for 2 of 240 questions; where a field
or a sentence tells it, for 10 of 12.
"""
_AGREEING = 0.7  # of an answer's runs of three letters
_PROMINENT = 0.75  # of the largest print: a name may be on several lines
_ILLEGIBLE = "no text on the image is legible; go closer, or turn it upright"


class QuotingGenerator(GuardedGenerator):
    """Answers questions about the text on an image with its lines, unless the article plainly has the answer.

    Arguments are those of a `GuardedGenerator`.
    """

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request."""
        answers = await super().generate(requests)
        return [
            generation if request.reading is None else quoted(generation, request)
            for generation, request in zip(answers, requests, strict=True)
        ]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer piece by piece, in one if the question is about the text, then the whole `Generation`."""
        if request.reading is None:
            async for piece in super().stream(request):
                yield piece
            return
        [generation] = await self.generate([request])
        if generation.answer is not None:
            yield generation.answer
        yield generation


def quoted(generation: Generation, request: GenerationRequest) -> Generation:
    """Returns an answer of the article, or what was read on the image.

    An article's answer stands if it is in the article's words and confident; a name also if it is on the image, or if
    nothing legible is.

    Args:
        generation: The article's answer, if it has one.
        request: A question about the text on its image.
    """
    evidence = generation.evidence or request.evidence
    own = (generation.confidence or 0.0) / (request.recognized or 1.0)
    if evidence is not None and own >= CONFIDENT and answer_span(generation, evidence.text) is not None:
        return generation
    lines = tuple(line for line in request.text or () if line.confidence >= LEGIBLE)
    if request.reading == "name":
        names = _prominent(lines, (request.image, *request.more))
        return generation if not names or _is_on(generation.answer, lines) else _read(generation, names, " ")
    if lines:
        return _read(generation, lines, "\n")
    return Generation(None, 0.0, declined=generation.declined, limitation=_ILLEGIBLE, quote=())


def _read(generation: Generation, lines: Sequence[TextLine], between: str) -> Generation:
    answer, sure = between.join(line.text for line in lines), statistics.fmean(line.confidence for line in lines)
    return Generation(answer, sure, declined=generation.declined, quote=tuple(lines))


def _is_on(answer: str | None, lines: Sequence[TextLine]) -> bool:
    """Returns whether most of an answer is on an image, where letters may be misread and words joined."""
    said = _letters(answer or "")
    runs = [said[start : start + FEWEST] for start in range(len(said) - FEWEST + 1)]
    text = _letters("".join(line.text for line in lines))
    return bool(runs) and sum(run in text for run in runs) >= _AGREEING * len(runs)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _prominent(lines: Sequence[TextLine], images: Sequence[Image.Image | None]) -> tuple[TextLine, ...]:
    """Returns the lines in the largest print."""

    def size(line: TextLine) -> float:
        image, (left, top, right, bottom) = images[line.photograph - 1], line.box
        wide, high = (1, 1) if image is None else image.size
        sides = (right - left) * wide, (bottom - top) * high
        return min(*sides, 2 * max(sides) / len(line.text))  # a box around a sloping line is higher than its letters

    sizes = {line: size(line) for line in lines if sum(map(str.isalnum, line.text)) >= FEWEST}
    return tuple(line for line, own in sizes.items() if own >= _PROMINENT * max(sizes.values()))
