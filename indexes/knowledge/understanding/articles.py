"""The sections and images of an article, in the order of its document."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from indexes.knowledge.document import Document, Heading, Part, Picture, Table
from indexes.knowledge.embedded import embedded_name
from indexes.knowledge.sections import outlined, without_below
from indexes.knowledge.understanding.fields import looks_like_image
from indexes.knowledge.understanding.furniture import (
    LARGE,
    SMALLEST,
    Furniture,
    photos_first,
    place_of_title,
    why_no_photo,
)
from indexes.knowledge.understanding.tables import table_lines
from indexes.knowledge.understanding.values import Shape
from retriever.types import ArticleImage

_LABELED = re.compile(r"([^\W\d][\w -]{0,40}: )([^\n:]{1,400})")
"""A line with a label and a value."""
_CITATION = re.compile(r"\[(?:\d{1,3}|[a-z]|(?:note|nb|n|fn) ?\d+|citation needed|clarification needed)\]")


Reason = tuple[str, str]  # why something is left out, a noun phrase, and its text or address


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is known of a whole source while its documents are understood.

    Attributes:
        folder: The name of the folder that is read.
        shape: What the fields of its values are.
        furniture: What its documents share.
        common: Names of files that say nothing, such as `index` where each thing has its own folder.
        drops: Whether to leave out a section with a given title, and those below it.
        keep_navigation: Whether to keep navigation, comments and the like.
        resolve: Returns the path of an image, or its address if it is remote, from what a document names and the path
            of the document.
        measure: Returns the width and height of an image, (0, 0) if it is not there.
    """

    folder: str
    shape: Shape = field(default_factory=Shape)
    furniture: Furniture = field(default_factory=Furniture)
    common: frozenset[str] = frozenset()
    drops: Callable[[str], bool] = lambda title: False
    keep_navigation: bool = False
    resolve: Callable[[str, str], str]
    measure: Callable[[str], tuple[int, int]]


