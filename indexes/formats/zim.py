"""Kiwix ZIM files: an encyclopedia's pages and images in one file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indexes.formats.fields import optional
from indexes.formats.html import read_page
from indexes.sections import split_article
from retriever.types import Entity


def read_zim(path: Path) -> Iterator[tuple[str, Entity]]:
    """Yields the articles of a `.zim` file in the file's order, with their places.

    Every HTML page is an article, except the main page and redirects. Its id and URL are its canonical link, which
    files of Wikipedia have; otherwise its id is its path. Images are named by their paths in the file.

    Raises:
        ValueError: libzim or selectolax is not installed, or the file or a page is damaged; the message names it.
    """
    archive = open_zim(path)
    main = _target(archive.main_entry) if archive.has_main_entry else ""
    for number in range(archive.entry_count):
        entry = archive._get_entry_by_id(number)  # the only way to walk through a file
        if entry.is_redirect or entry.path == main:
            continue
        where = f"{path}: entry {entry.path!r}"
        try:
            item = entry.get_item()
            if not item.mimetype.startswith("text/html"):
                continue
            html = bytes(item.content)
        except RuntimeError as error:  # libzim's error for damage
            raise ValueError(f"{where}: damaged ({error}); fetch the file again") from error
        page = read_page(html, entry.path, entry.title, where)
        if page is not None:
            yield (
                where,
                Entity(
                    id=page.canonical or entry.path,
                    title=page.title,
                    sections=split_article(page.sections),
                    image=page.images[0].url if page.images else None,
                    url=page.canonical,
                    images=page.images,
                ),
            )


def open_zim(path: Path) -> Any:
    """Opens a ZIM file with libzim.

    Raises:
        ValueError: libzim is not installed, or the file is not a ZIM file.
        FileNotFoundError: There is no such file.
    """
    reader = optional("libzim.reader", "zim")
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    try:
        return reader.Archive(path)
    except RuntimeError as error:
        raise ValueError(f"{path}: not a ZIM file, damaged or cut short ({error}); fetch it again") from error


def _target(entry: Any) -> str:
    while entry.is_redirect:
        entry = entry.get_redirect_entry()
    return str(entry.path)
