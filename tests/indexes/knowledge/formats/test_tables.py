"""Tables and superscripts become the same text in every format: rows stay rows, values stay under their columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from indexes.knowledge.understanding.facts import plain
from indexes.knowledge.readers.html import read_page
from indexes.knowledge.gone.html_text import Piece, read_html
from indexes.knowledge.ledger import Ledger as Losses
from indexes.knowledge.gone.markdown_text import parse
from indexes.knowledge.bad_entries import Reading
from indexes.knowledge.gone.site_markup import Note, without_site_markup
from indexes.knowledge.understanding.tables import Cell, table_lines
from indexes.knowledge.gone.wiki_words import Namespaces
from indexes.knowledge.gone.wikitext import read_wikitext
from retriever.types import Section
from tests.fakes.reading import read, texts

PARTS = ["Part: Spire, Weight: 3 t", "Part: Nave, Height: 8 m, Color: red"]
HEAD, SPIRE, NAVE = ("Part", "Height", "Weight", "Color"), ("Spire", "", "3 t", ""), ("Nave", "8 m", "", "red")


def row(cells: tuple[str, ...], tag: str = "td") -> str:
    return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"


PIPES = f"| {' | '.join(HEAD)} |\n|---|---|---|---|\n| {' | '.join(SPIRE)} |\n| {' | '.join(NAVE)} |"
HTML = f"<table>{row(HEAD, 'th')}{row(SPIRE)}{row(NAVE)}</table>"
BOLD = f"<table>{row(tuple(f'<b>{one}</b>' for one in HEAD))}{row(SPIRE)}{row(NAVE)}</table>"
THEAD = f"<table><thead>{row(HEAD)}</thead><tbody>{row(SPIRE)}{row(NAVE)}</tbody></table>"
SPACED = "<table>\n\n<tr>\n" + HTML.removeprefix("<table><tr>").replace("</tr>", "</tr>\n\n")
GRID = """\
+-------+--------+--------+-------+
| Part  | Height | Weight | Color |
+=======+========+========+=======+
| Spire |        | 3 t    |       |
+-------+--------+--------+-------+
| Nave  | 8 m    |        | red   |
+-------+--------+--------+-------+"""
SIMPLE = """\
Part    Height   Weight  Color
------  -------  ------- ------
Spire            3 t
Nave    8 m              red
"""
LISTED = """\
```{list-table}
:header-rows: 1
* - Part
  - Height
  - Weight
  - Color
* - Spire
  -
  - 3 t
  -
* - Nave
  - 8 m
  -
  - red
```"""
COMMAS = "```{csv-table}\nPart,Height,Weight,Color\nSpire,,3 t,\nNave,8 m,,red\n```"
ORG = PIPES.replace("|---|---|---|---|", "|---+---+---+---|")
SPANNED = """\
+-------+--------+--------+-------+
| Part  | Height | Weight | Color |
+=======+========+========+=======+
| Spire |        | 3 t    |       |
+-------+--------+--------+-------+
| Nave  | 8 m    |        | red   |
+       +--------+--------+-------+
|       | 9 m    | 4 t    |       |
+-------+--------+--------+-------+"""
MULTILINE = """\
---------------------------------
Part    Height   Weight  Color
------  -------  ------- ------
Spire            3 t

