"""Reads HTML: pages of websites, and the pieces of it in rows, feeds, books and rendered notes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from indexes.knowledge.bad_entries import unreadable
from indexes.knowledge.document import Block, Document, Heading, Part, Picture, Table
from indexes.ids import canonical_url
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.html_kinds import Marks, infoboxes_in, is_plain, is_wiki, marks_of, remove, take_unseen
from indexes.knowledge.readers.html_parts import line_of, others_in, parts_in, pictures_in, table_cells
from indexes.knowledge.readers.html_source import decode_html as decode_html
from indexes.knowledge.readers.html_source import tree_of

_BULLETS = "•·*- \u2013\u00a0"
_LONGEST_LABEL = 80
_UNUSED = "headings in infoboxes"
_TIDDLYWIKI = "#storeArea, .tiddlywiki-tiddler-store"


def parts_of_html(html: str, *, is_page: bool = False) -> list[Part]:
    """Returns the parts of a piece of HTML, or of a page, whose navigation, comments and the like are labeled.

    What no reader sees, such as code and footnote marks, comes last.

    Raises:
        ValueError: Its elements are nested too deeply, or it holds a whole wiki.
    """
    if is_page:
        return document_of_page(html, "").parts
    tree = tree_of(html, False)
    if tree.body is None:
        return []
    if is_plain(html):
        return parts_in(tree.body, Marks())
    unseen = take_unseen(tree, False)
    return [*parts_in(tree.body, marks_of(tree, False)), *unseen]


def plain_html(html: str) -> str:
    """Returns the text of HTML: a line per paragraph and row, and `== heading ==` for a heading.

    Raises:
        ValueError: Its elements are nested too deeply.
    """
    lines = list[str]()
    for part in parts_of_html(html):
        if isinstance(part, Heading):
            lines.append(f"== {part.text} ==")
        elif isinstance(part, Table):
            rows = ([cell.text for cell in row if cell.text] for row in part.rows)
            lines += [(": " if len(row) == 2 else ", ").join(row) for row in rows]
        elif not part.kind:
            lines.append(part.text)
    return "\n".join(filter(None, lines))


def document_of_page(html: str, path: str) -> Document:
    """Reads a page: its parts, the facts of its infoboxes as values, whose pictures come first, and its metadata.

    Among the settings are its `<meta>` tags by name, property or `http-equiv`, `canonical`, `lang`, and `kind`:
    "redirect" if it only leads elsewhere, "no page" for something else, such as a script that was served as a page.

    Args:
        html: Its source.
        path: Its own path in the folder that is read, from which relative addresses are seen.

    Raises:
        ValueError: Its elements are nested too deeply, or it holds a whole wiki.
    """
    if not html.lstrip("\ufeff \t\r\n\f").startswith("<"):
        code = html.strip("\ufeff \t\r\n\f")
        return Document([Block(code, (), "code that pages hide")], settings={"kind": "no page"}) if code else Document()
    tree = tree_of(html, True)
    if tree.css_first(_TIDDLYWIKI) is not None:
        raise ValueError("a whole TiddlyWiki in one page; save its tiddlers as JSON, or as pages of their own")
    settings, title = _settings(tree), tree.css_first("title")
    document = Document(
        settings=settings,
        title="" if title is None else " ".join(title.text().split()),
        url=_canonical(tree),
        base=_base(tree, path),
        is_page=True,
    )
    if tree.body is not None:
        try:
            document.values, document.parts = _contents(tree, document.title)
        except RecursionError as error:
            raise ValueError("its elements are nested too deeply") from error
    return document


def _contents(tree: Any, title: str) -> tuple[dict[str, Any], list[Part]]:
    """Returns the values of a page's infoboxes, and its parts."""
    unseen = take_unseen(tree, True)
    marks = marks_of(tree, True)
    titles = {_folded(node.text()) for node in tree.css("h1")} | {_folded(title)}
    nodes = infoboxes_in(tree, marks)
    boxes = [_Box(node, titles, marks) for node in nodes]
    remove(nodes)
    values: dict[str, Any] = {}
    for label, value in (pair for box in boxes for pair in box.values):
        values[label] = [*_listed(values[label]), value] if label in values else value
    pictures = tuple(picture for box in boxes for picture in box.pictures)
    parts = [
        *([Block("", pictures)] if pictures else []),
        *(Block(line) for box in boxes for line in box.lines),
        *parts_in(tree.body, marks, marks.kinds.get(tree.body.mem_id, "")),
        *(part for box in boxes for part in box.others),
        *unseen,
    ]
    return values, parts


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _folded(title: str) -> str:
    return " ".join(title.partition(" (")[0].split()).strip("\"'\u201c\u201d").casefold()


