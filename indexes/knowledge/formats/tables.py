"""Writes tables as lines, one per row, each value with the name of its column; and superscripts as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from indexes.knowledge.formats.losses import Losses, words_in

_MOST_COLUMNS, _MOST_ROWS = 200, 10_000  # largest spans; browsers limit them as well
_NOTHING = "\u2013"
_VALUE = frozenset(
    {"value", "values", "data", "details", "info", "information", "wert", "werte", "valeur", "valeurs", "valor"}
    | {
        "valore",
        "valores",
        "valori",
        "waarde",
        "värde",
        "verdi",
        "værdi",
        "wartość",
        "hodnota",
        "érték",
        "arvo",
        "değer",
    }
    | {"значение", "значення", "τιμή", "القيمة", "ערך", "值", "数值", "値", "값", "giá trị", "nilai"}
)
"""Names of a second column that say nothing about its values, in lower case."""


def one_line(lines: Iterable[str]) -> str:
    """Returns the lines of a cell on one line, separated by commas."""
    found = [line for line in lines if line.strip(" ,.;:|-\u2013") or len(line.strip()) == 1]
    return found[0].strip() if len(found) == 1 else ", ".join(line.strip(" ,") for line in found)


class Cell(NamedTuple):
    """A cell of a table."""

    text: str  # its text on one line
    header: bool = False  # whether it names a column or a row
    rows: int = 1  # number of rows that it spans
    columns: int = 1  # number of columns that it spans


def table_lines(rows: Sequence[Sequence[Cell]], losses: Losses) -> list[str]:
    """Returns a line per row: `Part: Spire, Height: 12 m`; rows of two columns without names are facts: `Height: 12 m`.

    Values without text are left out; the others keep the names of their columns. A cell that spans rows is part of each
    of them; one that spans columns has all their names. A header that spans the table is put before the rows below it.
    """
    if any(cell.text in ("(", ")") for row in rows for cell in row):  # a line of code
        return [" ".join(cell.text for cell in row if cell.text) for row in rows]
    grid = _grid(rows)
    width = max(map(len, grid), default=0)
    titles, names, begin = _head(grid, width)
    unused = list[str]()
    lines, group, used = [title for title in titles if title], "", set[str]()
    if width == 2 and begin == len(titles) + 1 and names[1].casefold().strip(" :") in _VALUE:
        unused, names = names, ["", ""]
    elif width == 2 and begin == len(titles) + 1 and _is_fact(grid[begin:], names):
        names, begin = ["", ""], begin - 1
    filled = (column for row in grid[begin:] for column, cell in enumerate(row) if cell is not None and cell.text)
    empty = set(range(width)).difference(filled)
    for row in grid[begin:]:
        cells = _distinct(row)
        if len(cells) == 1 and width > 1 and cells[0][0].header:
            lines += [group] if group and group not in used else []
            group = cells[0][0].text
        elif parts := _parts(cells, names, width, used, empty):
            lines.append(", ".join([group, *parts] if group else parts))
            used.add(group)
    lines += [group] if group and group not in used else []
    unused += [name for name in dict.fromkeys(names) if name not in used]
    for name in filter(None, unused):
        losses.leave_out("names of columns without values", name)
    losses.repeat(words_in(lines) + words_in(unused) - words_in(cell.text for row in rows for cell in row))
    return lines


def _grid(rows: Sequence[Sequence[Cell]]) -> list[list[Cell | None]]:
    """Returns the cell at each place of a table: the same object where it spans several, `None` where there is none."""
    grid: list[list[Cell | None]] = [[] for _ in rows]
    for number, row in enumerate(rows):
        column = 0
        for cell in row:
            while column < len(grid[number]) and grid[number][column] is not None:
                column += 1
            span = max(1, min(cell.columns, _MOST_COLUMNS - column))
            for line in grid[number : number + min(max(cell.rows, 1), _MOST_ROWS)]:
                line += [None] * (column + span - len(line))
                line[column : column + span] = [cell] * span
            column += span
    width = max(map(len, grid), default=0)
    for line in grid:
        line += [None] * (width - len(line))
    return grid


def _head(grid: Sequence[Sequence[Cell | None]], width: int) -> tuple[list[str], list[str], int]:
    """Returns the headers above a table that span it, the name of each column, and the number of rows with either."""
    titles, names, begin = list[str](), [list[str]() for _ in range(width)], 0
    for row in grid:
        cells = [cell for cell, _ in _distinct(row)]
        if not all(cell.header for cell in cells if cell.text):
            break
        if len(cells) == 1 and width > 1:
            if any(names):
                break
            titles.append(cells[0].text)
        else:
            for column, cell in enumerate(row):
                if cell is not None and cell.text and cell.text not in names[column]:
                    names[column].append(cell.text)
        begin += 1
    if begin == len(grid):  # only headers, which are then values
        begin, names = len(titles), []
    return titles, [", ".join(one) for one in names] or [""] * width, begin


def _is_fact(rows: Sequence[Sequence[Cell | None]], names: Sequence[str]) -> bool:
    """Returns whether the names of two columns are a fact, as in Markdown, where a table must begin with names."""

    def has_digit(text: str) -> bool:
        return any(map(str.isdigit, text))

    values = [row[1].text for row in rows if row[1] is not None]
    return has_digit(names[1]) and not has_digit(names[0]) and not all(map(has_digit, values))


def _distinct(row: Iterable[Cell | None]) -> list[tuple[Cell, list[int]]]:
    """Returns the cells of a row, each with its columns."""
    found: dict[int, tuple[Cell, list[int]]] = {}
    for column, cell in enumerate(row):
        if cell is not None:
            found.setdefault(id(cell), (cell, []))[1].append(column)
    return list(found.values())


def _parts(
    cells: Sequence[tuple[Cell, list[int]]], names: Sequence[str], width: int, used: set[str], empty: set[int]
) -> list[str]:
    """Returns the values of a row with their names; an unnamed first value names an unnamed second one.

    Among values without names, `_NOTHING` keeps the place of an empty cell, unless its column is `empty`.
    """
    parts, called = list[str](), list[str]()
    last = max((columns[0] for cell, columns in cells if cell.text), default=0)
    for cell, columns in cells:
        if not cell.text and 0 < columns[0] < last and width > 2 and not any(names) and not empty & set(columns):
            called.append("")
            parts.append(_NOTHING)
        if cell.text:
            own = list(dict.fromkeys(name for column in columns if (name := names[column])))
            used.update(own)
            called.append(", ".join(own).rstrip(" :"))
            parts.append(f"{called[-1]}: {cell.text}" if own else cell.text)
    if len(parts) > 1 and not any(called[:2]) and (width == 2 or cells[0][0].header):
        parts[:2] = [f"{parts[0].rstrip(' :')}: {parts[1]}"]
    return parts


START, END = "\ue000", "\ue001"
"""Mark a superscript until the text before it is known; private-use characters that do not occur in texts."""

_RAISED = re.compile(
    rf"(?P<before>[^{START}{END}]?){START}(?P<text>[^{START}{END}]*){END}(?P<over>(?=[/\N{{FRACTION SLASH}}]\s*\d))?"
)
_NOTE = re.compile(r"\[.*\]|\d+(?:\s*[,;]\s*\d+)+")  # footnote marks: [1], and several numbers
_PHRASE_ENDS = frozenset('.,;:!?"»。、\N{RIGHT SINGLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}')
"""A number after these is a footnote mark, too."""
_POWER = re.compile(r"[+-]?\d.*|[i-nx-z](?:[+-].+)?|[+-].+")
"""A number, or a letter that usually stands for one; others are endings (1st, Mme) or marks."""
_SIMPLE = re.compile(r"[+-]?[\w.]+[+-]?")


def write_superscripts(text: str) -> str:
    """Returns a text without `START` and `END`."""
    return _RAISED.sub(_written, text).replace(START, "").replace(END, "") if START in text else text


def _written(found: re.Match[str]) -> str:
    before, raised = found["before"], found["text"].strip().replace("\N{MINUS SIGN}", "-")
    if _NOTE.fullmatch(raised) or (before in _PHRASE_ENDS and raised.isdecimal()):
        return before
    if found["over"] is not None and before.isdecimal():  # 1 1/2
        return f"{before} {raised}"
    if found["over"] is None and (before.isalnum() or before in (")", "]")) and _POWER.fullmatch(raised):
        return f"{before}^{raised}" if _SIMPLE.fullmatch(raised) else f"{before}^({raised})"
    return before + found["text"]
