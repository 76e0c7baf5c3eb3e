from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from generators.stop import before_stop, stopped, until_stop
from retriever.types import Generation

ANSWER = "Tokyo, once Edo"  # its span begins at 5


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        ((), "Tokyo, once Edo"),
        ((",",), "Tokyo"),
        (("Edo", " once"), "Tokyo,"),
        (("Tokyo, on", "kyo"), "To"),  # complete first, although the other begins first
        (("yo, o", ", o"), "Tok"),  # both are complete at once: the longer one
        (("Tokyo",), ""),
        (("Kyoto", "Edo.", "edo"), "Tokyo, once Edo"),
    ],
)
def test_streams_in_any_pieces_end_where_the_whole_text_does(stop: tuple[str, ...], text: str) -> None:
    assert before_stop(ANSWER, stop) == text
    for size in range(1, len(ANSWER) + 1):
        pieces = [ANSWER[start : start + size] for start in range(0, len(ANSWER), size)]
        assert "".join(piece for piece in streamed(pieces, stop) if isinstance(piece, str)) == text


def streamed(pieces: Sequence[str], stop: Sequence[str]) -> list[str | Generation]:
    async def stream() -> AsyncIterator[str | Generation]:
        for piece in pieces:
            yield piece
        yield Generation("".join(pieces), 0.5, (5, 5 + len("".join(pieces))))

    async def collect() -> list[str | Generation]:
        return [piece async for piece in until_stop(stream(), stop)]

    return asyncio.run(collect())


def test_what_may_begin_a_stop_string_is_held_back() -> None:
    pieces = ["was E", "do", " once"]
    assert streamed(pieces, ["Edo."]) == ["was ", "Edo once", Generation("was Edo once", 0.5, (5, 17))]
    assert streamed(["Toky", "o"], ["yo,"]) == ["Tok", "yo", Generation("Tokyo", 0.5, (5, 10))]
    assert streamed(["Toky", "o, once", " Edo"], ["yo,"]) == ["Tok", Generation("Tok", 0.5, (5, 8))]


def test_span_and_white_space() -> None:
    assert stopped(Generation(ANSWER, 0.5, (5, 20)), ["once"]) == Generation("Tokyo,", 0.5, (5, 11))
    assert stopped(Generation(ANSWER, 0.5), [","]) == Generation("Tokyo", 0.5)
    assert stopped(Generation(ANSWER, 0.5, (5, 20)), ["Tok"]) == Generation("", 0.5)
    assert stopped(Generation(None, 0.1), ["Tok"]) == Generation(None, 0.1)
    assert stopped(Generation(ANSWER, ending="cut"), [","]) == Generation("Tokyo")
    assert stopped(Generation(ANSWER, ending="cut"), ["Kyoto"]) == Generation(ANSWER, ending="cut")