class _Box:
    """The content of an infobox.

    A single cell before the first pair ("Single by …") is a line of its own, unless it is a title of the page. After
    that, it is the heading of a group, which is put before labels that are marked as its parts ("• Total").

    Attributes:
        values: Labels with their values.
        lines: Text without a label.
        pictures: Its pictures, with the text in their cell as caption.
        others: What is left out, by kind.
    """

    def __init__(self, box: Any, titles: set[str], marks: Any) -> None:
        self.values: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self.pictures: list[Picture] = []
        self.others: list[Part] = []
        self._marks = marks
        group, unused = "", ""
        for label, value in self._rows(box):
            if label and value:
                if label[0] in _BULLETS and group:
                    label, unused = f"{group}, {label.strip(_BULLETS)}", ""
                else:
                    self._leave_out(unused)
                    group, unused = label, ""
                self.values.append((label.strip(":" + _BULLETS), value))
            elif value:
                self._leave_out(unused)
                is_first = not self.values and _folded(value) not in titles
                group, unused = value, "" if is_first else value
                self.lines += [value] if is_first else []
        self._leave_out(unused)

    def _leave_out(self, heading: str) -> None:
        self.others += [Block(heading, (), _UNUSED)] if heading else []

    def _rows(self, box: Any) -> Iterator[tuple[str, str]]:
        """Yields the label and the value of each row; a row of one cell has no label."""
        if box.tag != "table":
            for node in box.iter():
                label, value = node.css_first(".pi-data-label"), node.css_first(".pi-data-value")
                is_group = node.tag == "table" or node.css_first("table, .pi-data") is not None
                if label is not None and value is not None and len(node.css(".pi-data-label")) == 1:
                    yield self._text(label), self._text(value)
                elif label is not None or is_group:
                    yield from self._rows(node)
                else:
                    yield "", self._text(node, is_alone=True)
            return
        for cells in table_cells(box):
            inner = cells[0].css_first("table") if len(cells) == 1 else None
            if inner is not None:
                yield from self._rows(inner)
            elif len(cells) == 1:
                yield "", self._text(cells[0], is_alone=True)
            elif all(cell.tag == "th" for cell in cells):
                self._leave_out(" ".join(map(self._text, cells)))  # names of columns
            else:
                label, *values = map(self._text, cells)
                is_pair = bool(label) and len(label) <= _LONGEST_LABEL and any(values)
                yield label if is_pair else "", "; ".join(filter(None, values if is_pair else [label, *values]))

    def _text(self, node: Any, is_alone: bool = False) -> str:
        """Returns the text of a cell, "" if it is alone and the caption of pictures."""
        parts = parts_in(node, self._marks)
        text, pictures = line_of(parts), pictures_in(parts)
        self.others += others_in(parts)
        if is_alone and pictures:
            self.pictures += [picture if picture.caption else replace(picture, caption=text) for picture in pictures]
            return ""
        self.pictures += pictures
        return text


def _settings(tree: Any) -> dict[str, str]:
    settings: dict[str, str] = {}
    for node in tree.css("meta"):
        attributes = node.attributes
        for name in ("property", "name", "itemprop", "http-equiv"):
            if key := (attributes.get(name) or "").strip():
                settings.setdefault(key.lower() if name == "http-equiv" else key, attributes.get("content") or "")
    link, root = tree.css_first('link[rel="canonical"]'), tree.css_first("html[lang]")
    if link is not None and (href := link.attributes.get("href")):
        settings["canonical"] = href
    if root is not None and (language := root.attributes.get("lang")):
        settings["lang"] = language
    if is_wiki(tree):
        settings.setdefault("generator", "MediaWiki")
    if "url" in settings.get("refresh", "").lower():  # without an address, it loads the same page again
        settings["kind"] = "redirect"
    return settings


def _canonical(tree: Any) -> str:
    """Returns the URL of the article on a page: its canonical link, or the one in Kiwix's license note."""
    link = tree.css_first('link[rel="canonical"]')
    href = "" if link is None else link.attributes.get("href") or ""
    if not href:
        sources = tree.css("a.external[href*='/wiki/'][href*='oldid=']")
        href = sources[-1].attributes.get("href") or "" if sources else ""
    return canonical_url(href) if href else ""


def _base(tree: Any, path: str) -> str:
    """Returns the path that the paths on a page are seen from, "" if this is the page's own."""
    node = tree.css_first("base[href]")
    href = node.attributes.get("href") if node is not None else ""
    if not href:
        return ""
    try:
        base = unquote(urlsplit(href).path)
    except ValueError:  # brackets that are not an IPv6 address
        return ""
    start = "" if base.startswith("/") else posixpath.dirname(path)
    return posixpath.normpath(posixpath.join("/", start, base.lstrip("/"), posixpath.basename(path))).lstrip("/")


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the page in a file; its id is its path."""
    place, path = str(file), file.relative_to(folder.root).as_posix()
    try:
        document = document_of_page(decode_html(file.read_bytes()), path)
    except OSError as error:
        yield place, unreadable(place, error)
        return
    except ValueError as error:
        yield place, ValueError(f"{place}: {error}")
        return
    document.id = path
    yield place, document


WEBSITE = Reader("website", (".html", ".htm", ".xhtml"), lambda path, beginning: True, _read)
"""Pages of websites."""
