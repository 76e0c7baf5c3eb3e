"""Reads HTML as headings, lines of text and images. All formats with HTML come through here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from indexes.knowledge.formats.elements import INLINE, with_words
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.tables import END, START, Cell, one_line, table_lines, write_superscripts

INVISIBLE = "script, style, noscript, template, svg, iframe, object, audio, video, [hidden]"
"""Elements that no reader of a page sees as text."""
DRAWINGS = ".mermaid, code.language-mermaid"  # elements with code that pages draw
BREAK = "\x1f"  # stands for a line break until lines are split

_ROWS = ("thead", "tbody", "tfoot")
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_PARAGRAPHS = frozenset({"p", "li", "blockquote", "summary", "figcaption", "address", "center"})
_BLOCKS = "p, ul, ol, dl, div, h1, h2, h3, h4, h5, h6, table, pre, figure, blockquote, section, article, hr"
_CAPTIONS = "figcaption, .thumbcaption, .gallerytext"
_ANCHOR = re.compile(r"\s*[¶#§🔗]+$")
_LONGEST_FACT = 250
"""Most characters of a definition that is a fact, `term: definition`; a longer one is text below its term."""
_LONGEST_CELL = 500  # most characters in a cell of data
_LONGEST_LINK = 200  # most characters in a line of navigation


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; 1 is the highest level."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """An `<img>`: its attributes, the caption of its figure, and the target of the link that it is."""

    attributes: dict[str, str | None]
    caption: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A paragraph, list item, table or block of code."""

    text: str  # its lines, without markup
    images: tuple[Image, ...] = ()
    is_links: bool = False  # whether all of its words are links or buttons
    is_code: bool = False  # whether it is preformatted text


def parse(html: str) -> Any:
    """Parses HTML; the parser is imported here, because a machine that reads other formats can do without it."""
    from selectolax.lexbor import LexborHTMLParser

    return LexborHTMLParser(html)


def read_html(html: str, losses: Losses) -> list[Heading | Piece]:
    """Returns the parts of a piece of HTML."""
    body = parse(with_words(html)).body
    if body is None:
        return []
    for node in outermost(body.css(INVISIBLE)):
        node.decompose()
    for node in outermost(body.css(DRAWINGS)) if "mermaid" in html else ():
        losses.leave_out("code of drawings and queries", node.text())
        node.decompose()
    prepare(body, losses)
    return pieces_of(body, losses)


def plain_html(html: str, losses: Losses) -> str:
    """Returns the text of HTML: a line per paragraph, and `== heading ==` for a heading."""
    pieces = read_html(html, losses)
    return "\n".join(f"== {one.text} ==" if isinstance(one, Heading) else one.text for one in pieces if one.text)


def prepare(root: Any, losses: Losses) -> None:
    """Marks superscripts and line breaks, so that they survive in the text of the elements around them."""
    for node in reversed(root.css("sup")):
        is_note = node.css_first("a[href^='#']") is not None
        if is_note:
            losses.leave_out("footnote marks and references", node.text())
        node.replace_with("" if is_note else f"{START}{node.text()}{END}")
    for node in root.css("br"):
        node.replace_with(BREAK)


def pieces_of(root: Any, losses: Losses) -> list[Heading | Piece]:
    """Returns the parts of an element that has been prepared (`prepare`).

    Raises:
        ValueError: Its elements are nested too deeply.
    """
    walk = _Walk(losses)
    try:
        walk.through(root)
    except RecursionError as error:
        raise ValueError("its elements are nested too deeply") from error
    walk.end_paragraph()
    return walk.pieces


def outermost(nodes: Iterable[Any]) -> list[Any]:
    """Returns nodes in an order in which they can be removed: innermost first, each once."""
    return list({node.mem_id: node for node in reversed(list(nodes))}.values())


def lines_in(text: str) -> str:
    """Returns a text without marks (`prepare`), its words separated by single spaces."""
    if START in text or BREAK in text:
        lines = (" ".join(line.split()) for line in write_superscripts(text).split(BREAK))
        return "\n".join(filter(None, lines))
    return " ".join(text.split())


