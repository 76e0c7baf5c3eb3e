"""Tables that CommonMark's parsers cut or do not know: rows wider than their header, and grids (`+---+---+`)."""

from __future__ import annotations

import re
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.utils import EnvType

from indexes.knowledge.readers.dialects import pipe_table, rewrite

_PIPES = (
    r"^(?P<head>(?P<lead>[ \t>]*)(?=[^\n]*\|)[^\n]*)\n"
    r"(?P<rule>[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:[|+][ \t]*:?-+:?[ \t]*)*\|?[ \t]*)\n"
    r"(?P<rows>(?:(?=[^\n]*\|)[^\n]+(?:\n|\Z))+)"
)
_GRID = r"^(?P<grid>[ \t]*\+(?:[-=:]{2,}\+)+[ \t]*\n(?:[ \t]*[+|][^\n]*(?:\n|\Z))+)"


def plugin(md: MarkdownIt) -> None:
    """Makes pipe tables as wide as their widest row, and pipe tables of grids."""
    rewrite(md, rf"{_GRID}|{_PIPES}", ("|",), _pipe_table)


def _pipe_table(match: re.Match[str], env: EnvType) -> str:
    if match["grid"]:
        return _of_grid(match["grid"].splitlines())
    head, widest = match["head"].rstrip(), max(map(_width, [match["head"], *match["rows"].splitlines()]))
    more = widest - _width(head)
    if not more and "+" not in match["rule"]:
        return f"{match[0]}\n"  # the empty line ends the table, or the next line would be a row
    head += ("" if head.endswith("|") else " |") + "  |" * more
    return f"{head}\n{match['lead']}|{' --- |' * widest}\n{match['rows']}\n"


def _width(row: str) -> int:
    row = row.strip(" \t>").removeprefix("|")
    return len(re.split(r"(?<!\\)\|", row if row.endswith("\\|") else row.removesuffix("|")))


def _of_grid(lines: list[str]) -> str:
    edges = [place for place, sign in enumerate(lines[0]) if sign == "+"]
    rows, head = [[""] * (len(edges) - 1)], 0
    for line in lines[1:]:
        if line.lstrip()[0] == "+":  # a header is above a line of `=`
            head = len(rows) if "=" in line else head
            rows.append([""] * (len(edges) - 1))
            continue
        parts = (re.sub(r"^[-=+| ]*$|[| ]+$", "", line[start + 1 : end]) for start, end in pairwise(edges))
        rows[-1] = [f"{cell} {part}" for cell, part in zip(rows[-1], parts, strict=True)]
    return "\n".join(pipe_table([row for row in rows if any(row)], head))


def listed_rows(text: str) -> list[list[str]]:
    """Returns the rows of a list of lists, as in `list-table`: `* - cell`, and `  - cell` for the next one."""
    rows = list[list[str]]()
    for line in re.sub(r":{3,}[^\n]*$", "", text, flags=re.MULTILINE).splitlines():
        cell = re.match(r"[ \t]*([*-][ \t]+)?-(?:[ \t]+|$)(.*)", line)
        rows += [[]] if cell and cell[1] else []
        if rows:
            rows[-1] += [cell[2]] if cell else [f"{rows[-1].pop()} {line.strip()}"]
    return rows
