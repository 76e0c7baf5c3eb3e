"""The stage of a build that chooses the further images of articles and reads every one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path

from indexes.article_images import FURTHER, LABELED, MAIN_ONLY, FurtherImages, FurtherTable, ImageUse
from indexes.growing import GrowingLines
from indexes.lines import Articles, save_offsets
from indexes.sources import ImageSource
from indexes.stages import MainImage, MainImages
from indexes.workers import Workers, in_batches
from retriever.images import ImageError
from retriever.types import Entity

logger = logging.getLogger(__name__)

Row = tuple[tuple[str, ...], tuple[str | None, ...], list[str]]
"""The further images of an entity, and those that cannot be read, each with the reason."""


def read_further_images(
    articles: Articles,
    source: ImageSource | None,
    workers: Workers,
    use: ImageUse,
    folder: Path,
    batch: int,
    progress: bool,
) -> None:
    """Writes the further images after reading every one; those that cannot be read are left out and logged."""
    if source is None or use == MAIN_ONLY:
        return
    path = folder / FURTHER
    with GrowingLines(path, batch, len(articles)) as lines:
        make, left = partial(ReadFurtherImages, folder, source, use), range(lines.done, len(articles))
        with closing(in_batches("read further images", workers, make, None, left, batch, progress)) as done:
            for _, rows in done:
                lines.append(rows)
    save_offsets(path)
    problems = list(FurtherTable(folder).unreadable())
    if problems:
        logger.warning("%d further images unreadable, left out (%s)", len(problems), problems[0])


class ReadFurtherImages:
    """Chooses the further images of entities and reads each; `encode` returns what `read` does.

    Args:
        folder: The unfinished build, with the articles and what was found out about the main images.
        source: Where the images are.
        use: Which images are used.
        model: None is needed.
    """

    def __init__(self, folder: Path, source: ImageSource, use: ImageUse, model: None = None) -> None:
        self._articles = Articles(folder / "entities.jsonl")
        self._main_images = MainImages(folder / "main_images.jsonl")
        self._source, self._use = source, use

    def read(self, row: int) -> Row:
        """Returns the further images of an entity."""
        main, problems = self._main_images[row], list[str]()

        def usable(url: str) -> str | None:
            name = self._source.find(url)
            if name is not None and name != main.path:
                try:
                    self._source.load(name)
                except ImageError as error:
                    problems.append(f"{name}: {error.reason}")
                    return None
            return name

        further = choose_further(self._articles[row], main, self._use, usable)
        return further.keys, further.sections, problems

    def encode(self, items: Sequence[Row]) -> list[Row]:
        """Returns the rows as they were read: no model is needed."""
        return list(items)


def choose_further(
    entity: Entity, main: MainImage, use: ImageUse, usable: Callable[[str], str | None]
) -> FurtherImages:
    """Returns the further images of an entity, in the order of its article; none without a readable main image.

    Args:
        entity: The entity.
        main: Its main image.
        use: Which images are used.
        usable: Returns the name of an image by its URL, `None` if it is missing or unreadable.
    """
    if not main.readable:
        return FurtherImages()
    usable, keys, left = cache(usable), list[str](), use.keys - 1
    for image in entity.images:
        labeled = image.url.startswith(LABELED)
        if not (use.labeled if labeled else left):
            continue
        name = usable(image.url)
        if name is not None and name != main.path and name not in keys:
            keys.append(name)
            left -= not labeled
    sections = list[str | None]()
    for section in entity.sections if use.sections else ():
        own = (usable(image.url) for image in entity.images if image.section == section.index)
        name = next((one for one in own if one is not None), None)
        sections.append(None if name == main.path else name)
    return FurtherImages(tuple(keys), tuple(sections) if any(sections) else ())