class Article:
    """Collects sections and images in the order of a document."""

    def __init__(self, document: Document, path: str, title: str, context: Context, words: list[Reason]) -> None:
        self._document, self._path, self._title, self._context, self._words = document, path, title, context, words
        self._is_page = document.is_page
        self._smallest = SMALLEST if is_wiki(document) else LARGE
        self._parts: list[tuple[int, str, list[str]]] = [(0, title, [])]
        self._sizes: dict[str, int] = {}
        self.images: list[ArticleImage] = []
        self.left_out: list[Reason] = []

    def read(self, parts: Sequence[Part], lead: int | None) -> None:
        """Adds the parts of a document; the heading with the number `lead` is its title."""
        above = place_of_title(parts, self._title) if self._is_page else 0
        for number, part in enumerate(parts):
            if isinstance(part, Heading):
                self._begin(part, number == lead)
                continue
            lines = table_lines(part.rows) if isinstance(part, Table) else [part.text] if part.text else []
            self._parts[-1][2].extend(self._without_marks(line) if self._is_page else line for line in lines)
            for picture in part.pictures:
                self._take(picture, is_above=number < above)

    def _begin(self, heading: Heading, is_title: bool) -> None:
        level, title = heading.level, heading.text
        is_first = len(self._parts) == 1 and not self._parts[0][2] and self._parts[0][0] == 0
        if is_title or (self._is_page and level == 1 and is_first):
            self._parts[0] = (int(self._is_page), title, self._parts[0][2])
        elif not (level == 1 and title == self._title):
            self._parts.append((level, title, []))

    def _without_marks(self, line: str) -> str:
        """Returns a line without the footnote marks of wikis, `[1]`."""
        if "[" not in line or not (marks := _CITATION.findall(line)):
            return line
        self._words.append(("footnote marks and references", " ".join(marks)))
        return " ".join(_CITATION.sub("", line).split())

    def _take(self, picture: Picture, *, is_above: bool) -> None:
        url = self._url(picture.url)
        if not url or url in self._sizes:
            return
        reason = why_no_photo(url) if self._is_page or "//" in url else ""
        leads_elsewhere = is_above or (picture.link and not looks_like_image(picture.link))
        if not reason and self._is_page and leads_elsewhere and url in self._context.furniture.images:
            reason = "images that many pages share"
        sides = [float(side) for side in picture.sides]
        if not reason and self._is_page:
            if looks_like_image(picture.link) and min(self._context.measure(whole := self._url(picture.link))) >= LARGE:
                url, sides = whole, []  # a link to the whole image
            reason = self._why_small(url, sides)
        elif sides and max(sides) < SMALLEST / 2:
            reason = "small images"
        if reason:
            self.left_out.append((reason, url))
            self._parts[-1][2].extend([self._without_marks(picture.caption)] if picture.caption else [])
            return
        self._sizes[url] = int(min(sides, default=0))
        caption = self._without_marks(picture.caption) or " ".join(picture.alt.split())
        self.images.append(ArticleImage(url, len(self._parts) - 1, caption))

    def _why_small(self, url: str, sides: list[float]) -> str:
        if len(sides) < 2:
            sides += self._context.measure(url)
        if min(sides) >= self._smallest:
            return ""
        if any(sides[-2:]):
            return "small images"
        return "remote images of unknown size" if "//" in url else "images that are not there"

    def _url(self, written: str) -> str:
        if written.startswith("data:"):
            return embedded_name(self._path, written)
        return self._context.resolve(written, self._path)

    def sections(self) -> list[tuple[str, str]]:
        """Returns (title, text) of each section."""
        texts = [(level, title, _listed(lines)) for level, title, lines in self._parts]
        kept = [
            (level, *pair) for (level, _, _), pair in zip(texts, without_below(texts, self._context.drops), strict=True)
        ]
        self._words += [
            (
                f"sections titled {title}" if self._context.drops(title) else "sections below others that are left out",
                f"{title}\n{text}",
            )
            for (_, title, text), (_, name, _) in zip(texts, kept, strict=True)
            if title != name
        ]
        return outlined(kept)

    def main(self, named: Sequence[str]) -> str | None:
        """Returns the main image: the first that a value names, else the one that the page or its place prefers."""
        inside = photos_first([image.url for image in self.images])
        if not self._is_page:
            return next(iter(photos_first([*named, *inside])), None)
        shared = self._context.furniture.images
        given = [*named, *filter(None, [self._url(self._document.settings.get("og:image", ""))])]
        given = [url for url in given if url and url not in shared]
        infobox = inside[:1] if self._document.values and not named else []
        large = [url for url in given if min(self._context.measure(url)) >= SMALLEST]
        inside.sort(key=lambda url: (url in shared, self._sizes[url] < LARGE))
        return next(iter([*infobox, *large, *inside, *(url for url in given if "//" in url)]), None)

    def all_images(self, named: Sequence[tuple[str, str]]) -> tuple[ArticleImage, ...]:
        """Returns the images of an article, then those that its values name, except a main image without caption."""
        inside = {image.url for image in self.images}
        captions = dict(reversed(named))
        images = [replace(image, caption=image.caption or captions.get(image.url, "")) for image in self.images]
        others = [(url, caption) for url, caption in named if url not in inside]
        images += [ArticleImage(url, None, caption) for place, (url, caption) in enumerate(others) if place or caption]
        return tuple(images)


def is_wiki(document: Document) -> bool:
    """Returns whether a document is a page of MediaWiki."""
    return document.settings.get("generator", "").startswith("MediaWiki")


def _listed(lines: Sequence[str]) -> str:
    """Returns lines as a text; values with the same label in a row, such as places, become one list."""
    joined: list[str] = []
    for line in lines:
        before, now = (_LABELED.fullmatch(text) for text in (joined[-1] if joined else "", line))
        if before is not None and now is not None and before[1] == now[1]:
            joined[-1] += f"; {now[2]}"
        else:
            joined.append(line)
    return "\n".join(joined)
