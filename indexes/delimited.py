"""Where the header of a CSV file is, and what separates its columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from pathlib import Path

ABOVE, BELOW = 100, 5
"""Lines above a header, and those below that tell it from a title."""
BLANK = " \t\r\n,;|"
DELIMITER_LINE = re.compile(r'"?sep=(.)"?\s*')
"""A line above the header with which Excel names the delimiter."""
_DELIMITERS = ",;\t|"


def header_in(lines: Sequence[str], file: Path, is_name: Callable[[str], bool]) -> tuple[int, str]:
    """Returns the number of lines above the one that names the columns, and their separator.

    Those may be blank, or titles or comments, which are one value above lines of several.

    Args:
        lines: The first lines of the file.
        file: Its path, for messages.
        is_name: Tells usual names of columns from titles.

    Raises:
        ValueError: There is no header.
    """
    delimiter = ""
    for number, line in enumerate(lines):
        names = [name.strip() for name in _split(line, delimiter) if name.strip()]
        if match := DELIMITER_LINE.fullmatch(line):
            delimiter = match[1]
        elif len(names) == 1 and not is_name(names[0]) and _are_wider(lines[number + 1 :], delimiter):
            continue
        elif names:
            return number, delimiter or _delimiter(lines[number:])
    raise ValueError(f"{file}: has no header; its first line must name the columns")


def _delimiter(lines: Sequence[str]) -> str:
    """Returns the separator that splits the first lines into equally many values, else the header's most frequent."""

    def fits(delimiter: str) -> bool:
        rows = list(csv.reader(lines[: BELOW + 2], delimiter=delimiter))[: BELOW + 1]  # the last may be cut off
        widths = {len(row) for row in rows if row}
        return len(widths) == 1 and max(widths) > 1

    return max(_DELIMITERS, key=lambda delimiter: (fits(delimiter), lines[0].count(delimiter)))


def _are_wider(lines: Sequence[str], delimiter: str) -> bool:
    """Returns whether the next lines have several values each, as many in all of them."""
    widths = {len(_split(line, delimiter)) for line in lines[:BELOW] if line.strip(BLANK)}
    return len(widths) == 1 and max(widths) > 1


def _split(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter or max(_DELIMITERS, key=line.count)), [])
