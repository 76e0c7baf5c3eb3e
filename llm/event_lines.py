"""Splits streams of server-sent events into lines.

httpx's `iter_lines` also splits at U+0085, U+2028 and U+2029, which JSON may contain unescaped, and so breaks events.
"""

from __future__ import annotations

import re

BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""
_ENDS = re.compile(rb"\r\n|\n|\r")


class EventLines:
    """Splits the bytes of one stream into lines, which end with LF, CR LF or CR."""

    def __init__(self) -> None:
        self._rest, self._after_cr, self._begun = b"", False, False

    def feed(self, data: bytes) -> list[str]:
        """Returns the lines that are completed by `data`, the next bytes of the stream."""
        if self._after_cr and data:
            data = data.removeprefix(b"\n")  # the rest of a CR LF, whose line has already been returned
        self._after_cr = data.endswith(b"\r") or (self._after_cr and not data)
        *lines, self._rest = _ENDS.split(self._rest + data)
        if not self._begun and lines:
            lines[0], self._begun = lines[0].removeprefix(BOM), True
        return [line.decode(errors="replace") for line in lines]

    def close(self) -> list[str]:
        """Returns the last line if it lacks a line break."""
        return self.feed(b"\n") if self._rest else []
