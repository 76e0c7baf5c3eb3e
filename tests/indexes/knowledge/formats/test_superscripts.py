"""Superscripts become the same text, whatever the markup."""

from __future__ import annotations

import pytest

from indexes.knowledge.formats.facts import plain
from indexes.knowledge.formats.html import read_page
from indexes.knowledge.formats.html_text import Piece
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.markdown_text import parse
from indexes.knowledge.formats.reading import Reading
from indexes.knowledge.formats.wiki_words import Namespaces
from indexes.knowledge.formats.wikitext import read_wikitext
from retriever.types import Section

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
