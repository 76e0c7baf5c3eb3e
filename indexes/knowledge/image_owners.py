"""Whose an image is that several documents name, and which of its copies in several sizes stands for all of them."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from indexes.image_source import ImageSource
from indexes.knowledge.image_names import is_drawing, is_size, loose_key, stem_of, without_size, words_of
from indexes.knowledge.image_rules import home_of, last_name
from retriever.types import ArticleImage, Entity

_MANY = 1000  # from so many documents on, an image is not compared by their titles


class Claim(NamedTuple):
    """What is to be known of an entity that names an image."""

    row: int
    file: str  # its own file
    titles: tuple[str, ...]  # what it is called
    images: int  # number of images that it names
    main: bool  # whether the image is its main image
    document: bool  # whether it is all of its own file, unlike a row of a table


def claims_of(entity: Entity, row: int, images: Sequence[str]) -> dict[str, Claim]:
    """Returns the claims of an entity to its images, of which the first is the main one."""
    file, document = home_of(entity)
    titles = dict.fromkeys(
        (entity.title, last_name(entity.id), last_name(posixpath.splitext(file)[0] if document else ""))
    )
    return {name: Claim(row, file, tuple(titles), len(images), name == images[0], document) for name in images}


def losers(image: str, claims: Sequence[Claim]) -> set[int]:
    """Returns the rows of the documents to which an image that they name does not belong, none in doubt.

    By the first of these that tells the entities apart, it belongs to those of which it is most true: the file is
    called like the entity; the titles of the others contain its title; the file lies in the folder of its own file; it
    is the main image; the others share a folder; the others name more images.
    """
    for values in _measures(image, claims):
        best = max(values)
        if min(values) < best:
            return {claim.row for claim, value in zip(claims, values, strict=True) if claim.document and value < best}
    return set()


def _measures(image: str, claims: Sequence[Claim]) -> Iterator[list[int]]:
    folder, stem = posixpath.dirname(image), stem_of(image)
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
    of_title = words_of(title)
    if all(word.isdecimal() for word in of_title):
        return 0
    if loose_key(title) == key:
        return 1 + len(words) + len(of_title)
    return len(of_title) if words.issuperset(of_title) else 0


def without_images(entity: Entity, lost: Set[str], there: Iterable[str]) -> Entity:
    """Returns an entity without some of its images; if the main image is one, another that is there replaces it."""
    image = entity.image
    if image is None or image in lost:
        image = next((url for url in there if url not in lost), None)
    return replace(entity, image=image, images=tuple(image for image in entity.images if image.url not in lost))


def without_copies(entity: Entity, names: Mapping[str, str], source: ImageSource) -> Entity:
    """Returns an entity with the largest copy alone of each image: of `fox-thumb.jpg` and `fox@2x.jpg`, the latter.

    The `names` of its images in the source are by their URLs, in order.
    """
    largest = _largest_of(names.values(), source) if len(names) > 1 else {}
    urls = {name: url for url, name in reversed(list(names.items()))}
    instead = {url: urls[largest[name]] for url, name in names.items() if largest.get(name, name) != name}
    if not instead:
        return entity
    images: dict[str, ArticleImage] = {}  # a copy is there once, with the text of the first one
    for image in entity.images:
        url = instead.get(image.url, image.url)
        images.setdefault(url if url in instead.values() else f"{len(images)}", replace(image, url=url))
    return replace(entity, image=instead.get(entity.image or "", entity.image), images=tuple(images.values()))


def _largest_of(names: Iterable[str], source: ImageSource) -> dict[str, str]:
    """Returns, for the name of each image of an entity that has copies among them, that of the largest one."""
    groups = defaultdict[str, list[str]](list)
    for name in dict.fromkeys(names):
        groups[_key(name)].append(name)
    several = (copies for copies in groups.values() if len(copies) > 1)
    largest = ((copies, max(copies, key=lambda name: _bytes(name, source))) for copies in several)
    return {copy: name for copies, name in largest for copy in copies}


def _key(name: str) -> str:
    """Returns a path without what says a size."""
    *folders, last = name.split("/")
    kept = (folder for folder in folders if not all(map(is_size, words_of(folder))))
    return "/".join((*kept, without_size(last)))


def _bytes(name: str, source: ImageSource) -> int:
    if is_drawing(name):
        return 0
    content = source.content(name)
    return content.stat().st_size if isinstance(content, Path) else len(content)