def words_of(node: Any) -> str:
    """Returns the text of an element on one line."""
    return lines_in(node.text()).replace("\n", " ")


def heading_of(node: Any) -> str:
    """Returns the words of a heading, without the symbol of its anchor link; block elements in it are separated."""
    text = words_of(node)
    for part in filter(None, map(words_of, node.css("div, p"))):
        text = text.replace(part, f" {part} ")
    return _ANCHOR.sub("", " ".join(text.split()))


def cell_text(node: Any, losses: Losses) -> str:
    """Returns the text of a cell on one line; its lines, list items and paragraphs are separated by commas."""
    if _is_text(node) or node.css_first(_BLOCKS) is None:
        lines = lines_in(node.text()).split("\n")
    else:
        lines = [line for piece in pieces_of(node, losses) for line in piece.text.split("\n")]
    return one_line(lines)


def table_cells(table: Any) -> Iterator[list[Any]]:
    """Yields the cells of a table's own rows, without those of tables inside it."""
    for part in table.iter():
        for row in [part] if part.tag == "tr" else part.iter() if part.tag in _ROWS else ():
            if row.tag == "tr" and (cells := [node for node in row.iter() if node.tag in ("td", "th")]):
                yield cells


def _cell(node: Any, losses: Losses) -> Cell:
    text, attributes = cell_text(node, losses), node.attributes
    header = node.tag == "th" or node.parent.parent.tag == "thead"
    if not header and text and not _is_text(node):
        bold = node.css_first("b, strong")
        header = bold is not None and words_of(bold) == text
    return (
        Cell(text, header, _span(attributes, "rowspan"), _span(attributes, "colspan"))
        if attributes
        else Cell(text, header)
    )


def _span(attributes: dict[str, str | None], name: str) -> int:
    number = (attributes.get(name) or "1").strip()
    return int(number) if number.isdecimal() else 1


def _is_text(node: Any) -> bool:
    """Returns whether an element holds nothing but text."""
    child = node.child
    return child is None or (child.tag == "-text" and child.next is None)


def images_of(node: Any) -> list[Image]:
    """Returns the images in a node, or the one that it is."""
    nodes = [node] if node.tag == "img" else node.css("img, .lazy-image-placeholder")
    return [Image(one.attributes, "", _target(one.parent)) for one in nodes]


def _target(node: Any) -> str:
    """Returns the target of a link, "" for another element."""
    return (node.attributes.get("href") or "") if node is not None and node.tag == "a" else ""


