"""Answers to questions about the text on an image: what was read on it, also where nothing else is recognized."""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from PIL import Image

from generators.guard import GuardedGenerator
from retriever.label_reading import FEWEST, LEGIBLE
from retriever.recognition import is_declined
from retriever.types import Generation, GenerationRequest, TextLine

_PROMINENT = 0.75  # of the largest print: a name may be on several lines
_ILLEGIBLE = "no text on the image is legible; go closer, or turn it upright"


class QuotingGenerator(GuardedGenerator):
    """Answers a question about the text on an image with its lines; a name, only if the other generator does not.

    Arguments are those of a `GuardedGenerator`.
    """

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Returns one answer per request; those for the text do not reach the other generator."""
        asked = [number for number, request in enumerate(requests) if request.reading != "text"]
        answers = dict(zip(asked, await super().generate([requests[number] for number in asked]), strict=True))
        return [self._quoted(answers.get(number), request) for number, request in enumerate(requests)]

    async def stream(self, request: GenerationRequest) -> AsyncIterator[str | Generation]:
        """Yields the answer piece by piece, then the whole `Generation`."""
        whole = None
        if request.reading != "text":
            async for piece in super().stream(request):
                if isinstance(piece, str):
                    yield piece
                else:
                    whole = piece
        final = self._quoted(whole, request)
        if final.quote and final.answer:
            yield final.answer
        yield final

    def _quoted(self, generation: Generation | None, request: GenerationRequest) -> Generation:
        """Returns what the other generator answered, `None` if it was not asked, or what the image says."""
        if generation is None:
            generation = Generation(None, 0.0, declined=is_declined(request.recognized, self.threshold))
        if request.reading is None or generation.answer is not None:
            return generation
        lines, between = tuple(line for line in request.text or () if line.confidence >= LEGIBLE), "\n"
        if request.reading == "name":
            lines, between = _prominent(lines, request.image), " "
        if not lines:
            return generation if request.reading == "name" else replace(generation, limitation=_ILLEGIBLE, quote=())
        answer, sure = between.join(line.text for line in lines), statistics.fmean(line.confidence for line in lines)
        return replace(generation, answer=answer, confidence=sure, ending="complete", quote=lines)


def _prominent(lines: Sequence[TextLine], image: Image.Image | None) -> tuple[TextLine, ...]:
    """Returns the lines in the largest print."""
    wide, high = (1, 1) if image is None else image.size

    def size(line: TextLine) -> float:
        left, top, right, bottom = line.box
        sides = (right - left) * wide, (bottom - top) * high
        return min(*sides, 2 * max(sides) / len(line.text))  # a box around a sloping line is higher than its letters

    sizes = {line: size(line) for line in lines if sum(map(str.isalnum, line.text)) >= FEWEST}
    return tuple(line for line, own in sizes.items() if own >= _PROMINENT * max(sizes.values()))
