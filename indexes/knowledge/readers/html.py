"""Reads HTML: pages of websites, and the pieces of it in rows, feeds, books and rendered notes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from indexes.decoding import begins_with
from indexes.html_source import decode_html, tree_of
from indexes.ids import canonical_url
from indexes.knowledge.bad_entries import unreadable
from indexes.knowledge.document import Block, Document, Heading, Part, Table
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.front_matter import split_front_matter
from indexes.knowledge.readers.html_kinds import INFOBOX, is_wiki, kinds_of, take_unseen
from indexes.knowledge.readers.html_parts import line_of, move_captions, parts_in
from indexes.knowledge.understanding.tables import table_lines

_BULLETS = "•·*- \u2013\u00a0"
_LONGEST_LABEL = 80
_TIDDLYWIKI = "#storeArea, .tiddlywiki-tiddler-store"
_MAY_BE_MARKED = re.compile(r"<(?:s[ctvu]|no|te|if|ob|au|vi|fig)|hidden|mermaid|thumb|gallery", re.IGNORECASE)


def parts_of_html(html: str) -> list[Part]:
    """Returns the parts of a piece of HTML; what no reader sees, such as code and footnote marks, comes last.

    Raises:
        ValueError: Its elements are nested too deeply.
    """
    tree, unseen = tree_of(html, False), list[Block]()
    if _MAY_BE_MARKED.search(html):
        unseen = take_unseen(tree, False)
        move_captions(tree)
    return [] if tree.body is None else [*parts_in(tree.body, {}), *unseen]


def plain_html(html: str) -> str:
    """Returns the text of HTML: a line per paragraph and row, and `== heading ==` for a heading.

    Raises:
        ValueError: Its elements are nested too deeply.
    """
    lines = list[str]()
    for part in parts_of_html(html):
        if isinstance(part, Table):
            lines += [] if part.kind else table_lines(part.rows)
        else:
            lines.append(f"== {part.text} ==" if isinstance(part, Heading) else line_of([part], separator="\n"))
    return "\n".join(filter(None, lines))


def document_of_page(html: str, path: str) -> Document:
    """Reads a page: its parts, the facts of its infoboxes as values, whose pictures come first, and its metadata.

    Among the settings are its `<meta>` tags by name, property or `http-equiv`, `canonical`, `lang`, and `kind`:
    "redirect" if it only leads elsewhere, "no page" for something else, such as a script that was served as a page.

    Args:
        html: Its source.
        path: Its own path in the folder that is read, from which relative addresses are seen.

    Raises:
        ValueError: Its elements are nested too deeply.
    """
    if not (code := html.strip("\ufeff \t\r\n\f")).startswith("<"):
        parts: list[Part] = [Block(code, (), "code that pages hide")] if code else []
        return Document(parts, settings={"kind": "no page"} if code else {}, is_page=True)
    tree = tree_of(html, True)
    if tree.css_first(_TIDDLYWIKI) is not None:
        raise ValueError("a whole TiddlyWiki in one page; save its tiddlers as JSON, or as pages of their own")
    title, base = tree.css_first("title"), tree.css_first("base[href]")
    document = Document(settings=_settings(tree), is_page=True)
    document.title = "" if title is None else " ".join(title.text().split())
    sources = tree.css("a.external[href*='/wiki/'][href*='oldid=']")  # in Kiwix's note on the license
    url = document.settings.get("canonical") or (sources[-1].attributes["href"] if sources else "")
    document.url = canonical_url(url) if url else ""
    if base is not None:
        document.base = _base(base.attributes["href"] or "", path)
    if tree.body is not None:
        try:
            _read_body(tree, document)
        except RecursionError as error:
            raise ValueError("its elements are nested too deeply") from error
    return document


def _read_body(tree: Any, document: Document) -> None:
    unseen, values = take_unseen(tree, True), dict[str, Any]()
    move_captions(tree)
    kinds = kinds_of(tree)
    parts = parts_in(tree.body, kinds, kinds.get(tree.body.mem_id, ""))
    titles = {_folded(part.text) for part in parts if isinstance(part, Heading)} | {_folded(document.title)}
    boxes, others = list[Part](), list[Part]()
    for part in parts:
        if isinstance(part, Heading) or part.kind != INFOBOX:
            others.append(part)
        else:
            boxes += _read_infobox(part, titles, values) if isinstance(part, Table) else [replace(part, kind="")]
    document.values, document.parts = values, [*boxes, *others, *unseen]


def _folded(title: str) -> str:
    return " ".join(title.partition(" (")[0].split()).strip("\"'\u201c\u201d").casefold()


def _read_infobox(box: Table, titles: set[str], values: dict[str, Any]) -> Iterator[Part]:
    """Adds the labels of an infobox to values, and yields its pictures and its text without a label.

    A header ("Population") is put before labels that are marked as its parts ("• Total").
    """
    yield from [Block("", box.pictures)] if box.pictures else []
    group = heading = ""  # the last header or label, and a header that is not part of a label yet
    for row in box.rows:
        label, *texts = [cell.text for cell in row] if len(row) > 1 else row[0].text.split(": ", 1)
        value, is_header = "; ".join(filter(None, texts)), all(cell.header for cell in row)
        is_fact = bool(label and value) and not is_header and len(label) <= _LONGEST_LABEL
        is_part = is_fact and bool(group) and label[0] in _BULLETS
        yield from [Block(heading)] if heading and not is_part else []
        heading = ""
        if is_fact:
            group = group if is_part else label
            label = (f"{group}, {label.strip(_BULLETS)}" if is_part else label).strip(":" + _BULLETS)
            previous = values.get(label, [])
            values[label] = [*(previous if isinstance(previous, list) else [previous]), value] if previous else value
        elif (len(row) > 1 and not value) or _folded(label) in titles:
            yield from [Block(f"{label} {value}".strip(), (), "headings in infoboxes")] if label else []
        elif is_header:
            group = heading = " ".join((label, *texts))
        else:
            yield from (Block(text) for text in (label, *texts) if text)
    yield from [Block(heading)] if heading else []


def _settings(tree: Any) -> dict[str, str]:
    settings: dict[str, str] = {}
    for node in tree.css("meta"):
        attributes = node.attributes
        for name in ("property", "name", "itemprop", "http-equiv"):
            if key := (attributes.get(name) or "").strip():
                settings.setdefault(key.lower() if name == "http-equiv" else key, attributes.get("content") or "")
    for name, selector, attribute in (("canonical", 'link[rel="canonical"]', "href"), ("lang", "html[lang]", "lang")):
        if (node := tree.css_first(selector)) is not None and (text := node.attributes.get(attribute)):
            settings[name] = text
    if is_wiki(tree):
        settings.setdefault("generator", "MediaWiki")
    if "url" in settings.get("refresh", "").lower():  # without an address, it loads the same page again
        settings["kind"] = "redirect"
    return settings


def _base(href: str, path: str) -> str:
    """Returns the path that the paths on a page are seen from, "" if this is the page's own."""
    try:
        base = unquote(urlsplit(urljoin(f"/{path}", href)).path) if href else ""
    except ValueError:  # brackets that are not an IPv6 address
        return ""
    return posixpath.join(posixpath.dirname(base), posixpath.basename(path)).lstrip("/") if base else ""


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the page in a file; its id is its path. One with front matter is a note in HTML, without a site around."""
    place, path = str(file), file.relative_to(folder.root).as_posix()
    try:
        html = decode_html(file.read_bytes())
        values, body = split_front_matter(html, place) if html.startswith("---") else ({}, html)
        document = Document(parts_of_html(body), values) if values else document_of_page(html, path)
    except OSError as error:
        yield place, unreadable(place, error)
    except ValueError as error:
        yield place, ValueError(str(error) if place in str(error) else f"{place}: {error}")
    else:
        document.id = path
        yield place, document


_SUFFIXES = (".html", ".htm", ".xhtml")


def _recognizes(path: Path, start: bytes) -> bool:
    return path.suffix.lower() in _SUFFIXES or begins_with(start, b"<html", b"<!doctype html")


WEBSITE = Reader("website", _SUFFIXES, _recognizes, _read)
"""Pages of websites."""
