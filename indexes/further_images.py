"""The stage of a build that chooses the further images of articles and reads every one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from functools import cache
from itertools import islice
from pathlib import Path

from indexes.ahead import map_ahead
from indexes.article_images import LABELED, MAIN_ONLY, FurtherImages, FurtherTable, ImageUse
from indexes.growing import GrowingLines
from indexes.lines import Articles, save_offsets
from indexes.sources import ImageSource
from indexes.stages import MainImage, MainImages, batches
from retriever.images import ImageError
from retriever.types import Entity

logger = logging.getLogger(__name__)


def read_further_images(
    articles: Articles,
    main_images: MainImages,
    source: ImageSource | None,
    use: ImageUse,
    folder: Path,
    batch: int,
    progress: bool,
) -> FurtherTable:
    """Returns the further images after reading every one; those that cannot be read are left out and logged."""
    if source is None or use == MAIN_ONLY:
        return FurtherTable()
    path = folder / "further_images.jsonl"

    def read(row: int) -> tuple[tuple[str, ...], tuple[str | None, ...], list[str]]:
        problems = list[str]()

        def usable(url: str) -> str | None:
            name = source.find(url)
            if name is not None and name != main.path:
                try:
                    source.load(name)
                except ImageError as error:
                    problems.append(f"{name}: {error.reason}")
                    return None
            return name

        main = main_images[row]
        return *choose_further(articles[row], main, use, usable), problems

    with (
        GrowingLines(path, batch, len(articles)) as lines,
        closing(map_ahead(read, range(lines.done, len(articles)), batch)) as found,
    ):
        for rows in batches("read further images", lines.done, len(articles), batch, progress):
            lines.append(islice(found, len(rows)))
    save_offsets(path)
    table = FurtherTable(path)
    problems = list(table.unreadable())
    if problems:
        logger.warning("%d further images unreadable, left out (%s)", len(problems), problems[0])
    return table


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
