"""Tables become lines: rows stay rows, and values stay under their columns."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from indexes.knowledge.document import Cell
from indexes.knowledge.understanding.tables import table_lines


def lines(*rows: Sequence[Cell | str]) -> list[str]:
    return table_lines([[Cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows])


def head(*names: str) -> list[Cell | str]:
    return [Cell(name, header=True) for name in names]


def test_values_have_the_names_of_their_columns() -> None:
    rows = head("Part", "Height", "Weight", "Color"), ["Spire", "", "3 t", ""], ["Nave", "8 m", "", "red"]
    assert lines(*rows) == ["Part: Spire, Weight: 3 t", "Part: Nave, Height: 8 m, Color: red"]


def test_two_columns_are_facts() -> None:
    assert lines(["Height", "40 m"], ["Built", "1880"], ["Architect", ""]) == [
        "Height: 40 m",
        "Built: 1880",
        "Architect",
    ]
    assert lines(head("Property", "Value"), ["Height", "40 m"]) == ["Height: 40 m"]  # the names say nothing
    assert lines(head("Bay", "Depth"), ["North", "40 m"]) == ["Bay: North, Depth: 40 m"]
    assert lines(head("Born", "1950"), ["Died in", "Oslo"]) == ["Born: 1950", "Died in: Oslo"]  # a fact as names
    assert lines(head("Country", "2020"), ["France", "67"]) == ["Country: France, 2020: 67"]


def test_empty_cells_among_columns_without_names_keep_their_place() -> None:
    assert lines(["Spire", "", "3 t"], ["Nave", "8 m", ""]) == ["Spire, \u2013, 3 t", "Nave, 8 m"]
    assert lines(["Spire", "", "3 t"], ["Nave", "", "8 t"]) == ["Spire, 3 t", "Nave, 8 t"]  # a column of nothing
    assert lines([Cell("Name", True), "Spire", "Nave"], [Cell("Height", True), "", "8 m"]) == [
        *("Name: Spire, Nave", "Height: \u2013, 8 m")
    ]


def test_cells_that_span_rows_and_columns() -> None:
    doors = Cell("Doors", rows=2)
    assert lines([doors, "North", "2 m"], ["South", "3 m"]) == ["Doors, North, 2 m", "Doors, South, 3 m"]
    names = [Cell("Part", True, rows=2), Cell("Size", True, columns=2)]
    nave: list[Cell | str] = ["Nave", Cell("unknown", columns=2)]
    assert lines(names, head("Height", "Weight"), ["Spire", "12 m", "3 t"], nave) == [
        "Part: Spire, Size, Height: 12 m, Size, Weight: 3 t",
        "Part: Nave, Size, Height, Size, Weight: unknown",
    ]


def test_headers_that_span_the_table() -> None:
    title, lower = Cell("Parts of the church", True, columns=3), Cell("Lower", True, columns=3)
    rows = head("Part", "Height", "Age"), ["Spire", "12 m", "9"], [lower], ["Crypt", "3 m", ""]
    assert lines([title], *rows) == [
        *("Parts of the church", "Part: Spire, Height: 12 m, Age: 9", "Lower, Part: Crypt, Height: 3 m")
    ]
    assert lines(head("A", "B", "C")) == ["A: B, C"]  # only names, which are then values
    assert lines(["a", "b", "c"], [lower]) == ["a, b, c", "Lower"]


CELLS = st.builds(
    Cell, st.sampled_from(["", "a", "b2", "c", "d5"]), st.booleans(), st.integers(0, 3), st.integers(0, 3)
)


@given(st.lists(st.lists(CELLS, max_size=4), max_size=5))
def test_no_value_is_lost(rows: list[list[Cell]]) -> None:
    written = " ".join(table_lines(rows)).replace(":", " ").replace(",", " ").split()
    for row in rows:
        assert all(cell.text in written for cell in row if not cell.header and cell.text)
