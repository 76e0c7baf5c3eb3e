"""Brings the text of notes that others embed: `![[Note]]`, `![[Note#Heading]]` and `![[Note#^block]]` of Obsidian."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from indexes.knowledge.formats.losses import Losses

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})")
_BLOCK = re.compile(r"(?:^|[ \t])\^([\w-]+)[ \t]*$")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]")
_DRAWN = re.compile(
    r"(?:^%%[ \t]*\n)?^#{1,2} (?:Excalidraw Data|Text Elements|Drawing)[ \t]*$|^```compressed-json", re.M
)
"""Where the data of a drawing of Excalidraw begin; what a note says above them is text."""
_SWITCH = re.compile(r"^==.*EXCALIDRAW VIEW.*$\n?", re.MULTILINE)  # the line that tells how to see the drawing


def part_of(text: str, part: str, brought: set[int]) -> str:
    """Returns a part of a note: all of it for "", the text of a heading, or the block with an id (`^id`).

    Headings are one level deeper than in the note, since they are below one of the note that embeds it; a part that is
    not there is "". The lines whose numbers are in `brought` have been brought before; they are left out, and those of
    the part added.
    """
    lines = text.split("\n")
    numbers = range(len(lines))
    if part.startswith("^"):
        numbers = _block(lines, part[1:])
    elif part:
        numbers = _below(lines, part.rpartition("#")[2])
    new = [number for number in numbers if number not in brought]
    brought.update(number for number in new if lines[number].strip())
    return "\n".join(_deeper([_BLOCK.sub("", lines[number]) for number in new])).strip("\n")


def is_drawing(settings: Mapping[str, Any]) -> bool:
    """Returns whether a note with these settings is a drawing of Excalidraw."""
    return "excalidraw-plugin" in settings


def without_drawing(settings: Mapping[str, Any], text: str, losses: Losses) -> str:
    """Returns a note without the drawing that it is, if its settings say that it is one."""
    if not is_drawing(settings):
        return text
    begin = found.start() if (found := _DRAWN.search(text)) else len(text)
    losses.leave_out("code of drawings and queries", text[begin:])
    return _SWITCH.sub("", text[:begin])


def _deeper(lines: list[str]) -> Iterator[str]:
    """Yields lines with their headings one level deeper."""
    fenced = False
    for line in lines:
        fenced ^= _FENCE.match(line) is not None
        is_heading = not fenced and _HEADING.fullmatch(line) is not None and not line.startswith("######")
        yield f"#{line}" if is_heading else line


def _below(lines: list[str], title: str) -> range:
    """Returns the numbers of the lines from a heading up to the next one of its level."""
    start, level, fenced = 0, 0, False
    for number, line in enumerate(lines):
        fenced ^= _FENCE.match(line) is not None
        found = None if fenced else _HEADING.fullmatch(line)
        if found is not None and level and len(found[1]) <= level:
            return range(start, number)
        if found is not None and not level and _folded(found[2]) == _folded(title):
            start, level = number, len(found[1])
    return range(start, len(lines)) if level else range(0)


def _block(lines: list[str], id: str) -> range:
    """Returns the numbers of the lines of the paragraph, list item or table with an id at its end or below it."""
    for number, line in enumerate(lines):
        if (found := _BLOCK.search(line)) is None or found[1] != id:
            continue
        end = number + 1
        if not line[: found.start()].strip():  # below its block
            end = next((n for n in range(number - 1, -1, -1) if lines[n].strip()), -1) + 1
        elif _ITEM.match(line):
            depth = _indent(line)
            more = (n for n in range(end, len(lines)) if not lines[n].strip() or _indent(lines[n]) <= depth)
            return range(number, next(more, len(lines)))
        return range(next((n for n in range(end - 1, -1, -1) if not lines[n].strip()), -1) + 1, end)
    return range(0)


def _indent(line: str) -> int:
    return len(line.expandtabs(4)) - len(line.lstrip())


def _folded(title: str) -> str:
    return re.sub(r"[\W_]+", " ", title).strip().casefold()
