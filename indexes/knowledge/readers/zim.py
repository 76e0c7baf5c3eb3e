"""Kiwix ZIM files: an encyclopedia's pages and images in one file, possibly split into parts."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, product, takewhile
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np

from indexes.extras import optional
from indexes.html_source import decode_html
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.html import document_of_page

MAGIC = b"ZIM\x04"
_LONGEST_CHAIN = 16  # most redirects in a row; more are a loop
_DAMAGE = (RuntimeError, UnicodeDecodeError)  # libzim's errors for it


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
    names = (path.parent / f"{path.stem}.zim{''.join(pair)}" for pair in product(ascii_lowercase, repeat=2))
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


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the pages of an archive in its order; the titles of redirects are other names of the pages.

    A page's URL is its canonical link, or the one in Kiwix's license note. This is also its id, unless it is the link
    of another page that this one repeats; then the id is the page's path, as is its base. Images are named by their
    paths in the archive. The main page comes last, with "main page" as the setting `kind` if there are others.
    """
    archive = open_zim(file)
    main = _resolved(archive.main_entry) if archive.has_main_entry else None
    names, last = _names_by_redirects(archive), -1 if main is None else int(main._index)
    is_alone = True
    others = (number for number in range(archive.entry_count) if number != last)
    for number in chain(others, [] if main is None else [last]):
        place = f"{file}: entry number {number}"
        try:
            entry = archive._get_entry_by_id(number)  # the only way to iterate over a file
            place = f"{file}: entry {entry.path!r}"
            item = None if entry.is_redirect else entry.get_item()
            if item is None or not item.mimetype.startswith(("text/html", "application/xhtml")):
                continue
            document = document_of_page(decode_html(bytes(item.content)), entry.path)
        except _DAMAGE as error:
            yield place, ValueError(f"{place}: damaged ({error}); fetch the file again")
            continue
        except ValueError as error:
            yield place, ValueError(f"{place}: {error}")
            continue
        document.id = document.url if _is_its_own(document.url, entry.path) else entry.path
        document.title = entry.title or document.title
        document.base = document.base or entry.path
        document.names = tuple(dict.fromkeys(name for name in names(number) if name != entry.title))
        if number == last and not is_alone:
            document.settings = {**document.settings, "kind": "main page"}
        is_alone = is_alone and (not document.parts or "kind" in document.settings)
        yield place, document


def _is_its_own(canonical: str, path: str) -> bool:
    """Returns whether a canonical link belongs to the page at `path`, not to another page that it repeats."""
    name = re.sub(r"^A/|\.html?$", "", path).strip("/").replace(" ", "_")
    _, wiki, title = canonical.partition("/wiki/")
    if wiki:
        return title.replace("/", "_") == name.replace("/", "_")  # as old archives name subpages
    return bool(name) and canonical.rstrip("/").endswith(f"/{name}")


def _names_by_redirects(archive: Any) -> Callable[[int], Iterator[str]]:
    """Returns a function that yields the titles of redirects to the entry with a given number."""
    numbers = array("i")  # 8 bytes of memory per redirect
    for number in range(archive.entry_count):
        with suppress(*_DAMAGE):  # reported when it is read
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


ZIM = Reader("zim", (".zim", ".zimaa"), lambda path, _: path.suffix.lower() == ".zim" or is_zim(path), _read)
"""Archives of Kiwix."""
