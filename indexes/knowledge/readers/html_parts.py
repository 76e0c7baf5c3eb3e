"""Walks through a tree of HTML and yields its headings, blocks and tables in the order of the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from indexes.knowledge.document import Block, Cell, Heading, Part, Picture, Table
from indexes.knowledge.readers.html_kinds import MARKS, Marks
from indexes.knowledge.readers.html_source import INLINE, PICTURES, image_of, picture_of

_BREAK, _RAISE, _LOWER = "\x1f", "\ue000", "\ue001"  # a line break, and the start and end of a superscript
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_ROWS = ("thead", "tbody", "tfoot")
_ANCHOR = re.compile(r"\s*[¶#§🔗]+$")
_LONGEST_FACT = 250
"""Most characters of a definition that is a fact, `term: definition`; a longer one is text below its term."""
_LONGEST_CELL = 500  # most characters in a cell of data
_LONGEST_LINK = 200  # most characters in a block of navigation
_MOST_ROWS, _MOST_COLUMNS = 65534, 1000  # largest spans, as in browsers


def parts_in(node: Any, marks: Marks, kind: str = "", link: str = "") -> list[Part]:
    """Returns the parts in an element; `link` is where a click on it leads.

    Raises:
        ValueError: Its elements are nested too deeply.
    """
    walk = _Walk(marks)
    try:
        walk.through(node, kind, link, False)
    except RecursionError as error:
        raise ValueError("its elements are nested too deeply") from error
    walk.end()
    return walk.parts


def line_of(parts: Iterable[Part], kind: str = "", separator: str = ", ") -> str:
    """Returns the words of one kind on one line: those of lines, list items and paragraphs, separated by commas."""
    lines = list[str]()
    for part in parts:
        if isinstance(part, Heading):
            lines.append(part.text)
        elif part.kind != kind:
            continue
        elif isinstance(part, Table):
            rows = ([cell.text for cell in row if cell.text] for row in part.rows)
            lines += [(": " if len(row) == 2 else " ").join(row) for row in rows]
        else:
            lines += part.text.split("\n")
    lines = [line for line in lines if line.strip(" ,.;:|-\u2013") or len(line.strip()) == 1]
    return lines[0].strip() if len(lines) == 1 else separator.join(line.strip(" ,") for line in lines)


def others_in(parts: Iterable[Part], kind: str = "") -> Iterator[Block | Table]:
    """Yields the parts that are of other kinds, which `line_of` leaves out."""
    return (part for part in parts if not isinstance(part, Heading) and part.kind != kind)


def pictures_in(parts: Iterable[Part], kind: str = "") -> tuple[Picture, ...]:
    """Returns the pictures in parts, without those of blocks of other kinds."""
    return tuple(one for part in parts if not isinstance(part, Heading) and part.kind == kind for one in part.pictures)


class _Walk:
    """Collects the parts of an element."""

    def __init__(self, marks: Marks) -> None:
        self.parts: list[Part] = []
        self._marks = marks
        self._texts: list[tuple[str, str, bool]] = []  # of this paragraph: kind, text, and whether it is linked
        self._pictures: list[tuple[str, Picture]] = []
        self._caption: Any = None  # the element with the caption of the figure around

    def through(self, parent: Any, outer: str, link: str, linked: bool) -> None:
        """Reads the children of an element of a kind; `linked` says whether its words are those of a link."""
        marks = self._marks
        for node in parent.iter(include_text=True):
            tag = node.tag
            if tag == "-text":
                text = node.text()
                if self._texts or not text.isspace():
                    self._texts.append((outer, text, linked))
                continue
            if not tag or tag[0] == "-":  # a comment, or the code of a server, which has no tag
                continue
            kind = marks.kind_of(node, outer) if marks.kinds else outer
            if marks.pictures and (picture := marks.pictures.get(node.mem_id)) is not None:
                self._pictures.append((kind, replace(picture, link=link)))
            if tag not in INLINE:
                self.end()
                self._block(node, tag, kind, link)
                self.end()
            elif tag == "img":
                self._pictures.append((kind, image_of(node, link)))
            elif tag == "br":
                self._texts.append((outer, _BREAK, True))
            elif tag == "sup":
                self._texts.append((kind, _RAISE, True))
                self.through(node, kind, link, linked)
                self._texts.append((kind, _LOWER, True))
            elif tag == "a" and (target := node.attributes.get("href")):
                self.through(node, kind, target, True)
            else:
                self.through(node, kind, link, linked)

    def end(self) -> None:
        """Ends a paragraph: its words are a block, with others for words in it of other kinds."""
        if not (self._texts or self._pictures):
            return
        texts, pictures, notes = self._texts, self._pictures, list[str]()
        self._texts, self._pictures = [], []
        for kind in dict.fromkeys([entry[0] for entry in texts] + [entry[0] for entry in pictures]):
            words = "".join([words for name, words, _ in texts if name == kind])
            text = lines_in(words, notes, self._marks.citations)
            images = tuple([picture for name, picture in pictures if name == kind])
            if text or images:
                unlinked = (words for name, words, linked in texts if name == kind and not linked)
                is_links = 0 < len(text) <= _LONGEST_LINK and not any(map(str.isalnum, "".join(unlinked)))
                self.parts.append(Block(text, images, kind, is_links))
        self.parts += [Block(" ".join(notes), (), MARKS)] if notes else []

    def _block(self, node: Any, tag: str, kind: str, link: str) -> None:
        if tag in _HEADINGS:
            self._heading(node, int(tag[1]), kind, link)
        elif tag == "pre":
            images = tuple(picture_of(image.attributes) for image in node.css(PICTURES))
            words = (part for part in node.traverse(include_text=True) if part.tag in ("-text", "br"))
            text = "".join("\n" if part.tag == "br" else part.text() for part in words).strip("\n")
            self.parts += [Block(text, images, kind)] if text.strip() or images else []
        elif tag == "table" and not _is_layout(node):
            self._table(node, kind, link)
        elif tag == "dl" and all(part.tag in ("dt", "dd") for part in _definition_parts(node)):
            self._definitions(node, kind, link)
        elif node.mem_id in self._marks.captions and node.css_first(PICTURES) is not None:
            self._figure(node, kind, link)
        elif self._caption is None or node.mem_id != self._caption.mem_id:
            self.through(node, kind, link, tag == "button")

    def _heading(self, node: Any, level: int, kind: str, link: str) -> None:
        parts = parts_in(node, self._marks, kind, link)
        text = _ANCHOR.sub("", line_of(parts, kind, " "))
        if text:
            self.parts.append(Block(text, (), kind) if kind else Heading(level, text))
        images = pictures_in(parts, kind)
        self.parts += [*([Block("", images, kind)] if images else []), *others_in(parts, kind)]

    def _table(self, node: Any, kind: str, link: str) -> None:
        for caption in (part for part in node.iter() if part.tag == "caption"):
            self.parts += parts_in(caption, self._marks, kind, link)
        rows, images, others = list[tuple[Cell, ...]](), list[Picture](), list[Part]()
        for cells in table_cells(node):
            row = list[Cell]()
            for cell in cells:
                text, attributes, is_bold = " ".join(cell.text().split()), cell.attributes, False
                if not _is_text(cell) or self._marks.kind_of(cell, kind) != kind:
                    parts = parts_in(cell, self._marks, self._marks.kind_of(cell, kind), link)
                    text = line_of(parts, kind)
                    images += pictures_in(parts, kind)
                    others += others_in(parts, kind)
                    is_bold = _is_bold(cell, text)
                is_header = is_bold or cell.tag == "th" or cell.parent.parent.tag == "thead"
                spans = _span(attributes, "rowspan", _MOST_ROWS), _span(attributes, "colspan", _MOST_COLUMNS)
                row.append(Cell(text, is_header, *spans))
            rows.append(tuple(row))
        if images or any(cell.text for row in rows for cell in row):
            self.parts.append(Table(tuple(rows), tuple(images), kind))
        self.parts += others

    def _definitions(self, node: Any, kind: str, link: str) -> None:
        """Reads a list of definitions: a short one is a fact, `term: definition`, a longer one text below its term."""
        terms, meanings = list[str](), list[str]()

        def fact() -> None:
            line = ": ".join(filter(None, (", ".join(term.rstrip(" :") for term in terms), ", ".join(meanings))))
            self.parts.extend([Block(line, (), kind)] if line else [])
            terms.clear()
            meanings.clear()

        for part in _definition_parts(node):
            parts = parts_in(part, self._marks, kind, link)
            text = line_of(parts, kind)
            is_plain = all(isinstance(one, Block) and not one.pictures and one.kind == kind for one in parts)
            if part.tag == "dd" and not (terms and is_plain and len(text) <= _LONGEST_FACT):
                fact()
                self.parts += parts
            elif part.tag == "dd":
                meanings.extend([text] if text else [])
            else:
                if meanings:
                    fact()
                terms.extend([text] if text else [])
                self.parts += [Block("", images, kind)] if (images := pictures_in(parts, kind)) else []
                self.parts += others_in(parts, kind)
        fact()

    def _figure(self, node: Any, kind: str, link: str) -> None:
        outer, caption, start = self._caption, self._marks.captions[node.mem_id], len(self.parts)
        self._caption = caption
        self.through(node, kind, link, False)
        self.end()
        self._caption = outer
        words = parts_in(caption, self._marks, kind, link)
        text, inside, is_used = line_of(words, kind), pictures_in(words, kind), False
        for number, part in enumerate(self.parts[start:], start):
            if isinstance(part, (Block, Table)) and part.pictures and text:
                is_used = True
                pictures = tuple(one if one.caption else replace(one, caption=text) for one in part.pictures)
                self.parts[number] = replace(part, pictures=pictures)
        if is_used:
            self.parts += [*([Block("", inside, kind)] if inside else []), *others_in(words, kind)]
        else:
            self.parts += words


def table_cells(table: Any) -> Iterator[list[Any]]:
    """Yields the cells of a table's own rows, without those of tables inside it."""
    for part in table.iter():
        for row in [part] if part.tag == "tr" else part.iter() if part.tag in _ROWS else ():
            if row.tag == "tr" and (cells := [node for node in row.iter() if node.tag in ("td", "th")]):
                yield cells