class _Walk:
    """Collects the pieces of an element in the order of the page."""

    def __init__(self, losses: Losses) -> None:
        self.pieces: list[Heading | Piece] = []
        self._losses = losses
        self._paragraph: list[str] = []
        self._images: list[Image] = []
        self._is_links = True

    def through(self, parent: Any) -> None:
        """Reads the children of an element."""
        for node in parent.iter(include_text=True):
            tag = node.tag
            if tag == "-text":
                self._add(node.text(), False)
            elif tag in INLINE and (_is_text(node) or node.css_first(_BLOCKS) is None):
                self._inline(node, tag)
            elif tag and tag[0] != "-":  # a comment, or the code of a server, which has no tag
                self.end_paragraph()
                self._block(node, tag)
                self.end_paragraph()

    def end_paragraph(self) -> None:
        """Adds the words since the last paragraph as a piece."""
        text = lines_in("".join(self._paragraph))
        if text or self._images:
            self.pieces.append(Piece(text, tuple(self._images), self._is_links and bool(text)))
        self._paragraph, self._images, self._is_links = [], [], True

    def _inline(self, node: Any, tag: str) -> None:
        is_text, text = _is_text(node), node.text()
        if not is_text or tag == "img":
            self._images += images_of(node)
        is_link = bool(_target(node)) or tag == "button"
        self._add(text, is_link or (self._is_links and not is_text and _is_links(node, text)))

    def _add(self, text: str, is_links: bool) -> None:
        self._paragraph.append(text)
        if self._is_links and not is_links:
            self._is_links = not any(map(str.isalnum, text))

    def _block(self, node: Any, tag: str) -> None:
        if tag in _HEADINGS:
            images = tuple(images_of(node))
            if text := heading_of(node):
                self.pieces.append(Heading(int(tag[1]), text))
            self.pieces += [Piece("", images)] if images else []
        elif tag in _PARAGRAPHS and (_is_text(node) or node.css_first(_BLOCKS) is None):
            self._inline(node, tag)
        elif tag == "pre":
            text = write_superscripts(node.text()).replace(BREAK, "\n").strip("\n")
            self.pieces += [Piece(text, is_code=True)] if text.strip() else []
        elif tag == "table" and not _is_layout(node):
            self._table(node)
        elif tag == "dl" and all(part.tag in ("dt", "dd", "div") for part in node.iter()):
            self._definitions(node)
        elif _is_frame(node):
            caption = node.css_first(_CAPTIONS)
            said = "" if caption is None else words_of(caption)
            self.pieces.append(Piece("", tuple(Image(one.attributes, said, one.link) for one in images_of(node))))
        elif tag == "button":
            self._inline(node, tag)
        else:
            self.through(node)

    def _table(self, node: Any) -> None:
        caption = next((one for one in node.iter() if one.tag == "caption"), None)
        rows = [[_cell(cell, self._losses) for cell in cells] for cells in table_cells(node)]
        lines = table_lines(rows, self._losses)
        if caption is not None and (title := words_of(caption)):
            lines.insert(0, title)
        images = tuple(images_of(node))
        if lines or images:
            self.pieces.append(Piece("\n".join(lines), images))

    def _definitions(self, node: Any) -> None:
        """Reads a list of definitions: a short one is a fact, `term: definition`, a longer one text below its term."""
        terms, said = list[str](), list[str]()
        for part in [*_parts_of(node), None]:
            if part is not None and part.tag == "dd":
                found = pieces_of(part, self._losses)
                text = ", ".join(piece.text.replace("\n", ", ") for piece in found if piece.text)
                if (
                    terms
                    and len(text) <= _LONGEST_FACT
                    and all(isinstance(one, Piece) and not one.images for one in found)
                ):
                    said += [text] if text else []
                    continue
                self._fact(terms, said)
                self.pieces += found
                terms, said = [], []
            elif part is None or said:
                self._fact(terms, said)
                terms, said = [], []
            if part is not None and part.tag == "dt" and (term := words_of(part)):
                terms.append(term)

    def _fact(self, terms: list[str], said: list[str]) -> None:
        line = ": ".join(filter(None, (", ".join(term.rstrip(" :") for term in terms), ", ".join(said))))
        self.pieces += [Piece(line)] if line else []


def _parts_of(node: Any) -> Iterator[Any]:
    """Yields the terms and definitions of a list, which may be in groups."""
    for part in node.iter():
        if part.tag in ("dt", "dd"):
            yield part
        else:
            yield from _parts_of(part)


def _is_links(node: Any, text: str) -> bool:
    """Returns whether all words of a short element are links."""
    if len(text) > _LONGEST_LINK:
        return False
    linked = sum(1 for link in node.css("a[href], button") for sign in link.text() if sign.isalnum())
    return linked >= sum(map(str.isalnum, text))


def _is_layout(table: Any) -> bool:
    """Returns whether a table is used for layout rather than data: it has paragraphs or headings, and names nothing."""
    attributes = table.attributes
    if attributes.get("role") in ("presentation", "none"):
        return True
    if "wikitable" in (attributes.get("class") or "") or table.css_first("th") is not None:
        return False
    cells = table.css("td")
    return len(cells) < 2 or table.css_first("h1, h2, h3, h4, p + p") is not None or any(map(_is_long, cells))


def _is_long(cell: Any) -> bool:
    return len(cell.text()) > _LONGEST_CELL


def _is_frame(node: Any) -> bool:
    """Returns whether an element is an image with a caption, and nothing else."""
    classes = (node.attributes.get("class") or "").split()
    is_frame = node.tag == "figure" or "thumb" in classes or "gallerybox" in classes
    return is_frame and node.css_first("img") is not None and node.css_first("p, table, pre") is None
