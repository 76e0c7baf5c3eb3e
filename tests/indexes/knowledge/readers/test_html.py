"""HTML: every word and picture of it is in the parts, and furniture of pages has a label."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from indexes.knowledge.document import Block, Cell, Document, Heading, Part, Picture, Table
from indexes.knowledge.readers import Folder
from indexes.knowledge.readers.html import WEBSITE, document_of_page, parts_of_html, plain_html


def texts(parts: Iterable[Part], kind: str | None = "") -> Iterator[str]:
    """Yields the texts of a kind, of all for `None`; those of pictures come after those beside them."""
    for part in parts:
        if isinstance(part, Heading):
            yield from [] if kind else [part.text]
        elif kind is None or part.kind == kind:
            yield from (cell.text for row in part.rows for cell in row) if isinstance(part, Table) else [part.text]
            yield from (text for picture in part.pictures for text in (picture.alt, picture.caption))


def lines(parts: Iterable[Part], kind: str | None = "") -> list[str]:
    return [line for text in texts(parts, kind) for line in text.split("\n") if line]


def pictures(parts: Iterable[Part]) -> list[Picture]:
    return [picture for part in parts if not isinstance(part, Heading) for picture in part.pictures]


def page(body: str, head: str = "") -> Document:
    return document_of_page(f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>", "a/page.html")


def read(html: str, is_page: bool) -> list[Part]:
    return document_of_page(f"<html>{html}", "a.html").parts if is_page else parts_of_html(html)


def kinds(document: Document) -> dict[str, list[str]]:
    blocks = [part for part in document.parts if isinstance(part, (Block, Table)) and part.kind]
    return {block.kind: lines(document.parts, block.kind) for block in blocks}


_CONTAINERS = (
    *("div", "p", "section", "ul", "li", "blockquote", "h2", "h4", "span", "b", "a", "em", "sub", "figure", "dl", "dt"),
    *("table", "tr", "td", "th", "tbody", "thead", "caption", "form", "nav", "footer", "header", "button", "pre", "dd"),
    *("main", "article", "aside", "details", "summary", "center", "font", "figcaption", "my-card", "label", "svg"),
)
_ATTRIBUTES = (
    *("", "", "", " class='menu'", " class=comments", " hidden", " id=toc", " href='x'", " role=main", " class=thumb"),
)


def write_element(draw: random.Random, words: list[str], images: list[str], depth: int = 0) -> str:
    tag = draw.choice(_CONTAINERS)
    inner = list[str]()
    for _ in range(draw.randrange(4)):
        if depth < 6 and draw.random() < 0.7:
            inner.append(write_element(draw, words, images, depth + 1))
        elif draw.random() < 0.2:
            images.append(f"image{len(images)}.png")
            inner.append(f"<img src='{images[-1]}'>")
        else:
            words.append(f"word{len(words)}")
            inner.append(f" {words[-1]} {draw.choice(['', '<br>', '<!-- no -->', '<wbr>', '<hr>'])}")
    return f"<{tag}{draw.choice(_ATTRIBUTES)}>{''.join(inner)}</{tag}>"


@pytest.mark.parametrize("is_page", [False, True])
def test_every_word_and_image_is_somewhere(is_page: bool) -> None:
    draw = random.Random(5)
    for _ in range(600):
        words, images = list[str](), list[str]()
        html = "".join(write_element(draw, words, images) for _ in range(3))
        parts = read(html, is_page)
        said = Counter(word for text in texts(parts, None) for word in re.findall(r"\w+", text))
        assert not set(words) - set(said), html
        assert {picture.url for picture in pictures(parts)} == set(images), html
        captions = {word for picture in pictures(parts) for word in re.findall(r"\w+", picture.caption)}
        assert all(said[word] == 1 for word in words if word not in captions), html


def test_the_parts_of_a_text() -> None:
    parts = parts_of_html(
        "<h2>Diet<a class=anchor href='#diet'>¶</a></h2>It <b>eats</b>:<br>much<ul><li>mice<ul><li>old</ul></ul>"
        "<blockquote><p>Deep.</p>Nora</blockquote><pre>if x:\n    y<br>z\n</pre>"
        "<h4>In <i>winter</i><div>only</div></h4>"
        "<dl><dt>Size</dt><dd>40 cm</dd><dd>at most</dd><dt>Home</dt><dd><p>Dens.</p><img src=den.png></dd></dl>"
        "<p>See <a href=a>one</a></p><p><a href=a>Home</a> | <a href=b>Next</a></p><button>Go</button>"
        "<listing caption='A fox'>x</listing>"
    )
    assert parts == [
        Heading(2, "Diet"), Block("It eats:\nmuch"), Block("mice"), Block("old"), Block("Deep."), Block("Nora"),
        Block("if x:\n    y\nz"), Heading(4, "In winter only"), Block("Size: 40 cm, at most"), Block("Home"),
        Block("Dens."), Block("", (Picture("den.png"),)), Block("See one"), Block("Home | Next", is_links=True),
        Block("Go", is_links=True), Block("A fox", ()), Block("x"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("10<sup>3</sup> km<sup>2</sup>", "10^3 km^2"),
        ("e<sup>x + 1</sup> (a + b)<sup>n</sup>", "e^(x + 1) (a + b)^n"),
        ("1<sup>st</sup> and M<sup>me</sup>", "1st and Mme"),
        ("1 1<sup>1</sup>/2", "1 1 1/2"),
        ("an end.<sup>12</sup> Next<sup>[a]</sup> one<sup>3, 4</sup>", "an end. Next one"),
        ("a note<sup><a href='#fn1'>1</a></sup>.", "a note."),
        ("H<sub>2</sub>O and<wbr>more", "H2O andmore"),
        ("List<String> of <your name> if 0<p<1", "List<String> of <your name> if 0<p<1"),
        ("the <a> and <b> tags", "the <a> and <b> tags"),
        ("<zoo-card>A card</zoo-card>", "A card"),
        ("a&nbsp;b &amp;\n c", "a b & c"),
    ],
)
def test_text_as_people_write_it(html: str, text: str) -> None:
    assert lines(parts_of_html(f"<p>{html}</p>")) == [text]
    said = Counter("".join(filter(str.isalnum, " ".join(texts(parts_of_html(f"<p>{html}</p>"), None)))))
    assert not Counter(filter(str.isalnum, text)) - said


def test_tables() -> None:
    [caption, table] = parts_of_html(
        "<table class=wikitable><caption>Towers</caption><thead><tr><td>Part<td colspan=2>Size</thead><tbody>"
        "<tr><th rowspan=2 scope=row>Top<td>1<br>m<td><ul><li>a<li>b</ul><img src=t.png alt=Top></tr>"
        "<tr><td><b>All</b><td></td></tr><tr></tr></table>"
    )
    assert caption == Block("Towers")
    rows = (
        (Cell("Part", True), Cell("Size", True, 1, 2)),
        (Cell("Top", True, 2), Cell("1, m"), Cell("a, b")),
        (Cell("All", True), Cell("")),
    )
    assert table == Table(rows, (Picture("t.png", "Top"),))
    layout = "<table><tr><td><h2>Fox</h2><p>Red.<td><table><tr><th>Size<td>40 cm</table></table>"
    assert parts_of_html(layout) == [
        Heading(2, "Fox"), Block("Red."), Table(((Cell("Size", True), Cell("40 cm")),)),
    ]  # fmt: skip
    assert [type(part) for part in parts_of_html("<table role=presentation><tr><td>a<td>b</table>")] == [Block, Block]
    assert parts_of_html("<table><tr><td colspan=99999999999 rowspan=0>a<td>b</table>") == [
        Table(((Cell("a", False, 1, 1000), Cell("b")),))
    ]


@pytest.mark.parametrize(
    ("html", "picture"),
    [
        ("<img src=' a.png ' alt='A  fox' width=300 height='200px'>", Picture("a.png", "A fox", "", (300, 200))),
        ("<img srcset='a.png 300w, large.png 600w'>", Picture("large.png")),
        ("<img src='data:image/gif;base64,AA' data-src='a.png'>", Picture("a.png")),
        ("<img src='img/blank.gif' data-original='a.png'>", Picture("a.png")),
        ("<img src='img/spacer.gif' data-srcset='a.png 1x, large.png 2x'>", Picture("large.png")),
        ("<noscript><img src='a.png'></noscript>", Picture("a.png")),
        ("<picture><source srcset='large.png'><img alt='x'></picture>", Picture("large.png", "x")),
        ("<a href='large.png'><span><img src='small.png'></span></a>", Picture("small.png", link="large.png")),
        ("<div style=\"background-image: url('a.png')\"></div>", Picture("a.png")),
        ("<object type='image/svg+xml' data='a.svg'></object>", Picture("a.svg")),
        ("<figure><a href=x><img src=a.png></a><figcaption><p>A <b>den</b></p></figcaption></figure>",
         Picture("a.png", caption="A den", link="x")),
        ("<div class=thumb><div><img src=a.png><div class=thumbcaption>A den</div></div></div>",
         Picture("a.png", caption="A den")),
    ],
)  # fmt: skip
def test_pictures(html: str, picture: Picture) -> None:
    parts = parts_of_html(f"<p>It is red.</p>{html}")
    assert pictures(parts) == [picture]
    assert "".join(lines(parts[:1])) == "It is red." and not any(getattr(part, "text", "") for part in parts[1:])


def test_plain_text() -> None:
    html = "<h2>Diet</h2><p>It eats.<script>x()</script></p><table><tr><th>Size<td>40 cm<tr><td>1<td>2<td>3</table>"
    assert plain_html(html) == "== Diet ==\nIt eats.\nSize: 40 cm\n1, 2, 3"
    assert plain_html("") == "" and plain_html("A & B < C") == "A & B < C"


@pytest.mark.parametrize(
    ("html", "kind"),
    [
        ("<nav>Gone words</nav>", "navigation"),
        ("<div class='site-menu'><a href=a>Gone</a> <a href=b>words</a></div>", "navigation"),
        ("<header><a href=a>Gone words</a></header>", "navigation"),
        ("<footer><h2>Gone</h2> words</footer>", "navigation"),
        ("<div class='comments'><p>Gone</p><p>words.</p></div>", "comments"),
        ("<div id='cookie-notice'><table><tr><th>Gone<td>words</table></div>", "advertisements"),
        ("<form>Gone words</form>", "forms and buttons"),
        ("<div class=hatnote>Gone words</div>", "notices"),
        ("<p>It is <span class=geo>Gone words</span></p>", "coordinates"),
        ("<p style='display: none'>Gone words</p>", "text that pages hide"),
        ("<template>Gone <b>words</b></template>", "text that pages hide"),
        ("<svg><text>Gone words</text></svg>", "words in drawings"),
        ("<pre class=mermaid>Gone words</pre>", "code of drawings and queries"),
        ("<math><mi>Gone words</mi></math>", "formulas"),
        ("<sup class=reference>Gone words</sup>", "footnote marks and references"),
    ],
)
def test_furniture_has_a_label(html: str, kind: str) -> None:
    document = page(f"<h1>Fox</h1><p>It is red and old.</p>{html}<p>It runs. It eats. It sleeps.</p>")
    words = [word.strip(".") for line in lines(document.parts, kind) for word in line.split()]
    assert words == ["Gone", "words"] and list(kinds(document)) == [kind]
    assert {"Fox", "It is red and old.", "It runs. It eats. It sleeps."} <= set(lines(document.parts))


@pytest.mark.parametrize(
    "names",
    [
        *("overflow-hidden", "hidden md:block", "sm:hidden flex", "hero-banner", "banner", "share-of-market", "menu"),
        *("widget", "related-facts", "social-life", "footer-note", "tag", "comments-free", "modal-verb", "shared"),
    ],
)
def test_class_names_hide_no_facts(names: str) -> None:
    html = f"<h1>Fox</h1><p>A fox.</p><div class='{names}'>It is red and lives in a den.</div>"
    assert not kinds(page(f"{html}<ul class='{names}'><li>Height: 40 cm</li></ul><p>{'It runs. ' * 30}</p>"))


def test_what_is_in_the_body_stays() -> None:
    quote = "<blockquote><p>Deep.</p><footer>Nora</footer></blockquote>"
    form = "<form action=x><p>It runs. It eats. It sleeps.</p></form>"
    assert lines(page(f"<h1>Fox</h1><article>{quote}</article><article>{form}It hides.</article>").parts) == [
        "Fox", "Deep.", "Nora", "It runs. It eats. It sleeps.", "It hides.",
    ]  # fmt: skip


def test_text_beside_the_main_part() -> None:
    document = page("<h1>Fox</h1><div>Beside</div><nav>Menu</nav><main><h2>Home</h2>Dens.</main><div>Below</div>")
    assert document.parts[0] == Heading(1, "Fox")  # a title often stands above
    assert lines(document.parts) == ["Fox", "Home", "Dens."]
    assert kinds(document) == {"text beside the main part": ["Beside", "Below"], "navigation": ["Menu"]}
    document = page("<h1>Site</h1><main><h1>Fox</h1><p>Dens.</p></main>")
    assert lines(document.parts) == ["Fox", "Dens."] and kinds(document) == {"text beside the main part": ["Site"]}


WIKI = """<h1 id="firstHeading">Song (tune)</h1><div id="mw-content-text"><div class="hatnote">For others, see A.</div>
<table class="infobox vevent"><tbody><tr><th colspan="2">"Song"</th></tr>
<tr><td colspan="2"><img src="cover.png" width="220" height="218"><br>The cover</td></tr>
<tr><th colspan="2">Single by Ray</th></tr>
<tr><th>Released</th><td>1986<sup id="cite_ref-1"><a href="#n">[1]</a></sup></td></tr>
<tr><th>Label</th><td>Columbia<br>Atlantic</td></tr><tr><th>Label</th><td>RCA</td></tr>
<tr><th colspan="2">Population</th></tr><tr><th>• Total</th><td>5 people</td></tr><tr><th colspan="2">Scores</th></tr>
<tr><td colspan="2"><table><tr><th>Source</th><th>Rating</th></tr>
<tr><th>Before</th><td>Other song</td></tr></table></td></tr>
</tbody></table><p>A song.<sup id="cite_ref-b"><a href="#cite_note-b">[2]</a></sup> It is sung [3] often.</p>
<h2>Charts<span class="mw-editsection">[edit]</span></h2><p>First.</p><div class="navbox"><p>Songs by Ray</p></div>
<div>From <a class="external" href="https://en.wikipedia.org/wiki/Song_(tune)?oldid=1">Wikipedia</a> under
<a class="external" href="https://creativecommons.org/licenses/by-sa/4.0/">a license</a>.</div></div>"""


def test_a_page_of_a_wiki() -> None:
    document = page(WIKI, "<title>Song</title>")
    assert document.url == "https://en.wikipedia.org/wiki/Song_(tune)"
    assert document.settings == {"generator": "MediaWiki"}
    assert document.values == {
        "Released": "1986",
        "Label": ["Columbia, Atlantic", "RCA"],
        "Population, Total": "5 people",
        "Source": "Rating, Before: Other song",
    }
    assert document.parts[0] == Block("", (Picture("cover.png", "", "The cover", (220, 218)),))
    assert lines(document.parts[1:]) == [
        "Single by Ray", "Scores", "Song (tune)", "A song. It is sung [3] often.", "Charts", "First.",
    ]  # fmt: skip
    assert kinds(document) == {
        "notices": ["For others, see A.", "From Wikipedia under a license."],
        "footnote marks and references": ["[1]", "[2]"],
        "navigation": ["[edit]", "Songs by Ray"],
        "headings in infoboxes": ['"Song"'],
    }


def test_metadata() -> None:
    head = "<title>Fox  | Zoo</title><meta property='og:title' content=Fox><meta name=author content=Nora>"
    document = page(
        "<p>Red.", f"{head}<meta name=author content=Other><link rel=canonical href='http://a.example/f%20x'>"
    )
    assert (document.title, document.url, document.base) == ("Fox | Zoo", "https://a.example/f_x", "")
    assert document.settings == {"og:title": "Fox", "author": "Nora", "canonical": "http://a.example/f%20x"}
    bases = {"pics/": "a/pics/page.html", "/": "page.html", "https://a.example/b/": "b/page.html", "http://[": ""}
    assert {base: page("", f"<base href='{base}'>").base for base in bases} == bases
    moved = "<meta http-equiv=Refresh content='0; URL=a.html'>"
    assert page("moved", moved).settings["kind"] == "redirect"
    assert "kind" not in page("news", "<meta http-equiv=refresh content=300>").settings


def test_what_is_no_page() -> None:
    script = document_of_page("(function () { document.write('<p>text</p>'); })()", "a.html")
    assert script.settings == {"kind": "no page"} and list(kinds(script)) == ["code that pages hide"]
    assert document_of_page("", "a.html").parts == [] == page("<p> </p>").parts
    assert document_of_page("<html><frameset><frame src=a.html></frameset></html>", "a.html").parts == []
    with pytest.raises(ValueError, match="a whole TiddlyWiki"):
        page("<div id=storeArea></div>")
    xhtml = '<?xml version="1.0"?><html><head><title/><script src="a.js"/></head><body><a id="x"/>Red.</body></html>'
    assert lines(document_of_page(xhtml, "a.xhtml").parts) == ["Red."]


HOSTILE = {
    "deep": "<div>" * 100_000 + "x",
    "closed at the end": "<span>" * 50_000 + "x" + "</i>" * 50_000,
    "inline": "<span>" * 3000 + "x",
    "definitions": "<dl><div>" * 1500 + "x",
    "cells": "<table><tr><td>" * 3000 + "x",
    "formats": "".join(f"<font color={number}>" for number in range(500)) + "<p>x" * 100_000,
    "figures": "<figure><figcaption>" * 1500 + "x",
    "infoboxes": "<table class=infobox><tr><td>" * 1300 + "x",
    "headings": "<h1><div>" * 1300 + "x",
    "names": "<p class='menu comments'>x " * 20_000 + "x",
    "brackets": "<" * 300_000 + "x",
    "superscripts": "<sup>1" * 900 + "x",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("is_page", [False, True])
def test_hostile_input_is_refused_or_read_at_once(name: str, is_page: bool) -> None:
    begin = time.process_time()
    try:
        parts = read(HOSTILE[name], is_page)
    except ValueError as error:
        assert "nested too deeply" in str(error)
    else:
        assert any(line.endswith("x") for line in lines(parts, None))
    assert time.process_time() - begin < 5


def test_files_of_a_website(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    file, deep, gone = (tmp_path / "pages" / name for name in ("fox.html", "deep.html", "gone.html"))
    file.write_text("<h1>Fox</h1><p>It is red.</p>")
    deep.write_text("<div>" * 6000)
    folder = Folder(tmp_path, [file, deep, gone])
    [(place, fox)] = WEBSITE.read(file, folder)
    assert isinstance(fox, Document) and (place, fox.id) == (str(file), "pages/fox.html")
    [(place, error)] = WEBSITE.read(deep, folder)
    assert place == str(deep) and str(error) == f"{deep}: its elements are nested too deeply"
    deep.write_text("---\ntitle: Red fox\nsize: 40 cm\n---\n<p>It is red.</p>")
    [(_, note)] = WEBSITE.read(deep, folder)
    assert isinstance(note, Document) and not note.is_page and note.parts == [Block("It is red.")]
    assert note.values == {"title": "Red fox", "size": "40 cm"}
    [(_, error)] = WEBSITE.read(gone, folder)
    assert isinstance(error, ValueError) and str(error).startswith(f"{gone}: cannot be read")
    assert WEBSITE.suffixes == (".html", ".htm", ".xhtml") and WEBSITE.recognizes(file, b"")
