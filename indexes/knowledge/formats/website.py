"""A folder of HTML pages with their images, such as a static website: one article per page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from indexes.knowledge.entity_keys import OWN_FILE
from indexes.knowledge.file_names import sorted_files
from indexes.knowledge.formats.furniture import furniture_of
from indexes.knowledge.formats.html import Measure, read_page
from indexes.knowledge.formats.reading import Reading
from indexes.knowledge.formats.skipped import Entry, unreadable
from indexes.knowledge.image_files import ImageFiles
from indexes.knowledge.svg import size_of
from retriever.images import ImageError

_SUFFIXES = (".html", ".htm", ".xhtml")
_SAMPLE = 60


def read_website(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the pages under a folder that have text, sorted by their paths, which are their ids.

    Boilerplate that many pages of a sample share is left out, as in ZIM files.

    Raises:
        ValueError: The folder contains no page.
    """
    files = page_files(path)
    if not files:
        raise ValueError(f"{path}: no page (*.html) in this folder")
    files = list(filter(reading.has_file, files))
    sample = files[:: max(len(files) // _SAMPLE, 1)]
    images = ImageFiles(path)
    contents = list[tuple[bytes, str]]()
    for file in sample:
        with suppress(OSError):  # reported when it is read
            contents.append((file.read_bytes(), file.relative_to(path).as_posix()))
    furniture = furniture_of(contents, reading, images.path_of)
    measure = _measuring(images)
    for file in files:
        reading.losses.at(str(file))
        try:
            name = file.relative_to(path).as_posix()
            page = read_page(file.read_bytes(), name, "", measure, reading, furniture, images.path_of)
        except OSError as error:
            yield str(file), unreadable(file, error)
            continue
        except ValueError as error:
            yield str(file), error
            continue
        if page is not None:
            yield str(file), replace(page.entity(name), named_after=((OWN_FILE, name),))


def page_files(path: Path) -> list[Path]:
    """Returns the pages under a folder in order; hidden files and folders are left out."""
    return sorted_files(path, _SUFFIXES)


def _measuring(images: ImageFiles) -> Measure:
    @lru_cache(maxsize=4096)
    def measure(name: str) -> tuple[int, int]:
        found = images.find(name).name
        try:
            return (0, 0) if found is None else size_of(images.folder / found, name)
        except ImageError:
            return 0, 0

    return measure