def _is_text(node: Any) -> bool:
    """Returns whether an element holds nothing but text."""
    child = node.child
    return child is None or (child.tag == "-text" and child.next is None)


def _is_bold(cell: Any, text: str) -> bool:
    bold = cell.css_first("b, strong") if text else None
    return bold is not None and " ".join(bold.text().split()) == text


def _span(attributes: Mapping[str, str | None], name: str, most: int) -> int:
    number = (attributes.get(name) or "1").strip()[:6] if attributes else "1"
    return max(1, min(int(number), most)) if number.isdecimal() else 1


def _is_layout(table: Any) -> bool:
    """Returns whether a table is used for layout rather than data: it has paragraphs or headings, and names nothing."""
    attributes = table.attributes
    if attributes.get("role") in ("presentation", "none"):
        return True
    cells = [cell for row in table_cells(table) for cell in row]
    if "wikitable" in (attributes.get("class") or "") or any(cell.tag == "th" for cell in cells):
        return False
    is_long = any(len(cell.text()) > _LONGEST_CELL for cell in cells)
    return len(cells) < 2 or is_long or table.css_first("h1, h2, h3, h4, p + p") is not None


def _definition_parts(node: Any) -> Iterator[Any]:
    """Yields the terms and definitions of a list, which may be in groups, and whatever else is there."""
    for part in node.iter(include_text=True):
        if part.tag == "div":
            yield from _definition_parts(part)
        elif part.tag and part.tag != "-comment" and not (part.tag == "-text" and not part.text().strip()):
            yield part


