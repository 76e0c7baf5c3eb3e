"""Which of several documents that name the same image it belongs to: a thing's own, not those that list or compare."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from indexes.knowledge.image_keys import last_name, loose_key, words_of
from indexes.knowledge.image_names import split_name
from retriever.types import Entity

_MANY = 1000  # from so many documents on, an image is not compared by their titles


class Claim(NamedTuple):
    """What is to be known of an entity that names an image.

    Attributes:
        row: The row of the entity.
        file: Its own file.
        titles: What it is called.
        images: The number of images that it names.
        main: Whether the image is its main image.
        document: Whether it is all of its own file, unlike a row of a table.
    """

    row: int
    file: str
    titles: tuple[str, ...]
    images: int
    main: bool
    document: bool


def claims_of(entity: Entity, file: str, row: int, images: Sequence[str], document: bool) -> dict[str, Claim]:
    """Returns the claims of an entity from a file to its images, of which the first is the main one."""
    own = last_name(posixpath.splitext(file)[0]) if document else ""
    titles = tuple(dict.fromkeys((entity.title, last_name(entity.id), own)))
    return {name: Claim(row, file, titles, len(images), name == images[0], document) for name in images}


def losers(image: str, claims: Sequence[Claim]) -> set[int]:
    """Returns the rows of the documents to which an image that they name does not belong, none in doubt.

    By the first of these that tells the entities apart, it belongs to those of which it is most true: the file is
    called like the entity; the titles of the others contain its title; the file lies in the folder of its own file; it
    is the main image; the others share a folder; the others name more images.
    """
    for values in _measures(image, claims):
        best = max(values)
        if min(values) < best:
            return {one.row for one, value in zip(claims, values, strict=True) if one.document and value < best}
    return set()


def _measures(image: str, claims: Sequence[Claim]) -> Iterator[list[int]]:
    folder, _, name = image.rpartition("/")
    stem = split_name(name)[0]
    words, key = set(words_of(stem)), loose_key(stem)
    yield [max(_called(title, words, key) for title in claim.titles) for claim in claims]
    if len(claims) < _MANY:
        titles = [frozenset(words_of(claim.titles[0])) for claim in claims]
        yield [sum(title < other for other in titles) if title else 0 for title in titles]
    homes = [posixpath.dirname(claim.file) for claim in claims]
    yield [len(home) if f"{folder}/".startswith(f"{home}/") else 0 for home in homes]
    yield [int(claim.main) for claim in claims]
    shared = Counter(homes)
    yield [int(shared[home] == 1) for home in homes]
    few = min(claim.images for claim in claims)
    yield [int(claim.images < 2 * few) for claim in claims]


def _called(title: str, words: set[str], key: str) -> int:
    """Returns how many words an entity has in common with an image that is called like it, 0 for any other."""
    own = words_of(title)
    if not own or all(word.isdecimal() for word in own):
        return 0
    if loose_key(title) == key:
        return 1 + len(words) + len(own)
    return len(own) if words.issuperset(own) else 0


def without_images(entity: Entity, lost: Set[str], there: Iterable[str]) -> Entity:
    """Returns an entity without some of its images; if the main image is one, another that is there replaces it."""
    image = entity.image
    if image is None or image in lost:
        image = next((url for url in there if url not in lost), None)
    return replace(entity, image=image, images=tuple(one for one in entity.images if one.url not in lost))
