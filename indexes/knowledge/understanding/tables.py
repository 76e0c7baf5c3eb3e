"""Writes tables as lines, one per row, each value with the name of its column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from indexes.knowledge.document import Cell

_MOST_COLUMNS, _MOST_ROWS = 200, 10_000  # largest spans; browsers limit them as well
_NOTHING = "\u2013"  # keeps the place of an empty cell among values whose columns have no names
_VALUE = frozenset(
    {"value", "values", "data", "details", "info", "information", "wert", "werte", "valeur", "valeurs", "valor"}
    | {"valores", "valore", "valori", "waarde", "hodnota", "значение", "значення", "值", "値", "값"}
)
"""Names of a second column that say nothing about its values, in lower case."""

_Grid = Sequence[Sequence[Cell | None]]


def table_lines(rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Returns a line per row: `Part: Spire, Height: 12 m`; rows of two columns without names are facts: `Height: 12 m`.

    Values without text are left out; the others keep the names of their columns. A cell that spans rows is part of each
    of them; one that spans columns has all their names. A header that spans the table is put before the rows below it.
    """
    grid = _grid(rows)
    width = max(map(len, grid), default=0)
    titles, names, begin = _head(grid, width)
    if width == 2 and begin == len(titles) + 1:
        if names[1].casefold().strip(" :") in _VALUE:
            names = ["", ""]
        elif _is_fact(grid[begin:], names):
            names, begin = ["", ""], begin - 1
    filled = {column for row in grid[begin:] for column, cell in enumerate(row) if cell is not None and cell.text}
    lines, group, is_used = [title for title in titles if title], "", True
    for row in grid[begin:]:
        cells = _distinct(row)
        if len(cells) == 1 and width > 1 and cells[0][0].header:
            lines += [] if is_used else [group]
            group, is_used = cells[0][0].text, not cells[0][0].text
        elif parts := _parts(cells, names, width, filled):
            lines.append(", ".join([group, *parts] if group else parts))
            is_used = True
    return lines if is_used else [*lines, group]


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


def _head(grid: _Grid, width: int) -> tuple[list[str], list[str], int]:
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
        return titles, [""] * width, len(titles)
    return titles, list(map(", ".join, names)), begin


def _is_fact(rows: _Grid, names: Sequence[str]) -> bool:
    """Returns whether the names of two columns are a fact, as in Markdown, where a table must begin with names."""

    def has_digit(text: str) -> bool:
        return any(map(str.isdigit, text))

    values = [row[1].text for row in rows if row[1] is not None]
    return has_digit(names[1]) and not has_digit(names[0]) and not all(map(has_digit, values))


def _distinct(row: Iterable[Cell | None]) -> list[tuple[Cell, list[int]]]:
    """Returns the cells of a row, each with its columns."""
    cells: dict[int, tuple[Cell, list[int]]] = {}
    for column, cell in enumerate(row):
        if cell is not None:
            cells.setdefault(id(cell), (cell, []))[1].append(column)
    return list(cells.values())


def _parts(cells: Sequence[tuple[Cell, list[int]]], names: Sequence[str], width: int, filled: set[int]) -> list[str]:
    """Returns the values of a row with their names; an unnamed first value names an unnamed second one.

    Among values without names, `_NOTHING` keeps the place of an empty cell in a column that is `filled` elsewhere.
    """
    parts, labels = list[str](), list[str]()
    last = max((columns[0] for cell, columns in cells if cell.text), default=0)
    keep_places = width > 2 and not any(names)
    for cell, columns in cells:
        if cell.text:
            labels.append(", ".join(dict.fromkeys(filter(None, (names[column] for column in columns)))).rstrip(" :"))
            parts.append(f"{labels[-1]}: {cell.text}" if labels[-1] else cell.text)
        elif keep_places and 0 < columns[0] < last and filled.issuperset(columns):
            labels.append("")
            parts.append(_NOTHING)
    if len(parts) > 1 and not any(labels[:2]) and (width == 2 or cells[0][0].header):
        parts[:2] = [f"{parts[0].rstrip(' :')}: {parts[1]}"]
    return parts
