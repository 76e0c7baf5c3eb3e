"""Which images of an article are used: the main one, more keys for step 1, and sections' own images for step 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple

from retriever.types import LABELED, Entity
from retriever.wording import counted

GROUNDS = "grounds:"
"""Prefix of the name of a key that is the main image on several backgrounds; the image's own name follows."""

WITHIN = "within:"
"""Prefix of the name of a key that is an image without its uniform border; the image's own name follows."""

ImageProblem = Literal["missing", "unreadable"]


class ImageUse(NamedTuple):
    """Which images of an entity are used."""

    keys: int = 1  # most image keys per entity, not counting labeled images; 1 means the main image only
    sections: bool = False  # whether a section's tokens use its own image, if it has one, instead of the main image
    labeled: bool = False  # whether all labeled images are used: as keys and, with a fusion encoder, by their tokens
    within: bool = False  # whether images with a uniform border are keys without it, too


MAIN_ONLY = ImageUse()


class MainImage(NamedTuple):
    """An entity's main image: its name in the image source and, if it cannot be used, what is wrong with it and why."""

    path: str | None = None
    problem: ImageProblem | None = None
    reason: str | None = None

    @property
    def readable(self) -> bool:
        """Whether there is an image to encode."""
        return self.path is not None and self.problem is None


class FurtherImages(NamedTuple):
    """The images of an entity that are used besides its main image, by their names in the image source.

    Attributes:
        keys: The images that are keys.
        sections: The image of each section, `None` for the main image; empty if no section has its own image.
    """

    keys: tuple[str, ...] = ()
    sections: tuple[str | None, ...] = ()

    def of_sections(self, main: str, count: int) -> dict[str, list[int]]:
        """Returns the images of `count` sections, as a mapping of image names to the positions of their sections."""
        found: dict[str, list[int]] = {}
        for position, name in enumerate(self.sections or [None] * count):
            found.setdefault(name or main, []).append(position)
        return found


def note_unsearched(entities: Iterator[Entity], image_keys: int, notes: list[str]) -> Iterator[Entity]:
    """Yields entities, then notes how many of their images are more than `image_keys`, unless that is 1."""
    images, owners, example = 0, 0, ""
    for entity in entities:
        urls = {entity.image, *(image.url for image in entity.images if not image.url.startswith(LABELED))} - {None}
        if len(urls) > image_keys > 1:
            images, owners, example = images + len(urls) - image_keys, owners + 1, example or entity.id
        yield entity
    if images:
        whose = f"{counted(owners, 'entity')}, such as {example}"
        notes.append(
            f"{counted(images, 'image')} of {whose}: not searched, only the first {image_keys} of each are; to search "
            "more, set search.image_keys"
        )


def is_labeled(name: str) -> bool:
    """Returns whether the key with this name is a labeled image."""
    return name.removeprefix(GROUNDS).startswith(LABELED)


def keys_with_tokens(main: str | None, further: Sequence[str], use: ImageUse) -> list[str]:
    """Returns the names of an entity's keys that have their own tokens, labeled images last.

    These are its labeled images and, if `use` allows several keys per entity, the article's images. If only main images
    are keys, they have no tokens, as in the paper: an entity scores by its best section (equation 5).
    """
    if main is None:
        return []
    shown = (name for name in (main, *further) if not name.startswith(GROUNDS))
    return [name for name in shown if use.keys > 1 or is_labeled(name)]


def choose_further(
    entity: Entity,
    main: MainImage,
    use: ImageUse,
    usable: Callable[[str], str | None],
    groundless: bool = False,
    has_border: Callable[[str], bool] = lambda name: False,
) -> FurtherImages:
    """Returns the further images of an entity, in the order of its article; none without a readable main image.

    If the main image has no background, the first further key is the main image on several ones, see
    `indexes.builder.grounds`. `usable` returns the name of a readable image by its URL; if `has_border` says yes to
    that name, what is within the border is the next key, beyond `use.keys`.
    """
    if not main.readable:
        return FurtherImages()
    usable, keys, left = cache(usable), list[str](), use.keys - 1
    if groundless and left:
        keys.append(f"{GROUNDS}{main.path}")
        left -= 1
    if use.within and not is_labeled(str(main.path)) and has_border(str(main.path)):
        keys.append(f"{WITHIN}{main.path}")
    for image in entity.images:
        labeled = image.url.startswith(LABELED)
        if not (use.labeled if labeled else left):
            continue
        name = usable(image.url)
        if name is not None and name != main.path and name not in keys:
            keys.append(name)
            left -= not labeled
            if use.within and not labeled and has_border(name):
                keys.append(f"{WITHIN}{name}")
    sections = list[str | None]()
    for section in entity.sections if use.sections else ():
        own = (usable(image.url) for image in entity.images if image.section == section.index)
        name = next((one for one in own if one is not None), None)
        sections.append(None if name == main.path else name)
    return FurtherImages(tuple(keys), tuple(sections) if any(sections) else ())