Nave    8 m              red
---------------------------------"""
DOTTED = LISTED.replace("```{list-table}\n:header-rows: 1", "::: {.list-table}").replace("```", ":::")
WIKI = '{| class="wikitable"\n! Part !! Height !! Weight !! Color\n|-\n| Spire || || 3 t ||\n'
WIKI += "|-\n| Nave\n| 8 m\n|\n| red\n|}"


MARKDOWN = [PIPES, HTML, BOLD, THEAD, SPACED, GRID, SIMPLE, LISTED, COMMAS, ORG, MULTILINE, DOTTED]


@pytest.mark.parametrize("table", MARKDOWN)
def test_a_table_in_markdown(table: str) -> None:
    text = without_site_markup(f"Before.\n\n{table}\n\nAfter.", Note(Losses()))
    pieces = [piece.text for piece in parse(text, Losses())]
    assert "\n".join(pieces).split("\n") == ["Before.", *PARTS, "After."]


def test_other_tables_in_markdown() -> None:
    def read(table: str) -> list[str]:
        text = without_site_markup(f"Before.\n\n{table}\n\nAfter.", Note(Losses()))
        return "\n".join(piece.text for piece in parse(text, Losses())).split("\n")[1:-1]

    assert read(SPANNED) == [*PARTS, "Part: Nave, Height: 9 m, Weight: 4 t"]
    # cells beyond the header, which CommonMark drops, and text right below a table
    assert read("| A | B |\n|---|---|\n| 1 | 2 | 3 \\| 4 |\n| 5 |\nText.") == ["A: 1, B: 2, 3 | 4", "A: 5", "Text."]
    assert read("A | B\n--- | ---\n1 | 2 | 3\n{: .wide }") == ["A: 1, B: 2, 3"]
    wrapped = MULTILINE.replace("Spire            3 t\n", "Spire            3 t\nof oak           or 4\n")
    assert read(wrapped) == ["Part: Spire of oak, Weight: 3 t or 4", PARTS[1]]
    assert read("A rule of eight dashes:\n\n--------\n\nNo table.") == ["A rule of eight dashes:", "No table."]


def test_a_table_on_a_page_and_in_a_wiki(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(f"<h1>Church</h1><p>It is old.</p>{HTML}")
    (page,) = read(tmp_path)
    assert texts(page) == [("Church", "\n".join(["It is old.", *PARTS]))]
    pytest.importorskip("mwparserfromhell")
    for table in (WIKI, HTML):
        assert read_wikitext(table, "Church", Namespaces(), Reading()).sections == [("Church", "\n".join(PARTS))]


def lines(*rows: Sequence[Cell | str]) -> list[str]:
    return table_lines([[Cell(one) if isinstance(one, str) else one for one in row] for row in rows], Losses())


def head(*names: str) -> list[Cell | str]:
    return [Cell(name, header=True) for name in names]


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
    found = lines(names, head("Height", "Weight"), ["Spire", "12 m", "3 t"], ["Nave", Cell("unknown", columns=2)])
    assert found == [
        "Part: Spire, Size, Height: 12 m, Size, Weight: 3 t",
        "Part: Nave, Size, Height, Size, Weight: unknown",
    ]


def test_headers_that_span_the_table() -> None:
    title, lower = Cell("Parts of the church", True, columns=3), Cell("Lower", True, columns=3)
    found = lines([title], head("Part", "Height", "Age"), ["Spire", "12 m", "9"], [lower], ["Crypt", "3 m", ""])
    assert found == ["Parts of the church", "Part: Spire, Height: 12 m, Age: 9", "Lower, Part: Crypt, Height: 3 m"]
    assert lines(head("A", "B", "C")) == ["A: B, C"]  # only names, which are then values


def test_tables_in_cells_and_lines_in_cells() -> None:
    inner = "<table><tr><td>Inner A<td>5 m<tr><td>Inner B<td>6 m</table>"
    html = f"<table><tr><td>Outer<td>{inner}<tr><td>Two<br>lines<td><ul><li>one<li>two</ul></table>"
    (piece,) = read_html(html, Losses())
    assert piece.text == "Outer: Inner A: 5 m, Inner B: 6 m\nTwo, lines: one, two"


def test_names_without_values_and_repeated_words_are_counted() -> None:
    losses = Losses()
    rows = [[Cell("Spire"), Cell("12 m"), Cell("")], [Cell("Nave"), Cell("8 m"), Cell("")]]
    found = table_lines([[Cell(name, header=True) for name in ("Part", "Height", "Glass")], *rows], losses)
    losses.keep(*found)
    assert found == ["Part: Spire, Height: 12 m", "Part: Nave, Height: 8 m"]
    assert losses.to_json()["words"] == {"source": 9, "kept": 8}  # Part and Height once
    assert losses.left_out["names of columns without values"].example == "Glass"


def test_definitions_are_facts() -> None:
    html = "<dl><dt>Height<dd>40 m<dt>Built<dt>Opened<dd>1880<dd>1881<dt>Story<dd><p>One.<p>Two.</dl>"
    assert [piece.text for piece in read_html(html, Losses())] == [
        *("Height: 40 m", "Built, Opened: 1880, 1881", "Story: One., Two.")
    ]
    text = without_site_markup("Height\n:   40 m\n\nBuilt\n\n: 1880\n: 1881\n\nText: more.\n", Note(Losses()))
    assert [piece.text for piece in parse(text, Losses())] == ["Height: 40 m", "Built: 1880, 1881", "Text: more."]


def test_layout_is_no_data(tmp_path: Path) -> None:
    long = " ".join(["word"] * 150)
    html = f"<table><tr><td><p>{long}</p><td>Side</table><table role=presentation><tr><td>A<td>B</table>"
    assert [piece.text for piece in read_html(html, Losses())] == [long, "Side", "A", "B"]


CASES = {
    "10<sup>6</sup> people on 5 km<sup>2</sup>": "10^6 people on 5 km^2",
    "2.5 x 10<sup>\N{MINUS SIGN}3</sup> s<sup>-1</sup>": "2.5 x 10^-3 s^-1",
    "2<sup>n</sup> and x<sup>n+1</sup> and 2<sup>2n+1</sup>": "2^n and x^(n+1) and 2^(2n+1)",
    "(a + b)<sup>2</sup>": "(a + b)^2",
    "Ca<sup>2+</sup>, Na<sup>+</sup>, SO<sub>4</sub><sup>2\N{MINUS SIGN}</sup>": "Ca^2+, Na+, SO4^2-",
    "CO<sub>2</sub> and <sup>14</sup>C": "CO2 and 14C",
    "the 1<sup>st</sup> of XX<sup>e</sup>": "the 1st of XXe",
    "1<sup>1</sup>/<sub>2</sub> or <sup>3</sup>/<sub>4</sub> cups": "1 1/2 or 3/4 cups",
    "A fox<sup>[1]</sup> eats.<sup>2</sup> It runs<sup>3, 4</sup>.": "A fox eats. It runs.",
    "word<sup>*</sup>": "word*",
    "m<b><sup>3</sup></b>": "m^3",
}


@pytest.mark.parametrize("html", CASES)
def test_html(html: str) -> None:
    box = f"<table class='infobox'><tr><th>Area</th><td>{html}</td></tr></table>"
    page = read_page(
        f"<html><body>{box}<p>{html}</p></body></html>".encode(), "a.html", "A", lambda _: (0, 0), Reading()
    )
    assert page is not None
    assert page.sections == (Section("A", CASES[html], 0), Section("Facts", f"Area: {CASES[html]}", 1))


@pytest.mark.parametrize("html", CASES)
def test_markdown_and_fields_of_rows(html: str) -> None:
    assert parse(html, Losses()) == [Piece(CASES[html])]
    assert parse(f"<p>{html}</p>", Losses()) == [Piece(CASES[html])]
    assert plain(html) == CASES[html]


@pytest.mark.parametrize("html", CASES)
def test_wikitext(html: str) -> None:
    pytest.importorskip("mwparserfromhell")
    assert read_wikitext(html, "A", Namespaces(), Reading()).sections == [("A", CASES[html])]


def test_templates_of_wikitext() -> None:
    pytest.importorskip("mwparserfromhell")
    text = "10{{sup|6}} t of CO{{sub|2}}"
    assert read_wikitext(text, "A", Namespaces(), Reading()).sections == [("A", "10^6 t of CO2")]


def test_links_to_footnotes() -> None:
    html = '<p>A fox<sup id="r"><a href="#f">1</a></sup> of 2 m<sup>2</sup>.</p>'
    page = read_page(f"<html><body>{html}</body></html>".encode(), "a.html", "A", lambda _: (0, 0), Reading())
    assert page is not None and page.sections == (Section("A", "A fox of 2 m^2.", 0),)
    assert parse(html, Losses()) == [Piece("A fox of 2 m^2.")]
