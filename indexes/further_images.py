"""Chooses the images of an article that are used besides its main image."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from indexes.article_images import GROUNDS, LABELED, FurtherImages, ImageUse
from indexes.stages import MainImage
from retriever.types import Entity


def choose_further(
    entity: Entity, main: MainImage, use: ImageUse, usable: Callable[[str], str | None], groundless: bool = False
) -> FurtherImages:
    """Returns the further images of an entity, in the order of its article; none without a readable main image.

    If the main image has no background, the first further key is that image on several backgrounds (`indexes.grounds`).

    Args:
        entity: The entity.
        main: Its main image.
        use: Which images are used.
        usable: Returns the name of an image by its URL, or `None` if it is missing or unreadable.
        groundless: Whether the main image has no background.
    """
    if not main.readable:
        return FurtherImages()
    usable, keys, left = cache(usable), list[str](), use.keys - 1
    if groundless and left:
        keys.append(f"{GROUNDS}{main.path}")
        left -= 1
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
