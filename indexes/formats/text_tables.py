"""Rewrites tables that CommonMark does not know as pipe tables: grid and simple tables, and lists of lists."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

_RULE = re.compile(r"[ \t]*\+(?:[-=:]{2,}\+)+[ \t]*")
_DASHES = re.compile(r"[ \t]*(?:-{2,}|={2,})(?:[ \t]+(?:-{2,}|={2,}))+[ \t]*")
_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})")


def with_pipe_tables(text: str) -> str:
    """Returns a text with its grid tables (`+---+---+`) and simple tables (`---- ----`) as pipe tables."""
    if (
        "+-" not in text
        and "- -" not in text
        and "= =" not in text
        and not re.search(r"(?:--|==)[ \t]{2,}(?:--|==)", text)
    ):
        return text
    return "\n".join(_rewritten(text.split("\n")))


def _rewritten(lines: list[str]) -> Iterator[str]:
    number, fenced = 0, False
    while number < len(lines):
        line = lines[number]
        fenced ^= _FENCE.match(line) is not None
        if not fenced and _RULE.fullmatch(line):
            end = next(
                (n for n in range(number, len(lines)) if not lines[n].lstrip().startswith(("+", "|"))), len(lines)
            )
            yield from list(_of_grid(lines[number:end])) or lines[number:end]
            number = end
            continue
        follows = lines[number + 1] if number + 1 < len(lines) else ""
        if not fenced and (_DASHES.fullmatch(line) or (line.strip() and _DASHES.fullmatch(follows))):
            end = next((n for n in range(number + 2, len(lines)) if not lines[n].strip()), len(lines))
            yield from list(_of_columns(lines[number:end])) or lines[number:end]
            number = end
            continue
        yield line
        number += 1


def _of_grid(lines: Sequence[str]) -> Iterator[str]:
    """Yields the pipe table of a grid table; the rows above a line of `=` are its header."""
    columns = [place for place, sign in enumerate(lines[0]) if sign == "+"]
    rows, cells, head = list[list[str]](), [""] * (len(columns) - 1), 0
    for line in lines[1:]:
        if _RULE.fullmatch(line) or line.lstrip().startswith("+"):
            if any(cells):
                rows.append(cells)
            cells = [""] * (len(columns) - 1)
            head = len(rows) if "=" in line else head
        else:
            starts = [place for place in columns[:-1] if line[place : place + 1] == "|"]
            for start, end in zip(starts, [*starts[1:], columns[-1]], strict=True):
                cells[columns.index(start)] += f" {line[start + 1 : end].strip()}"
    if any(cells):
        rows.append(cells)
    yield from pipe_table(rows, head)


def _of_columns(lines: Sequence[str]) -> Iterator[str]:
    """Yields the pipe table of a simple table, whose columns are as wide as the dashes below or above its header."""
    ruled = [number for number, line in enumerate(lines) if _DASHES.fullmatch(line)]
    spans = [(found.start(), found.end()) for found in re.finditer(r"[-=]+", lines[ruled[0]])]
    edges = [0, *(start for start, _ in spans[1:]), None]
    rows = [
        [line[start:end].strip() for start, end in pairwise(edges)]
        for number, line in enumerate(lines)
        if number not in ruled
    ]
    head = 1 if ruled[0] == 1 or (len(ruled) > 2 and ruled[1] == 2) else 0
    if len(rows) > head and 2 * len(lines[ruled[0]]) > max(map(len, lines)):  # otherwise, it is a rule in a text
        yield from pipe_table(rows, head)


def listed_rows(lines: Sequence[str]) -> list[list[str]]:
    """Returns the rows of a list of lists, as in `list-table` of MyST: `* - cell`, and `  - cell` for the next one."""
    rows: list[list[str]] = []
    for line in lines:
        if (found := re.match(r"[ \t]*[*-][ \t]+-(?:[ \t]+|$)(.*)", line)) is not None:
            rows.append([found[1]])
        elif rows and (found := re.match(r"[ \t]+-(?:[ \t]+|$)(.*)", line)) is not None:
            rows[-1].append(found[1])
        elif rows and line.strip():
            rows[-1][-1] += f" {line.strip()}"
    return rows


def comma_rows(lines: Sequence[str]) -> list[list[str]]:
    """Returns the rows of comma-separated values."""
    return [row for row in csv.reader(line.strip() for line in lines) if row]


def pipe_table(rows: Sequence[Sequence[str]], head: int) -> Iterator[str]:
    """Yields the lines of a pipe table, with empty lines around it.

    Args:
        rows: The texts of the cells, without line breaks.
        head: Number of rows that are its header.
    """
    width = max(map(len, rows), default=0)
    if not width:
        return
    above = [
        " ".join(filter(None, (row[column].strip() for row in rows[:head] if column < len(row))))
        for column in range(width)
    ]
    yield ""
    for number, row in enumerate([above, *rows[head:]]):
        cells = (re.sub(r"(?<!\\)\|", r"\\|", " ".join(cell.split())) for cell in row)
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{' --- |' * width}"
    yield ""
