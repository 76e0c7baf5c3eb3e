"""A folder of HTML pages with their images, such as a static website: one article per page."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from indexes.formats.html import Furniture, Measure, furniture_of, read_page
from indexes.formats.reading import Reading
from indexes.formats.skipped import Entry
from indexes.images import find_image
from indexes.svg import size_of
from retriever.images import ImageError
from retriever.types import Entity

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
    sample = files[:: max(len(files) // _SAMPLE, 1)]
    furniture = furniture_of([(file.read_bytes(), file.relative_to(path).as_posix()) for file in sample], reading)
    measure = _measuring(path)
    for file in files:
        reading.losses.at(str(file))
        try:
            entity = _entity(file, file.relative_to(path).as_posix(), measure, furniture, reading)
        except OSError as error:
            yield str(file), ValueError(f"{file}: cannot be read: {error.strerror}")
            continue
        except ValueError as error:
            yield str(file), error
            continue
        if entity is not None:
            yield str(file), entity


def page_files(path: Path) -> list[Path]:
    """Returns the pages under a folder in order; hidden files and folders are left out."""
    files = (file for file in path.rglob("*") if file.suffix.lower() in _SUFFIXES and file.is_file())
    visible = (file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts))
    return sorted(visible, key=lambda file: file.relative_to(path).as_posix())


def _entity(file: Path, name: str, measure: Measure, furniture: Furniture, reading: Reading) -> Entity | None:
    page = read_page(file.read_bytes(), name, "", measure, reading, furniture)
    return None if page is None else page.entity(name)


def _measuring(folder: Path) -> Measure:
    root = folder.resolve()

    @lru_cache(maxsize=4096)
    def measure(name: str) -> tuple[int, int]:
        file = find_image(root, name) if "//" in name else root / name
        if file is None or not file.is_file() or not file.resolve().is_relative_to(root):
            return 0, 0
        try:
            return size_of(file, name)
        except ImageError:
            return 0, 0

    return measure
