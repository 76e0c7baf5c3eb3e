"""Finds the furniture of a website: what many of its pages share besides their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from indexes.knowledge.formats.fields import looks_like_image
from indexes.knowledge.formats.html import Furniture, Page, Resolve, read_page
from indexes.knowledge.formats.images import LARGE, image_path
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.reading import Reading

_FEWEST = 6
"""Fewest pages from which shared boilerplate can be told."""


def furniture_of(pages: list[tuple[bytes, str]], reading: Reading, resolve: Resolve = image_path) -> Furniture:
    """Finds what pages (content, path) share: titles and lines on half of them, images on a tenth and at least three.

    Lines count if they are links, or above the title; sentences and facts of an article's body do not. For fewer than
    six pages, returns nothing.
    """
    if len(pages) < _FEWEST or reading.keep_navigation:
        return Furniture()
    half, tenth = len(pages) / 2, max(3, len(pages) / 10)
    found = Furniture()
    for _ in range(2):  # what is above the title is known once the titles of the site itself are
        titles, links, images = Counter[str](), Counter[str](), Counter[str]()
        for page in _readable(pages, reading, found, resolve):
            titles[page.title] += 1
            links.update(page.links)
            images.update({image.url for image in page.images} | {page.main or ""})
        found = Furniture(
            found.titles | {title for title, count in titles.items() if count >= half},
            frozenset(one for one, count in links.items() if count >= (tenth if looks_like_image(one) else half)),
            frozenset(image for image, count in images.items() if count >= tenth),
        )
        if not found.titles:
            break
    return found


def _readable(
    pages: Iterable[tuple[bytes, str]], reading: Reading, known: Furniture, resolve: Resolve
) -> Iterator[Page]:
    known = Furniture(known.titles)
    for html, path in pages:
        with suppress(ValueError):  # reported when it is read
            uncounted = replace(reading, losses=Losses())
            page = read_page(html, path, "", lambda name: (LARGE, LARGE), uncounted, known, resolve)
            if page is not None:
                yield page