def lines_in(text: str, notes: list[str], citations: re.Pattern[str] | None = None) -> str:
    """Returns the lines of a text, its words separated by single spaces; footnote marks in it go into `notes`."""
    if _RAISE in text:
        text = _RAISED.sub(lambda raised: _written(raised, notes), text).replace(_RAISE, "").replace(_LOWER, "")
    if citations is not None and "[" in text:
        notes += citations.findall(text)
        text = citations.sub("", text)
    if _BREAK not in text:
        return " ".join(text.split())
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.split(_BREAK))))


_RAISED = re.compile(
    rf"(?P<before>[^{_RAISE}{_LOWER}]?){_RAISE}(?P<text>[^{_RAISE}{_LOWER}]*){_LOWER}"
    r"(?P<over>(?=[/\N{FRACTION SLASH}]\s*\d))?"
)
_NOTE = re.compile(r"\[.*\]|\d+(?:\s*[,;]\s*\d+)+")  # footnote marks: [1], and several numbers
_PHRASE_ENDS = frozenset('.,;:!?"»。、\N{RIGHT SINGLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}')
"""A number after these is a footnote mark, too."""
_POWER = re.compile(r"[+-]?\d.*|[i-nx-z](?:\s*[+-].+)?|[+-].+")
"""A number, or a letter that usually stands for one; others are endings (1st, Mme) or marks."""
_SIMPLE = re.compile(r"[+-]?[\w.]+[+-]?")


def _written(match: re.Match[str], notes: list[str]) -> str:
    before, raised = match["before"], match["text"].strip().replace("\N{MINUS SIGN}", "-")
    if _NOTE.fullmatch(raised) or (before in _PHRASE_ENDS and raised.isdecimal()):
        notes.append(raised)
        return before
    if match["over"] is not None and before.isdecimal():  # 1 1/2
        return f"{before} {raised}"
    if match["over"] is None and (before.isalnum() or before in (")", "]")) and _POWER.fullmatch(raised):
        return f"{before}^{raised}" if _SIMPLE.fullmatch(raised) else f"{before}^({raised})"
    return before + match["text"]
