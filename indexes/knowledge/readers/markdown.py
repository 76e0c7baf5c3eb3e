"""Reads Markdown and plain text files: notes, and pages of site generators, in the dialects of `dialects`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from markdown_it import MarkdownIt

from indexes.decoding import encoding_of
from indexes.knowledge.document import Document, Heading, Part
from indexes.knowledge.embedded import embedded_name
from indexes.knowledge.identity import common_names, named_by
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.front_matter import read_note
from indexes.knowledge.readers.html import parts_of_html

_DEEPEST = 100  # lists and quotations in each other
_DATA = re.compile(r"data:image/[\w.+-]+(?:;[\w.=-]+)*;base64,[A-Za-z0-9+/=_%-]{100,}")
_NO_NOTES = frozenset({"robots", "humans", "llms", "requirements", "constraints", "classes", "labels"})
"""Text files for programs."""


def _recognizes(path: Path, start: bytes) -> bool:
    """Returns whether a file is a note; a text file is one if it holds prose, no data or tables of numbers."""
    if path.suffix.lower() != ".txt":
        return path.suffix.lower() in MARKDOWN.suffixes
    text = start.decode(encoding_of(start), "replace").lstrip("\ufeff\r\n\t ")
    words = text.split()
    is_prose = text[:1] not in ("{", "[", "<") and 2 * sum(any(map(str.isalpha, word)) for word in words) > len(words)
    return is_prose and path.stem.lower() not in _NO_NOTES


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    try:
        yield str(file), _document(file, folder)
    except ValueError as error:
        yield str(file), error
    except RecursionError:
        yield str(file), ValueError(f"{file}: its blocks are nested too deeply")


def _document(file: Path, folder: Folder) -> Document:
    name = file.relative_to(folder.root).as_posix()
    settings, text = read_note(file)
    env: dict[str, Any] = {"file": file, "folder": folder, "places": {(file, "")}}
    env |= {"labeled": [], "properties": {}, "imported": {}}
    text = _DATA.sub(lambda data: quote(embedded_name(name, data[0]), safe="/:#"), text)  # large targets are slow
    if file.suffix.lower() == ".txt":  # whose lines are lines, and whose indented ones are no code
        text = "\n".join(f"{line.strip()}  " for line in text.split("\n"))
    parts = parts_of_html(_parser(file.suffix.lower() == ".mdx").render(text, env))
    parts = [_with_names(part) for part in parts] if "embedded:" in text else parts
    title = _title_in_vault(name, folder) if not any(key.lower() == "title" for key in settings) else ""
    return Document(
        [*parts, *env["labeled"]], env["properties"] | settings, id=posixpath.splitext(name)[0], title=title
    )


def _with_names(part: Part) -> Part:
    """Returns a part with the names of embedded images as they are, which were quoted to be targets of links."""
    if isinstance(part, Heading) or not part.pictures:
        return part
    pictures = (
        replace(picture, url=unquote(picture.url)) if picture.url.startswith("embedded:") else picture
        for picture in part.pictures
    )
    return replace(part, pictures=tuple(pictures))


def _title_in_vault(name: str, folder: Folder) -> str:
    """Returns the title of a note in a vault of Obsidian, where it is the name of its file, or ""."""
    if not (folder.root / ".obsidian").is_dir():
        return ""
    title = named_by(name, folder.root.resolve().name, _common_in(folder))
    return title if any(map(str.isalpha, title)) else ""


@lru_cache(maxsize=4)
def _common_in(folder: Folder) -> frozenset[str]:
    return common_names(folder.files)


@cache
def _parser(has_components: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True, "maxNesting": _DEEPEST}).enable(["table", "strikethrough"])
    parser.disable("code")  # indented lines, which authors indent as lists, HTML and components are, not as code
    # their packages may be missing on machines that read no notes
    from indexes.knowledge.readers.dialects import blocks, notes, templates

    parser.use(notes.plugin)  # in the order in which their rules rewrite a text
    if has_components:
        parser.use(templates.components_plugin)
    parser.use(templates.plugin).use(blocks.plugin)
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]  # targets are file names, not to be encoded
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # nothing is opened
    return parser


MARKDOWN = Reader("markdown", (".md", ".markdown", ".mdx", ".qmd", ".rmd", ".txt"), _recognizes, _read)
