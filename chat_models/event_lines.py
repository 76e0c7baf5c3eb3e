"""Splits streams of server-sent events into lines.

httpx's `iter_lines` also splits at U+0085, U+2028 and U+2029, which JSON may contain unescaped, and so breaks events.
"""

from __future__ import annotations

import re

BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""
_ENDS = re.compile(rb"\r\n|\n|\r")


class EventLines:
    """Splits the bytes of one stream into lines, which end with LF, CR LF or CR.

    Byte order marks at the beginning of lines are left out: streams that are joined have several. A byte that is not
    UTF-8 becomes a low surrogate, as by the error handler `surrogateescape`.
    """

    def __init__(self) -> None:
        self._rest, self._after_cr = bytearray(), False

    def feed(self, data: bytes) -> list[str]:
        """Returns the lines that are completed by `data`, the next bytes of the stream."""
        if self._after_cr and data:
            data = data.removeprefix(b"\n")  # the rest of a CR LF, whose line has already been returned
        self._after_cr = data.endswith(b"\r") or (self._after_cr and not data)
        first, *lines = _ENDS.split(data)
        self._rest += first
        if not lines:
            return []
        lines, self._rest = [bytes(self._rest), *lines[:-1]], bytearray(lines[-1])
        return [line.removeprefix(BOM).decode(errors="surrogateescape") for line in lines]

    def close(self) -> list[str]:
        """Returns the last line if it lacks a line break."""
        return self.feed(b"\n") if self._rest else []
