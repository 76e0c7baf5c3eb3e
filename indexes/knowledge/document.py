"""The common document: what a reader finds in one entry of a file, before anything is understood or left out.

Readers know one syntax each, and nothing of entities; `indexes.knowledge.understanding` makes entities of documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture at its place in a document.

    Attributes:
        url: Its path or address, as written; relative paths are seen from the document's file. `embedded:NAME` means
            bytes in that file (`indexes.knowledge.embedded`).
        alt: The text that replaces it.
        caption: What the document says below or beside it.
        sides: The width and height in pixels that the document states, as far as it does.
        link: Where a click on it leads.
    """

    url: str
    alt: str = ""
    caption: str = ""
    sides: tuple[int, ...] = ()
    link: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the highest."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, an item of a list, a line of code, or a figure.

    Attributes:
        text: Its words as plain text; lines are separated by newlines.
        pictures: The pictures in it, in order.
        kind: "" for text of the document; else what it is, as a noun phrase such as "navigation" or "comments". Whether
            a kind is left out is not the reader's business.
        is_links: Whether all of its words are links.
    """

    text: str
    pictures: tuple[Picture, ...] = ()
    kind: str = ""
    is_links: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: its text on one line, whether it names a column or a row, and how many of these it spans."""

    text: str
    header: bool = False
    rows: int = 1
    columns: int = 1


@dataclass(frozen=True, slots=True)
class Table:
    """A table, with the pictures in it."""

    rows: tuple[tuple[Cell, ...], ...]
    pictures: tuple[Picture, ...] = ()
    kind: str = ""


Part = Heading | Block | Table


@dataclass(slots=True)
class Document:
    """One entry of a file: a note, a page, a row, a record.

    Attributes:
        parts: Its headings, blocks and tables, in order.
        values: Its labeled values, of JSON's types: front matter, the fields of a row, an infobox. What a value is, as
            a title, is decided later, and so is whether it names a picture or holds HTML.
        settings: Labeled texts for programs, such as `<meta>` tags, that are no facts.
        id: What the file calls it: the key of an object, the path of a page in an archive, "" if it says nothing.
        title: The title that its syntax marks, such as `<title>`; "" if it is a value, a heading, or missing.
        names: Other names, such as redirects to it.
        url: The address that its syntax marks.
        is_page: Whether it is a page for browsers, with a site around it.
        base: The path that relative addresses are seen from, relative to the folder that is read; "" for its file.
    """

    parts: list[Part] = field(default_factory=list)
    values: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    id: str = ""
    title: str = ""
    names: tuple[str, ...] = ()
    url: str = ""
    base: str = ""
    is_page: bool = False
