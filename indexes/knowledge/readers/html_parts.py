"""Walks through a tree of HTML and yields its headings, blocks, tables and pictures in the order of the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from indexes.html_source import INLINE, innermost_first
from indexes.knowledge.document import Block, Cell, Heading, Part, Picture, Table
from indexes.knowledge.readers.html_kinds import MARKS, PICTURES, Kinds, kind_of, picture_at, picture_of

_BREAK, _RAISE, _LOWER = "\x1f", "\ue000", "\ue001"  # a line break, and the start and end of a superscript
_ANCHOR = re.compile(r"\s*[¶#§🔗]+$")
_LONGEST_FACT = 250
"""Most characters of a definition that is a fact, `term: definition`; a longer one is text below its term."""
_LONGEST_CELL = 500  # most characters in a cell of data
_LONGEST_LINK = 200  # most characters in a block of navigation
_MOST_ROWS, _MOST_COLUMNS = 65534, 1000  # largest spans, as in browsers
_RAISED = re.compile(rf"([^{_RAISE}{_LOWER}]?){_RAISE}([^{_RAISE}{_LOWER}]*){_LOWER}((?=[/\u2044]\s*\d))?")
"""A superscript with the character before it, and whether it is the upper part of a fraction."""
_NOTE = re.compile(r"\[.*\]|\d+(?:\s*[,;]\s*\d+)+")  # footnote marks: [1], and several numbers
_PHRASE_ENDS = frozenset('.,;:!?"»。、\N{RIGHT SINGLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}')
"""A number after these is a footnote mark, too."""
_POWER = re.compile(r"[+-]?\d.*|[i-nx-z](?:\s*[+-].+)?|[+-].+")
"""A number, or a letter that usually stands for one; others are endings (1st, Mme) or marks."""
_SIMPLE = re.compile(r"[+-]?[\w.]+[+-]?")


def parts_in(node: Any, kinds: Kinds, kind: str = "", link: str = "") -> list[Part]:
    """Returns the parts in an element; `link` is where a click on it leads.

    Raises:
        ValueError: Its elements are nested too deeply.
    """
    walk = _Walk(kinds)
    try:
        walk.through(node, kind, link, False)
    except RecursionError as error:
        raise ValueError("its elements are nested too deeply") from error
    walk.end()
    return walk.parts


def move_captions(tree: Any) -> None:
    """Gives the captions of figures to the images in them, as attributes."""
    for frame in innermost_first(tree.css("figure, .thumb, .gallerybox")):
        caption, images = frame.css_first("figcaption, .thumbcaption, .gallerytext"), frame.css("img")
        if caption is None or not images or caption.css_first("img") is not None:
            continue
        if text := line_of(parts_in(caption, {})):
            for image in images:
                image.attrs["data-caption"] = image.attributes.get("data-caption") or text
            caption.decompose()


def line_of(parts: Iterable[Part], kind: str = "", separator: str = ", ") -> str:
    """Returns the words of one kind on one line: those of lines, list items and paragraphs, separated by commas."""
    lines = list[str]()
    for part in parts:
        if isinstance(part, Heading) or (isinstance(part, Block) and part.kind == kind):
            lines += part.text.split("\n")
        elif isinstance(part, Table) and part.kind == kind:
            rows = ([cell.text for cell in row if cell.text] for row in part.rows)
            lines += [(": " if len(row) == 2 else ", ").join(row) for row in rows]
    lines = [line for line in lines if line.strip(" ,.;:|-\u2013") or len(line.strip()) == 1]
    return lines[0].strip() if len(lines) == 1 else separator.join(line.strip(" ,") for line in lines)


def _others_in(parts: Iterable[Part], kind: str) -> Iterator[Block | Table]:
    return (part for part in parts if not isinstance(part, Heading) and part.kind != kind)


def _pictures_in(parts: Iterable[Part], kind: str) -> tuple[Picture, ...]:
    blocks = (part for part in parts if not isinstance(part, Heading) and part.kind == kind)
    return tuple(picture for block in blocks for picture in block.pictures)


class _Walk:
    """Collects the parts of an element."""

    def __init__(self, kinds: Kinds) -> None:
        self.parts: list[Part] = []
        self._kinds = kinds
        self._texts: list[tuple[str, str, bool]] = []  # of this paragraph: kind, text, and whether it is linked
        self._pictures: list[tuple[str, Picture]] = []

    def through(self, parent: Any, outer: str, link: str, linked: bool) -> None:
        """Reads the children of an element of a kind; `linked` says whether its words are those of a link."""
        for node in parent.iter(include_text=True):
            tag = node.tag
            if tag == "-text":
                text = node.text()
                if self._texts or not text.isspace():
                    self._texts.append((outer, text, linked))
                continue
            if not tag or tag[0] == "-":  # a comment, or the code of a server, which has no tag
                continue
            kind = kind_of(node, outer, self._kinds)
            if picture := picture_at(node, tag, link):
                self._pictures.append((kind, picture))
            if tag not in INLINE:
                self.end()
                if caption := node.attributes.get("caption"):  # of a component, such as mdBook's listings
                    self.parts.append(Block(caption, (), kind))
                self._block(node, tag, kind, link)
                self.end()
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
            text = lines_in("".join([words for name, words, _ in texts if name == kind]), notes)
            images = tuple([picture for name, picture in pictures if name == kind])
            if text or images:
                unlinked = (words for name, words, linked in texts if name == kind and not linked)
                is_links = 0 < len(text) <= _LONGEST_LINK and not any(map(str.isalnum, "".join(unlinked)))
                self.parts.append(Block(text, images, kind, is_links))
        self.parts += [Block(" ".join(notes), (), MARKS)] if notes else []

    def _block(self, node: Any, tag: str, kind: str, link: str) -> None:
        if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
            self._heading(node, int(tag[1]), kind, link)
        elif tag == "pre":
            images = tuple(picture_of(image) for image in node.css(PICTURES))
            words = (part for part in node.traverse(include_text=True) if part.tag in ("-text", "br"))
            text = "".join("\n" if part.tag == "br" else part.text() for part in words).strip("\n")
            self.parts += [Block(text, images, kind)] if text.strip() or images else []
        elif tag == "table" and not _is_layout(node):
            self._table(node, kind, link)
        elif tag == "dl" and all(part.tag in ("dt", "dd") for part in _definition_parts(node)):
            self._definitions(node, kind, link)
        else:
            self.through(node, kind, link, tag == "button")

    def _heading(self, node: Any, level: int, kind: str, link: str) -> None:
        parts = parts_in(node, self._kinds, kind, link)
        if text := _ANCHOR.sub("", line_of(parts, kind, " ")):
            self.parts.append(Block(text, (), kind) if kind else Heading(level, text))
        self._beside(parts, kind)

    def _beside(self, parts: list[Part], kind: str) -> None:
        """Adds what `line_of` leaves out."""
        images = _pictures_in(parts, kind)
        self.parts += [*([Block("", images, kind)] if images else []), *_others_in(parts, kind)]

    def _table(self, node: Any, kind: str, link: str) -> None:
        for caption in (part for part in node.iter() if part.tag == "caption"):
            self.parts += parts_in(caption, self._kinds, kind, link)
        rows, images, others = list[tuple[Cell, ...]](), list[Picture](), list[Part]()
        for cells in table_cells(node):
            row = list[Cell]()
            for cell in cells:
                parts = parts_in(cell, self._kinds, kind_of(cell, kind, self._kinds), link)
                text, bold = line_of(parts, kind), cell.css_first("b, strong")
                pictures = _pictures_in(parts, kind)
                others += _others_in(parts, kind)
                is_bold = bool(text) and bold is not None and " ".join(bold.text().split()) == text
                is_header = is_bold or cell.tag == "th" or cell.parent.parent.tag == "thead"
                if pictures and text and len(cells) == 1:
                    pictures, text = tuple(replace(image, caption=image.caption or text) for image in pictures), ""
                images += pictures
                spans = _span(cell, "rowspan", _MOST_ROWS), _span(cell, "colspan", _MOST_COLUMNS)
                row.append(Cell(text, is_header, *spans))
            rows.append(tuple(row))
        if images or any(cell.text for row in rows for cell in row):
            self.parts.append(Table(tuple(rows), tuple(images), kind))
        self.parts += others

    def _definitions(self, node: Any, kind: str, link: str) -> None:
        """Reads a list of definitions: a short one is a fact, `term: definition`, a longer one text below its term."""
        previous, line = "", ""
        for entry in _definition_parts(node):
            parts = parts_in(entry, self._kinds, kind, link)
            text = line_of(parts, kind)
            if any(not isinstance(part, Block) or part.pictures or part.kind != kind for part in parts):
                text = ""
            if previous and 0 < len(text) <= _LONGEST_FACT and (entry.tag == "dd" or previous == "dt"):
                line = f"{line.rstrip(' :')}: {text}" if entry.tag != previous else f"{line}, {text}"
                self.parts[-1] = Block(line, (), kind)
            elif text and (entry.tag == "dt" or len(text) <= _LONGEST_FACT):
                line = text
                self.parts.append(Block(line, (), kind))
            else:
                self.parts += parts
                text = ""
            previous = entry.tag if text else ""


def table_cells(table: Any) -> Iterator[list[Any]]:
    """Yields the cells of a table's own rows, without those of tables inside it."""
    for part in table.iter():
        for row in [part] if part.tag == "tr" else part.iter() if part.tag in ("thead", "tbody", "tfoot") else ():
            if row.tag == "tr" and (cells := [node for node in row.iter() if node.tag in ("td", "th")]):
                yield cells


def _span(cell: Any, name: str, most: int) -> int:
    number = (cell.attributes.get(name) or "1").strip()[:6]
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


def lines_in(text: str, notes: list[str]) -> str:
    """Returns the lines of a text, its words separated by single spaces; footnote marks in it go into `notes`."""
    if _RAISE in text:
        text = _RAISED.sub(lambda raised: _written(raised, notes), text).replace(_RAISE, "").replace(_LOWER, "")
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.split(_BREAK))))


def _written(match: re.Match[str], notes: list[str]) -> str:
    before, raised, is_over = match[1], match[2].strip().replace("\N{MINUS SIGN}", "-"), match[3] is not None
    if _NOTE.fullmatch(raised) or (before in _PHRASE_ENDS and raised.isdecimal()):
        notes.append(raised)
        return before
    if is_over and before.isdecimal():  # 1 1/2
        return f"{before} {raised}"
    if not is_over and (before.isalnum() or before in (")", "]")) and _POWER.fullmatch(raised):
        return f"{before}^{raised}" if _SIMPLE.fullmatch(raised) else f"{before}^({raised})"
    return before + match[2]
