"""A folder of HTML pages with their images, such as a static website, and what many pages of one site share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from indexes.knowledge.file_names import sorted_files
from indexes.knowledge.formats.fields import looks_like_image
from indexes.knowledge.formats.html import Furniture, Page, Resolve, measuring, read_page
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.page_images import LARGE, image_path
from indexes.knowledge.formats.page_titles import site_names
from indexes.knowledge.formats.reading import Entry, Reading, attempt
from indexes.knowledge.formats.selection import in_same_languages
from indexes.knowledge.image_files import ImageFiles
from indexes.knowledge.image_keys import OWN_FILE

_FEWEST = 6  # fewest pages from which shared boilerplate can be told


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
        titles, links, images, sites = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
        for page in _readable(pages, reading, found, resolve):
            titles[page.title] += 1
            sites.update(site_names(page.title))
            links.update(page.links)
            images.update({image.url for image in page.images} | {page.main or ""})
        found = Furniture(
            found.titles | {title for title, count in titles.items() if count >= half},
            frozenset(one for one, count in links.items() if count >= (tenth if looks_like_image(one) else half)),
            frozenset(image for image, count in images.items() if count >= tenth),
            found.sites | {name for name, count in sites.items() if count >= half},
        )
        if not (found.titles or found.sites):
            break
    return found


def _readable(
    pages: Iterable[tuple[bytes, str]], reading: Reading, known: Furniture, resolve: Resolve
) -> Iterator[Page]:
    known = Furniture(known.titles, sites=known.sites)
    for html, path in pages:
        with suppress(ValueError):  # reported when it is read
            uncounted = replace(reading, losses=Losses())
            page = read_page(html, path, "", lambda name: (LARGE, LARGE), uncounted, known, resolve)
            if page is not None:
                yield page


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
    every, files = files, list(filter(reading.has_file, files))
    images, furniture = ImageFiles(path), Furniture()
    beside = in_same_languages(every, files, path)
    for some in (files, beside) if beside is not every else (files,):
        contents = list[tuple[bytes, str]]()
        for file in some[:: max(len(some) // _SAMPLE, 1)]:
            with suppress(OSError):  # reported when it is read
                contents.append((file.read_bytes(), file.relative_to(path).as_posix()))
        more = furniture_of(contents, reading, images.path_of)
        furniture = Furniture(*(one | other for one, other in zip(furniture, more, strict=True)))
    measure = measuring(lambda name: (found := images.find(name).name) and images.folder / found)

    def page_of(file: Path, name: str) -> Page | None:
        return read_page(file.read_bytes(), name, "", measure, reading, furniture, images.path_of)

    for file in files:
        reading.losses.at(str(file))
        name = file.relative_to(path).as_posix()
        where, page = attempt(str(file), partial(page_of, file, name))
        if isinstance(page, ValueError):
            yield where, page
        elif page is not None:
            yield where, replace(page.entity(name), named_after=((OWN_FILE, name),))


def page_files(path: Path) -> list[Path]:
    """Returns the pages under a folder in order; hidden files and folders are left out."""
    return sorted_files(path, _SUFFIXES)
