"""Kiwix ZIM files: an encyclopedia's pages and images in one file, possibly split into parts."""

from __future__ import annotations

import posixpath
import re
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np

from indexes.extras import optional
from indexes.knowledge.formats.html import Furniture, Measure, measuring, read_page
from indexes.knowledge.formats.reading import Entry, Reading
from indexes.knowledge.formats.website import furniture_of
from retriever.types import Entity

_Redirects = Callable[[int], Iterator[str]]  # yields the titles of redirects to the entry with a number
MAGIC = b"ZIM\x04"
SAMPLE = 60  # number of pages compared to find shared boilerplate
_LOOKED_AT = 3000  # number of entries examined to find that many pages
_LONGEST_CHAIN = 16  # most redirects in a row; more are a loop


def read_zim(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the articles of a ZIM file in the file's order, with their places.

    Every HTML page with text is an article, except redirects, whose titles become other names of the articles, and the
    main page, unless it is the only one with text. The URL of an article is its canonical link, or the link in Kiwix's
    license note. It is also the article's id, unless it is the link of another page that this one repeats; then the id
    is the page's path. Images are named by their paths in the file.

    Raises:
        ValueError: libzim is not installed, or the file cannot be read at all.
    """
    archive = open_zim(path)
    main = _target(archive.main_entry) if archive.has_main_entry else ""
    furniture = furniture_of(list(_sample(archive, main)), reading)
    measure = measuring(partial(_content, archive))
    redirects = _redirects(archive)
    entity = partial(_entity, measure=measure, furniture=furniture, reading=reading)
    found = False
    for one in _articles(path, archive, main, redirects, reading, entity):
        found = True
        yield one
    if not found and main:
        yield from _articles(path, archive, "", redirects, reading, entity)


def _articles(
    path: Path,
    archive: Any,
    main: str,
    redirects: _Redirects,
    reading: Reading,
    read: Callable[[bytes, Any], Entity | None],
) -> Iterator[Entry]:
    """Yields the articles of an archive except the page at `main`, with their places."""
    for number in range(archive.entry_count):
        where = f"{path}: entry number {number}"
        try:
            entry = archive._get_entry_by_id(number)  # the only way to iterate over a file
            where = f"{path}: entry {entry.path!r}"
            html = None if entry.path == main else _html(entry)
        except (RuntimeError, UnicodeDecodeError) as error:  # libzim's error for damage
            yield where, ValueError(f"{where}: damaged ({error}); fetch the file again")
            continue
        if html is not None:
            reading.losses.at(where)
            try:
                found = read(html, entry)
            except ValueError as error:
                yield where, error
                continue
            if found is not None:
                others = (name for name in redirects(number) if name != found.title)
                yield where, replace(found, names=tuple(dict.fromkeys(others)))


def open_zim(path: Path) -> Any:
    """Opens a ZIM file with libzim; for a split file, any part may be named.

    Raises:
        ValueError: libzim is not installed, or the file is not a ZIM file.
        FileNotFoundError: There is no such file.
    """
    reader = optional("libzim.reader", "zim")
    first = zim_parts(path)[0]
    try:
        return reader.Archive(first)
    except RuntimeError as error:
        raise ValueError(f"{path}: not a ZIM file, damaged or cut short ({error}); fetch it again") from error


def zim_parts(path: Path) -> list[Path]:
    """Returns the files of an archive in order: the file, or all parts of a split one (`.zimaa`, `.zimab`, …).

    Raises:
        FileNotFoundError: There is no such file.
    """
    split = re.fullmatch(r"\.zim[a-z]{2}", path.suffix)
    if path.is_file() and not split:
        return [path]
    whole = path.with_suffix(".zim")
    parts = (whole.with_name(f"{whole.name}{a}{b}") for a in ascii_lowercase for b in ascii_lowercase)
    found = list(takewhile(Path.is_file, parts))
    if not found:
        raise FileNotFoundError(f"{path} does not exist")
    return found


def is_zim(path: Path) -> bool:
    """Returns whether a file is a ZIM file or part of a split one, judged by the first bytes."""
    try:
        first = zim_parts(path)[0]
    except OSError:
        return False
    with first.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _entity(html: bytes, entry: Any, measure: Measure, furniture: Furniture, reading: Reading) -> Entity | None:
    page = read_page(html, entry.path, entry.title, measure, reading, furniture)
    if page is None:
        return None
    return page.entity(page.canonical if _is_its_own(page.canonical, entry.path) else entry.path)


def _is_its_own(canonical: str, path: str) -> bool:
    """Returns whether a canonical link belongs to the page at `path`, not to another page that it repeats."""
    name = posixpath.splitext(path)[0] if path.endswith((".html", ".htm")) else path
    name = name.removeprefix("A/").strip("/").replace(" ", "_")
    _, wiki, title = canonical.partition("/wiki/")
    if wiki:
        return title.replace("/", "_") == name.replace("/", "_")  # as old archives name subpages
    return bool(name) and canonical.rstrip("/").endswith(f"/{name}")


def _content(archive: Any, name: str) -> bytes | None:
    with suppress(RuntimeError, KeyError):  # damaged, or not there
        return bytes(archive.get_entry_by_path(name).get_item().content)
    return None


def _html(entry: Any) -> bytes | None:
    """Returns the content of an entry that is a page, or `None` for others."""
    if entry.is_redirect:
        return None
    item = entry.get_item()
    return bytes(item.content) if item.mimetype.startswith(("text/html", "application/xhtml")) else None


def _redirects(archive: Any) -> _Redirects:
    """Returns a function that yields the titles of redirects to the entry with a given number.

    This takes 8 bytes of memory per redirect, and one to three microseconds per entry of the archive before the first
    article is read.
    """
    found = array("i")
    for number in range(archive.entry_count):
        with suppress(RuntimeError, UnicodeDecodeError):  # damaged; reported when it is read
            entry = archive._get_entry_by_id(number)
            if entry.is_redirect and (target := _resolved(entry)) is not None:
                found.extend((target._index, number))
    pairs = np.array(found, dtype=np.int32).reshape(-1, 2)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]

    def names(number: int) -> Iterator[str]:
        first, end = np.searchsorted(pairs[:, 0], [number, number + 1])
        for redirect in pairs[first:end, 1].tolist():
            with suppress(UnicodeDecodeError):
                yield " ".join(archive._get_entry_by_id(redirect).title.replace("_", " ").split())

    return names


def _sample(archive: Any, main: str) -> Iterator[tuple[bytes, str]]:
    """Yields the content and path of a fixed sample of pages from all over the archive."""
    count = archive.entry_count
    numbers = range(0, count, max(count // _LOOKED_AT, 1))
    found = []
    for number in numbers:
        with suppress(RuntimeError, UnicodeDecodeError):  # damaged; reported when it is read
            entry = archive._get_entry_by_id(number)
            if not entry.is_redirect and entry.path != main and entry.get_item().mimetype.startswith("text/html"):
                found.append(entry)
    for entry in found[:: max(len(found) // SAMPLE, 1)]:
        with suppress(RuntimeError, UnicodeDecodeError):
            if (html := _html(entry)) is not None:
                yield html, entry.path


def _target(entry: Any) -> str:
    found = _resolved(entry)
    return "" if found is None else str(found.path)


def _resolved(entry: Any) -> Any:
    """Returns the entry that a redirect leads to, or `None` if it leads nowhere."""
    for _ in range(_LONGEST_CHAIN):
        if not entry.is_redirect:
            return entry
        entry = entry.get_redirect_entry()
    return None
