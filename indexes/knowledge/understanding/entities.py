"""Makes the entity of a document: its title, sections, facts and images; what is left out is said with its reason."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import PurePosixPath

from indexes.knowledge.bad_entries import NoThing
from indexes.knowledge.document import Document, Heading, Part, Picture, Table
from indexes.knowledge.embedded import embedded_name, is_embedded_image
from indexes.knowledge.identity import is_whole_file, note_title
from indexes.knowledge.image_rules import OWN_FILE, OWN_TABLE
from indexes.knowledge.ledger import Reason
from indexes.knowledge.sections import outlined, split_article, split_text, without_below
from indexes.knowledge.understanding.facts import as_sections, facts_of
from indexes.knowledge.understanding.fields import looks_like_image
from indexes.knowledge.understanding.furniture import (
    AROUND,
    LARGE,
    SMALLEST,
    edges,
    photos_first,
    place_of_title,
    title_of,
    why_no_photo,
    without_furniture,
)
from indexes.knowledge.understanding.shapes import Context
from indexes.knowledge.understanding.tables import table_lines
from indexes.knowledge.understanding.values import Understood, fields_listed, understood
from retriever.types import ArticleImage, Entity

_LABELED = re.compile(r"([^\W\d][\w -]{0,40}: )([^\n:]{1,400})")
"""A line with a label and a value."""
_CITATION = re.compile(r"\[(?:\d{1,3}|[a-z]|(?:note|nb|n|fn) ?\d+|citation needed|clarification needed)\]")


@dataclass(slots=True)
class Meaning:
    """The entity of a document, and what of the document is not in it, unless it is the `is_whole` entry."""

    entity: Entity
    words: Iterable[Reason] = ()
    images: Iterable[Reason] = ()
    is_whole: bool = False


def meaning_of(document: Document, place: str, path: str, context: Context) -> Meaning | ValueError:
    """Returns the entity of a document, or why there is none.

    Args:
        document: The document.
        place: Its place, for messages.
        path: The path of its file in the knowledge base.
        context: What is known of its source.
    """
    is_page, is_file = document.is_page, is_whole_file(place, path)
    try:
        values = _of_page(document, context) if is_page else understood(document.values, context.shape, place)
    except ValueError as error:
        return error
    words = list[Reason]()
    parts = list(_own_parts(document, is_page, context, words))
    lead = None if is_page else _title_heading(parts)
    title = values.title or (title_of(document, context.furniture) if is_page else document.title)
    title = title or ("" if lead is None else _text(parts[lead]))
    title = title or _name_of(document, values, path, context, is_file=is_file)
    if not title:
        named = context.shape.names.get("title")
        missing = f"field {named!r} is missing" if named else "no title"
        fields = fields_listed(document.values)
        return NoThing(f"{place}: {missing}; if it has another name, pass --map title=NAME; it has {fields}")
    article = Article(document, document.base or path, title, context, words)
    article.read(parts, lead)
    sections = article.sections()
    if not any(text.strip() for _, text in sections):
        sections[:1] = [pair for _, text in values.text for pair in split_text(title, text)]
    else:
        sections += values.text  # what a note says of itself beside its text
    facts = as_sections(values.facts, context.shape.sections)
    written = [(_named(url, path, context, bool(parts)), caption) for url, caption in values.images]
    return Meaning(
        Entity(
            id=values.id or document.id,
            title=title,
            sections=split_article([*sections, *facts]),
            image=article.main([url for url, _ in written]),
            url=values.url or document.url,
            images=article.all_images(written),
            names=tuple(dict.fromkeys(name for name in (*values.names, *document.names) if name and name != title)),
            named_after=((OWN_FILE if is_file else OWN_TABLE, path), *values.named_after),
        ),
        chain(values.left_out, words),
        chain(article.left_out, values.left_out),
    )


def _of_page(document: Document, context: Context) -> Understood:
    """Converts the values of a page: those of its infobox to facts, those that `--map` names to fields."""
    named = {field: document.settings.get(name, "") for field, name in context.shape.names.items()}
    facts = [fact for name, value in document.values.items() for fact in facts_of(name, value)]
    images = [(named["image"], "")] if named.get("image") else []
    id, title, url = (named.get(field, "") for field in ("id", "title", "url"))
    return Understood(id, title, url, facts=facts, images=images)


def _own_parts(document: Document, is_page: bool, context: Context, words: list[Reason]) -> list[Part]:
    """Returns the parts of a document that belong to its thing; the others are added to `words`."""
    kinds = AROUND if context.keep_navigation else frozenset()
    kept: list[Part] = []
    for part in document.parts:
        if isinstance(part, Heading) or not part.kind or part.kind in kinds:
            kept.append(part)
        else:
            words.append((part.kind, _text(part)))
    if context.keep_navigation:
        return kept
    start, end = edges(kept) if is_page and not is_wiki(document) else (0, len(kept))
    words += [("navigation", _text(part)) for part in (*kept[:start], *kept[end:])]
    title = (title_of(document, context.furniture) or document.id) if is_page else ""
    marked = list(without_furniture(kept[start:end], title, context.furniture))
    words += [(kind, _text(part)) for part, kind in marked if kind]
    return [part for part, kind in marked if not kind]


def _text(part: Part) -> str:
    if isinstance(part, Table):
        return "\n".join(" ".join(cell.text for cell in row) for row in part.rows)
    return part.text


def _title_heading(parts: Sequence[Part]) -> int | None:
    """Returns the number of the heading that is a note's title: the first one, if it is above all others.

    A first-level heading before any text is the title even if other first-level headings follow.
    """
    levels = [(number, part.level) for number, part in enumerate(parts) if isinstance(part, Heading)]
    if not levels or not any(map(str.isalnum, _text(parts[levels[0][0]]))):
        return None
    number, level = levels[0]
    leads = not any(_text(part) for part in parts[:number])
    highest = [other for _, other in levels].count(level) == 1 and level == min(other for _, other in levels)
    return number if (level == 1 and leads) or (highest and (leads or level == 1)) else None


def _name_of(document: Document, values: Understood, path: str, context: Context, *, is_file: bool) -> str:
    """Returns a title for a document without one: its key, or the name of its file if it has content; else ""."""
    if not is_file:
        return PurePosixPath(document.id).stem if looks_like_image(document.id) else document.id
    shape = context.shape
    content = (document.parts, values.text, values.images, values.facts if shape.is_keyed else ())
    says_something = document.is_page or shape.is_note or any(content)
    return note_title(path, context.folder, context.common) if says_something else ""


def _named(url: str, path: str, context: Context, is_article: bool) -> str:
    """Returns the path of an image that a value names, seen from the document's file."""
    if url.startswith("data:") or is_embedded_image(url):
        return embedded_name(path, url)
    if is_article:
        return context.resolve(url, path)
    folder = posixpath.dirname(path)
    if not folder or "//" in url or url.startswith(("/", "embedded:")):
        return url
    return posixpath.normpath(f"{folder}/{url}")


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
        kept, drops = list[tuple[int, str, str]](), self._context.drops
        texts = [(level, title, _listed(lines)) for level, title, lines in self._parts]
        for (level, title, text), pair in zip(texts, without_below(texts, drops), strict=True):
            kept.append((level, *pair))
            if title != pair[0]:
                why = f"sections titled {title}" if drops(title) else "sections below others that are left out"
                self._words.append((why, f"{title}\n{text}"))
        return outlined(kept)

    def main(self, named: Sequence[str]) -> str | None:
        """Returns the main image: the first that a value names, else the one that the page or its place prefers."""
        inside = photos_first([image.url for image in self.images])
        if not self._is_page:
            return next(iter(photos_first([*named, *inside])), None)
        shared = self._context.furniture.images
        stated = [*named, self._url(self._document.settings.get("og:image", ""))]
        stated = [url for url in stated if url and url not in shared]
        infobox = inside[:1] if self._document.values and not named else []
        large = [url for url in stated if min(self._context.measure(url)) >= SMALLEST]
        inside.sort(key=lambda url: (url in shared, self._sizes[url] < LARGE))
        return next(iter([*infobox, *large, *inside, *(url for url in stated if "//" in url)]), None)

    def all_images(self, named: Sequence[tuple[str, str]]) -> tuple[ArticleImage, ...]:
        """Returns the images of an article, then those that its values name, except a main image without caption."""
        inside = {image.url for image in self.images}
        captions = dict(reversed(named))
        images = [replace(image, caption=image.caption or captions.get(image.url, "")) for image in self.images]
        others = [ArticleImage(url, None, caption) for url, caption in named if url not in inside]
        return (*images, *(image for place, image in enumerate(others) if place or image.caption))


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
