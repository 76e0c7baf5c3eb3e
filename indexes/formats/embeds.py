"""Brings the text of notes that others embed: `![[Note]]`, `![[Note#Heading]]` and `![[Note#^block]]` of Obsidian."""

from __future__ import annotations

import re
from collections.abc import Iterator

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})")
_BLOCK = re.compile(r"(?:^|[ \t])\^([\w-]+)[ \t]*$")


def part_of(text: str, part: str) -> str:
    """Returns a part of a note: all of it for "", the text of a heading, or the block with an id (`^id`).

    Headings are one level deeper than in the note, since they are below one of the note that embeds it; a part that is
    not there is "".
    """
    lines = text.split("\n")
    if part.startswith("^"):
        lines = _block(lines, part[1:])
    elif part:
        lines = list(_below(lines, part.rpartition("#")[2]))
    return "\n".join(_deeper(lines)).strip("\n")


def _deeper(lines: list[str]) -> Iterator[str]:
    """Yields lines with their headings one level deeper."""
    fenced = False
    for line in lines:
        fenced ^= _FENCE.match(line) is not None
        is_heading = not fenced and _HEADING.fullmatch(line) is not None and not line.startswith("######")
        yield f"#{line}" if is_heading else line


def _below(lines: list[str], title: str) -> Iterator[str]:
    """Yields the lines from a heading up to the next one of its level."""
    level, fenced = 0, False
    for line in lines:
        fenced ^= _FENCE.match(line) is not None
        found = None if fenced else _HEADING.fullmatch(line)
        if found is not None and level and len(found[1]) <= level:
            return
        if found is not None and not level and _folded(found[2]) == _folded(title):
            level = len(found[1])
        if level:
            yield line


def _block(lines: list[str], id: str) -> list[str]:
    """Returns the paragraph, list item or table with an id at its end or below it."""
    for number, line in enumerate(lines):
        if (found := _BLOCK.search(line)) is None or found[1] != id:
            continue
        end = number + 1
        if not line[: found.start()].strip():  # below its block
            end = next((n for n in range(number - 1, -1, -1) if lines[n].strip()), -1) + 1
        elif re.match(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]", line):
            return [line[: found.start()]]
        start = next((n for n in range(end - 1, -1, -1) if not lines[n].strip()), -1) + 1
        return [_BLOCK.sub("", one) for one in lines[start:end]]
    return []


def _folded(title: str) -> str:
    return re.sub(r"[\W_]+", " ", title).strip().casefold()
