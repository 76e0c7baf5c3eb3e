"""Copies of an image in several sizes, the largest of which stands for all: `fox-700.jpg`, `fox@2x.jpg`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from indexes.knowledge.image_keys import is_large, is_size, without_size, words_of
from indexes.knowledge.image_names import is_drawing, split_name
from indexes.knowledge.sources import ImageSource
from indexes.svg import size_of
from retriever.images import ImageError
from retriever.types import ArticleImage, Entity


def without_copies(entity: Entity, names: Mapping[str, str], source: ImageSource) -> Entity:
    """Returns an entity with the largest copy alone of each image.

    Args:
        entity: The entity.
        names: The names of its images that are there, by their URLs, in order.
        source: Where they are.
    """
    largest = _largest_of(names.values(), source) if len(names) > 1 else {}
    urls = {name: url for url, name in reversed(list(names.items()))}
    instead = {url: urls[largest[name]] for url, name in names.items() if largest and largest[name] != name}
    if not instead:
        return entity
    kept, seen = list[ArticleImage](), set[str]()
    for image in entity.images:
        url = instead.get(image.url, image.url)
        if url not in seen or url not in instead.values():
            kept.append(replace(image, url=url))
        seen.add(url)
    return replace(entity, image=instead.get(entity.image or "", entity.image), images=tuple(kept))


def _largest_of(names: Iterable[str], source: ImageSource) -> dict[str, str]:
    """Returns, for the name of each image of an entity, that of the largest copy among them."""
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        groups.setdefault(_key(name, numbers=True), []).append(name)
    stands: dict[str, str] = {}
    for group in groups.values():
        for copies in (group,) if len(group) == 1 or _has_sizes(group, source) else _without_numbers(group):
            largest = copies[0] if len(copies) == 1 else max(copies, key=lambda name: _bytes(name, source))
            stands.update(dict.fromkeys(copies, largest))
    return stands


def _key(name: str, numbers: bool) -> str:
    """Returns a path without what says a size."""
    *folders, last = name.split("/")
    kept = (folder for folder in folders if not all(map(is_size, words_of(folder))))
    return "/".join((*kept, without_size(last, numbers)))


def _without_numbers(names: Iterable[str]) -> Iterable[list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_key(name, numbers=False), []).append(name)
    return groups.values()


def _has_sizes(names: Iterable[str], source: ImageSource) -> bool:
    """Returns whether the numbers in most of the names are the width or height in pixels."""
    numbers = {name: set(filter(is_large, words_of(split_name(name.rpartition("/")[2])[0]))) for name in names}
    numbered = [name for name in numbers if numbers[name]]
    return 2 * sum(not numbers[name].isdisjoint(_pixels(name, source)) for name in numbered) >= len(numbered)


def _pixels(name: str, source: ImageSource) -> set[str]:
    try:
        return set(map(str, size_of(source.content(name), name)))
    except (ImageError, OSError):
        return set()


def _bytes(name: str, source: ImageSource) -> int:
    if is_drawing(name):
        return 0
    content = source.content(name)
    return content.stat().st_size if isinstance(content, Path) else len(content)
