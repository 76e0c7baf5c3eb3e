"""Tables of OMGM's authors that say which files are the images of an entity, by its title."""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from retriever.digests import digests_of
from retriever.types import Entity

logger = logging.getLogger(__name__)

_PATH = "img_path"
_TITLES = ("title", "wikipedia_title", "wiki_title", "name")


class ImageTable:
    """The main image of each entity: the first of its title's files that exists, as in the published code.

    Args:
        paths: The tables (CSV), such as the 13 `wiki_image_url_part_N_processed.csv`; read in the order of their
            numbers. The first column has the title, `img_path` the file.
        find: Finds an image by its path; returns `None` if it does not exist.

    Raises:
        ValueError: A table has no such columns.
    """

    def __init__(self, paths: Sequence[Path], find: Callable[[str], str | None]) -> None:
        ordered = sorted(paths, key=lambda path: [int(part) for part in path.stem.split("_") if part.isdecimal()])
        self.digest = b"".join(digests_of(ordered)).hex()
        self.main: dict[str, str] = {}
        self.titles = 0
        seen: set[str] = set()
        for path in ordered:
            for title, file in _rows(path):
                seen.add(title)
                if title not in self.main and find(file) is not None:
                    self.main[title] = file
        self.titles = len(seen)
        if absent := self.titles - len(self.main):
            logger.warning("%d of %d titles in the tables of images have no image that exists", absent, self.titles)

    def applied(self, entities: Iterable[Entity]) -> Iterator[Entity]:
        """Yields entities with the main image of their title alone, or without one if the tables have none."""
        for entity in entities:
            yield replace(entity, image=self.main.get(entity.title), images=())


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        columns = list(reader.fieldnames or ())
        title = next((name for name in columns if name.strip().lower() in _TITLES), columns[0] if columns else "")
        if _PATH not in columns or title == _PATH:
            raise ValueError(f"{path}: expected columns for the title and {_PATH}, got {', '.join(columns) or 'none'}")
        for row in reader:
            if row[_PATH] and row[title]:
                yield row[title], row[_PATH]
