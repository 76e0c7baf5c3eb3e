"""Kiwix ZIM files: an encyclopedia's pages and images in one file, possibly split into parts."""

from __future__ import annotations

import posixpath
import re
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np

from indexes.extras import optional
from indexes.knowledge.document import Document
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.html import document_of_page
from indexes.knowledge.readers.html_source import decode_html

MAGIC = b"ZIM\x04"
_LONGEST_CHAIN = 16  # most redirects in a row; more are a loop
_Redirects = Callable[[int], Iterator[str]]  # yields the titles of redirects to the entry with a number


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
    if path.is_file() and not re.fullmatch(r"\.zim[a-z]{2}", path.suffix):
        return [path]
    whole = path.with_suffix(".zim")
    names = (whole.with_name(f"{whole.name}{first}{second}") for first in ascii_lowercase for second in ascii_lowercase)
    parts = list(takewhile(Path.is_file, names))
    if not parts:
        raise FileNotFoundError(f"{path} does not exist")
    return parts


def is_zim(path: Path) -> bool:
    """Returns whether a file is a ZIM file or part of a split one, judged by the first bytes."""
    try:
        with zim_parts(path)[0].open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def image_bytes(file: Path, name: str) -> bytes | None:
    """Returns the bytes of the entry `name` of an archive, or `None` if there is none, or it is damaged.

    Raises:
        ValueError: libzim is not installed, or the file is not a ZIM file.
    """
    with suppress(RuntimeError, KeyError):  # damaged, or not there
        return bytes(_opened(file).get_entry_by_path(name).get_item().content)
    return None


@lru_cache(maxsize=4)
def _opened(file: Path) -> Any:
    return open_zim(file)


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the pages of an archive in its order; the titles of redirects are other names of the pages.

    A page's URL is its canonical link, or the one in Kiwix's license note. This is also its id, unless it is the link
    of another page that this one repeats; then the id is the page's path, as is its base. Images are named by their
    paths in the archive. The main page comes last, with "main page" as the setting `kind`.
    """
    archive = open_zim(file)
    main = _resolved(archive.main_entry) if archive.has_main_entry else None
    redirects, number_of_main = _redirects(archive), -1 if main is None else int(main._index)
    numbers = [number_of_main] if main is not None else []
    for number in (*(n for n in range(archive.entry_count) if n != number_of_main), *numbers):
        place = f"{file}: entry number {number}"
        try:
            entry = archive._get_entry_by_id(number)  # the only way to iterate over a file
            place = f"{file}: entry {entry.path!r}"
            html = _html(entry)
        except (RuntimeError, UnicodeDecodeError) as error:  # libzim's error for damage
            yield place, ValueError(f"{place}: damaged ({error}); fetch the file again")
            continue
        if html is None:
            continue
        try:
            document = _document(html, entry.path, entry.title)
        except ValueError as error:
            yield place, ValueError(f"{place}: {error}")
            continue
        document.names = tuple(dict.fromkeys(name for name in redirects(number) if name != entry.title))
        if number == number_of_main:
            document.settings = {**document.settings, "kind": "main page"}
        yield place, document


def _document(html: bytes, path: str, title: str) -> Document:
    document = document_of_page(decode_html(html), path)
    document.id = document.url if _is_its_own(document.url, path) else path
    document.title = title or document.title
    document.base = document.base or path
    return document


def _is_its_own(canonical: str, path: str) -> bool:
    """Returns whether a canonical link belongs to the page at `path`, not to another page that it repeats."""
    name = posixpath.splitext(path)[0] if path.endswith((".html", ".htm")) else path
    name = name.removeprefix("A/").strip("/").replace(" ", "_")
    _, wiki, title = canonical.partition("/wiki/")
    if wiki:
        return title.replace("/", "_") == name.replace("/", "_")  # as old archives name subpages
    return bool(name) and canonical.rstrip("/").endswith(f"/{name}")


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
    numbers = array("i")
    for number in range(archive.entry_count):
        with suppress(RuntimeError, UnicodeDecodeError):  # damaged; reported when it is read
            entry = archive._get_entry_by_id(number)
            if entry.is_redirect and (target := _resolved(entry)) is not None:
                numbers.extend((target._index, number))
    pairs = np.array(numbers, dtype=np.int32).reshape(-1, 2)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]

    def names(number: int) -> Iterator[str]:
        first, end = np.searchsorted(pairs[:, 0], [number, number + 1])
        for redirect in pairs[first:end, 1].tolist():
            with suppress(UnicodeDecodeError):
                yield " ".join(archive._get_entry_by_id(redirect).title.replace("_", " ").split())

    return names


def _resolved(entry: Any) -> Any:
    """Returns the entry that a redirect leads to, or `None` if it leads nowhere."""
    for _ in range(_LONGEST_CHAIN):
        if not entry.is_redirect:
            return entry
        entry = entry.get_redirect_entry()
    return None


ZIM = Reader("zim", (".zim", ".zimaa"), lambda path, beginning: beginning.startswith(MAGIC), _read)
"""Archives of Kiwix."""
