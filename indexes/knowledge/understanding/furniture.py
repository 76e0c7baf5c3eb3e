"""What many documents of one source share, such as navigation and the name of a site, and what no reader wants."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from indexes.knowledge.document import Block, Document, Heading, Part, Picture
from indexes.knowledge.image_names import is_drawing, is_icon

SMALLEST = 64  # smallest side in pixels; smaller images of pages are icons
LARGE = 100  # smallest side in pixels of an image that can be the main image of a page that names none
AROUND = frozenset(
    {"navigation", "notices", "forms and buttons", "comments", "advertisements", "text beside the main part"}
)
"""Kinds of blocks that `keep_navigation` keeps."""
SAMPLE = 60  # documents among which to look for what they share
_FEWEST = 6  # fewest documents from which shared lines can be told
_LEADING = 8  # first lines of a page without its title that may be navigation
_LONGEST_RIGHTS = 200  # most characters in a line of rights
_RIGHTS = re.compile(r"©|\(c\) ?\d{4}|\bcopyright\b|\ball rights reserved\b|\bpowered by\b", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s+[-|\u2013\u2014·:»]+\s|\s*[|\u2013\u2014·»]|:+\s")
_BADGE = re.compile(
    r"\b(?:shields\.io|badgen\.net|badges?|travis-ci|codecov|contrib\.rocks|star-history|buymeacoffee)\b|actions/workflows/",
    re.IGNORECASE,
)
"""Addresses of badges that show a project's status."""


class Furniture(NamedTuple):
    """What many documents share: titles, lines, images, and ends of titles that name the site (` | Zoo`)."""

    titles: frozenset[str] = frozenset()
    lines: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()
    sites: frozenset[str] = frozenset()


NOTHING = Furniture()


def furniture_of(documents: Sequence[Document], resolve: Callable[[str, str], str]) -> Furniture:
    """Finds titles and lines that half of the documents share, and images that a tenth of them, at least three, share.

    `resolve` returns the path of an image, or its address, from what a document names and the document's path.

    Lines count if they are links, say who has rights, or stand above the title of a page; sentences and facts of an
    article's body do not. For fewer than six documents, returns nothing.
    """
    if len(documents) < _FEWEST:
        return Furniture()
    half, tenth = len(documents) / 2, max(3, len(documents) / 10)
    furniture = Furniture()
    for _ in range(2):  # what is above the title is known once the titles of the site itself are
        titles, lines, images, sites = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
        for document in documents:
            title = title_of(document, furniture)
            titles[title] += document.is_page
            sites.update(_site_names(title) if document.is_page else ())
            place = title or document.id if document.is_page else ""
            lines.update({line for line, _ in loose_lines(document.parts, place)})
            urls = {document.settings.get("og:image", ""), *(picture.url for picture in pictures_of(document.parts))}
            images.update({resolve(url, document.base or document.id) for url in urls if url})
        furniture = Furniture(
            furniture.titles | {title for title, count in titles.items() if title and count >= half},
            frozenset(line for line, count in lines.items() if count >= half),
            frozenset(url for url, count in images.items() if count >= tenth),
            furniture.sites | {name for name, count in sites.items() if count >= half},
        )
        if not (furniture.titles or furniture.sites):
            break
    return furniture


def loose_lines(parts: Sequence[Part], title: str) -> Iterator[tuple[str, int]]:
    """Yields the lines that are furniture if many documents share them, with the numbers of their parts.

    With a `title`, of a page, these are also the lines above the heading that shows it, or else the first ones.
    """
    above = place_of_title(parts, title) if title else 0
    leading = _LEADING if title and above < 0 and not isinstance(next(iter(parts), None), Heading) else 0
    for number, part in enumerate(parts):
        leading = 0 if isinstance(part, Heading) else leading
        if not isinstance(part, Block):
            continue
        for line in filter(None, part.text.split("\n")):
            rights = len(line) < _LONGEST_RIGHTS and _RIGHTS.search(line)
            if part.is_links or number < above or leading or rights:
                leading = max(leading - 1, 0)
                yield line, number


def place_of_title(parts: Sequence[Part], title: str) -> int:
    """Returns the number of the part that shows a page's title, -1 if none does."""
    for number, part in enumerate(parts):
        if isinstance(part, Heading) and part.level == 1 and part.text == title:
            return number
    lines = (number for number, part in enumerate(parts[:-1]) if isinstance(part, Block) and part.text == title)
    return next(lines, -1)


def without_furniture(parts: Sequence[Part], title: str, furniture: Furniture) -> Iterator[tuple[Part, str]]:
    """Yields parts, each with "", or what it is if it is shared: lines, and headings with the name of a site."""
    shared = {number for line, number in loose_lines(parts, title) if line in furniture.lines}
    for number, part in enumerate(parts):
        if isinstance(part, Heading):
            yield part, "navigation" if part.text in furniture.titles and part.text != title else ""
        elif isinstance(part, Block) and number in shared:
            for line in part.text.split("\n"):
                yield Block(line, (), part.kind, part.is_links), "navigation" if line in furniture.lines else ""
            if part.pictures:
                yield Block("", part.pictures), ""
        else:
            yield part, ""


def edges(parts: Sequence[Part]) -> tuple[int, int]:
    """Returns the range of the parts of a page without the links before its first words, and after its last ones."""
    words = [n for n, part in enumerate(parts) if not (isinstance(part, Block) and part.is_links and not part.pictures)]
    if not words:
        return 0, len(parts)
    last = parts[words[-1]]
    leads = isinstance(last, Heading) or (isinstance(last, Block) and last.text.endswith(":"))
    return words[0], len(parts) if leads else words[-1] + 1


def title_of(document: Document, furniture: Furniture = NOTHING) -> str:
    """Returns the title of a page, without the name of its site; "" if neither its syntax nor a heading says one."""
    headings = [part.text for part in document.parts if isinstance(part, Heading) and part.level == 1 and part.text]
    headings = [text for text in (*headings, document.title) if text and text not in furniture.titles]
    shared = " ".join(document.settings.get("og:title", "").split())
    for whole in filter(None, (shared, *headings[-1:])):
        inside = [text for text in headings if whole.casefold().startswith(text.casefold()) and text != whole]
        if inside and _SEPARATOR.match(whole[len(max(inside, key=len)) :]):
            return max(inside, key=len)
    title = headings[0] if headings and (not shared or headings[0] in shared) else shared
    for name in _site_names(title) if furniture.sites else ():
        if name in furniture.sites:
            return title.removeprefix(name).removesuffix(name).strip()
    return title


def _site_names(title: str) -> Iterator[str]:
    """Yields the ends of a title that may be the name of a site, with their separators."""
    places = list(_SEPARATOR.finditer(title))
    if places and title[: places[0].start()] and title[places[-1].end() :]:
        yield title[: places[0].end()]
        yield title[places[-1].start() :]


def pictures_of(parts: Sequence[Part]) -> Iterator[Picture]:
    """Yields the pictures of parts, in order."""
    for part in parts:
        if not isinstance(part, Heading):
            yield from part.pictures


def why_no_photo(url: str) -> str:
    """Returns why an image is no photograph or drawing of a thing, judged by its address; "" for others."""
    if "//" in url and _BADGE.search(url):
        return "badges"
    return "icons" if is_icon(url) else ""


def photos_first(urls: Sequence[str]) -> list[str]:
    """Returns the addresses of images, SVG last, because it needs an extra."""
    return sorted(urls, key=is_drawing)
