"""Stop strings, as in OpenAI's API: an answer ends before the first of them that it completes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from retriever.types import Generation


def before_stop(text: str, stop: Sequence[str]) -> str:
    """Returns the text before the stop string that is complete first, as if the text were written left to right.

    Example:
        >>> before_stop("Tokyo. It was Edo.", [" It", "."])
        'Tokyo'
    """
    ends = ((at + len(one), at) for one in stop if (at := text.find(one)) >= 0)
    return text[: min(ends, default=(0, len(text)))[1]]


def stopped(generation: Generation, stop: Sequence[str]) -> Generation:
    """Returns an answer that ends before the first stop string, without the white space there, and with its span."""
    whole = generation.answer
    if whole is None or (answer := before_stop(whole, stop)) == whole:
        return generation
    answer = answer.rstrip()
    span = generation.span if answer else None
    if span and span[1] - span[0] == len(whole):  # a "Yes" has the span that it rests on
        span = span[0], span[0] + len(answer)
    return replace(generation, answer=answer, span=span, ending="complete")


async def until_stop(pieces: AsyncIterator[str | Generation], stop: Sequence[str]) -> AsyncIterator[str | Generation]:
    """Yields the text of a stream up to the first stop string, then its `Generation`, which ends there too.

    Text that may be the beginning of a stop string is held back until the next piece shows whether it is.
    """
    held, ended = "", False
    async for piece in pieces:
        if isinstance(piece, Generation):
            if held:
                yield held
            yield stopped(piece, stop)
        elif not ended:
            text = held + piece
            before = before_stop(text, stop)
            ended = before != text
            sent = before if ended else text[: len(text) - _begun(text, stop)]
            held = "" if ended else text[len(sent) :]
            if sent:
                yield sent


def _begun(text: str, stop: Sequence[str]) -> int:
    """Returns the length of the longest beginning of a stop string that the text ends with."""
    lengths = (n for one in stop for n in range(1, len(one)) if text.endswith(one[:n]))
    return max(lengths, default=0)
