"""Splits streams of server-sent events into lines.

httpx's `iter_lines` also splits at U+0085, U+2028 and U+2029, which JSON may contain unescaped, and so breaks events.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator


class EventLines:
    """Splits the bytes of one stream into lines, which end with LF or CR LF."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """Returns the lines that are completed by `data`, the next bytes of the stream."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.removesuffix(b"\r").decode(errors="replace") for line in lines]


async def event_lines(stream: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """Yields the lines of a stream; the last one may lack a line break."""
    lines = EventLines()
    async for data in stream:
        for line in lines.feed(data):
            yield line
    for line in lines.feed(b"\n"):
        yield line
