"""An HTML page as an article: sections by its headings, the facts of its infoboxes, and images that are not icons."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from indexes.knowledge.formats import page_images, page_parts, page_titles
from indexes.knowledge.formats.elements import with_words
from indexes.knowledge.formats.fields import looks_like_image
from indexes.knowledge.formats.html_text import Heading, Image, Piece, heading_of, lines_in, parse, pieces_of, prepare
from indexes.knowledge.formats.losses import Losses, words_in
from indexes.knowledge.formats.outline import outlined, split_article, without_below
from indexes.knowledge.formats.page_images import ICON, LARGE, SMALLEST
from indexes.knowledge.formats.page_parts import INFOBOX, canonical, content, meta
from indexes.knowledge.formats.reading import Reading
from indexes.knowledge.sections import FACTS
from indexes.knowledge.svg import size_of
from retriever.images import ImageError
from retriever.types import ArticleImage, Entity, Section

_WIKI = "#mw-content-text, body.mediawiki, .mw-parser-output, meta[name=generator][content^=MediaWiki]"
_CITATION = re.compile(r"\[(?:\d{1,3}|[a-z]|(?:note|nb|n|fn) ?\d+|citation needed|clarification needed)\]")
_RIGHTS = re.compile(r"©|\(c\) ?\d{4}|\bcopyright\b|\ball rights reserved\b|\bpowered by\b", re.IGNORECASE)
_LEADING = 8
_LONGEST_RIGHTS = 200  # most characters in a line of rights


class Furniture(NamedTuple):
    """What many pages of a file share: titles, navigation and logos, images in their bodies, and names of the site.

    The latter are ends of titles with their separators: `Zoo: `, ` | Zoo`.
    """

    titles: frozenset[str] = frozenset()
    links: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()
    sites: frozenset[str] = frozenset()


class Page(NamedTuple):
    """The content of a page: its sections, images by path, and which is the main one.

    `links` are lines and images that are navigation if many pages share them: links, and what is above the title.
    """

    title: str
    canonical: str
    sections: tuple[Section, ...]
    images: tuple[ArticleImage, ...]
    main: str | None
    links: frozenset[str] = frozenset()

    def entity(self, id: str) -> Entity:
        """Returns the page as an entity."""
        return Entity(id, self.title, self.sections, self.main, self.canonical, self.images)


Measure = Callable[[str], tuple[int, int]]
"""Returns the width and height of an image in the file, (0, 0) if it is not there."""
Resolve = Callable[[str, str], str]
"""Returns the path of an image, or its URL if it is remote, from what a page names and the path of the page."""


def read_page(
    html: bytes,
    path: str,
    title: str,
    measure: Measure,
    reading: Reading,
    furniture: Furniture | None = None,
    resolve: Resolve = page_images.image_path,
) -> Page | None:
    """Returns the article in a page, or `None` if the page has no text or only redirects to another one.

    References and navigation are left out, and so are icons: images that the page shows with fewer pixels per side than
    `SMALLEST`. Remote images are only used if the page states their size, or as its `og:image`. `path` is its own in
    its file, `measure` returns the size of an image if the page does not state it, and `resolve` the path in the file
    of an image that the page names. The names in `reading` are those of `<meta>` tags.

    Raises:
        ValueError: The page is nested too deeply, or holds a whole wiki.
    """
    source, losses = page_parts.decode(html), reading.losses
    if not source.lstrip().startswith("<"):  # scripts are often served as text/html
        losses.leave_out("files that are no pages", path, unit="files")
        return None
    tree = parse(with_words(source, is_page=True))
    if tree.body is None or any(map(_is_redirect, tree.css("meta"))):
        losses.leave_out("pages without text" if tree.body is None else "pages that lead to others", path, unit="files")
        return None
    if tree.css_first("#storeArea, .tiddlywiki-tiddler-store") is not None:
        raise ValueError("a whole TiddlyWiki in one page; save its tiddlers as JSON, or as pages of their own")
    furniture = furniture or Furniture()
    given = {field: meta(tree, name) for field, name in reading.names.items()}
    url = given.get("url") or canonical(tree)
    shared = meta(tree, "og:image")
    is_wiki = tree.css_first(_WIKI) is not None
    shared_title = _one_line(meta(tree, "og:title"))
    base = page_images.base_of(tree, path)
    page_images.reveal_images(tree)
    page_parts.clean(tree, losses, is_wiki, reading.keep_navigation)
    prepare(tree.body, losses)
    root = content(tree)
    inside = {node.mem_id for node in root.css("h1")}
    titles = (heading_of(node) for node in (*root.css("h1"), *tree.css("h1"), *tree.css("title")))
    own_titles = [name for name in titles if name and name not in furniture.titles]  # not the name of the site
    title = (
        given.get("title")
        or page_titles.without_site(page_titles.title_of(title, shared_title, own_titles), furniture.sites)
        or path
    )
    page_parts.remove([node for node in tree.css("h1") if node.mem_id not in inside and heading_of(node) == title])
    page_parts.count_around(root, tree.body, losses)
    if not (is_wiki or reading.keep_navigation):
        page_parts.drop_unlikely(root, losses)
    article = _Article(base, title, measure, furniture, reading, is_wiki, resolve, parts=[(1, title, [])])
    nodes = [box for box in root.css(INFOBOX) if not page_parts.is_inside(box, "infobox")]
    boxes = [page_parts.read_infobox(box, title, losses) for box in nodes]
    for box in boxes:
        article.take(box.images)
    own = next(iter(page_images.photos_first(image.url for image in article.images)), None)
    page_parts.remove(nodes)
    pieces = pieces_of(root, losses)
    article.read(pieces if is_wiki or reading.keep_navigation else _without_edges(pieces, losses))
    facts = FACTS, "\n".join(line for box in boxes for line in box.lines)
    sections = split_article([*article.sections(), facts], title, losses)
    if not sections:
        losses.leave_out("pages without text", title, unit="files")
        return None
    named = [resolve(src, base) for src in (given.get("image"), shared) if src]
    named = [name for name in named if name not in furniture.links | furniture.images]
    remote = [name for name in named if "//" in name]
    own = own if "image" not in given else None
    large = [name for name in named if min(measure(name)) >= SMALLEST]
    main = own or next(iter(large), None) or article.first_large() or next(iter(remote), None)
    return Page(title, url, sections, tuple(article.images), main, frozenset(article.links))


def measuring(content: Callable[[str], Path | bytes | str | None]) -> Measure:
    """Returns how to read the size of an image from the header of its content or file; `(0, 0)` if there is none."""

    @lru_cache(maxsize=4096)
    def measure(name: str) -> tuple[int, int]:
        try:
            found = content(name)
            return size_of(found, name) if found else (0, 0)
        except ImageError:
            return 0, 0

    return measure


@dataclass(slots=True)
class _Article:
    """Collects sections and images in the order of the page."""

    path: str
    title: str
    measure: Measure
    furniture: Furniture
    reading: Reading
    is_wiki: bool
    resolve: Resolve
    images: list[ArticleImage] = field(default_factory=list)
    links: set[str] = field(default_factory=set)
    parts: list[tuple[int, str, list[str]]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    is_above: bool = False  # the heading with the title
    leading: int = 0  # number of lines that may be navigation, as the first ones of a page that does not show its title

    def sections(self) -> list[tuple[str, str]]:
        """Returns (title, text) of each section; those of a wiki without those below one that is left out."""
        parts = [(level, title, "\n".join(lines)) for level, title, lines in self.parts]
        if not self.is_wiki:
            return outlined(parts, self.reading.losses)
        return list(without_below(parts, self.reading.dropped, self.reading.losses))

    def first_large(self) -> str | None:
        """Returns the first large image, or else the first image; those that many pages share come last."""
        names = page_images.photos_first(one.url for one in self.images)
        names.sort(key=lambda name: (name in self.furniture.images, self.sizes[name] < LARGE))
        return next(iter(names), None)

    def read(self, pieces: Iterable[Heading | Piece]) -> None:
        """Adds the parts of the page."""
        pieces = list(pieces)
        headings = (one for one in pieces if one == Heading(1, self.title))
        lines = (one for one in pieces[:-1] if isinstance(one, Piece) and one.text == self.title)
        own = next(chain(headings, lines), None)
        self.is_above = own is not None
        self.leading = 0 if own or any(isinstance(one, Heading) for one in pieces[:1]) else _LEADING
        for piece in pieces:
            if self.is_above and piece is own and isinstance(piece, Piece):
                self.is_above = False
                self.take(piece.images)
                continue
            if isinstance(piece, Heading):
                self.is_above = self.is_above and piece is not own
                self.leading = 0
                self._begin(piece.level, piece.text)
                continue
            for line in piece.text.split("\n") if piece.text else ():
                self._add(line, piece.is_links)
            self.take(piece.images)

    def take(self, images: Iterable[Image]) -> None:
        """Adds images, except icons; without its images, the caption of a figure is text."""
        captions = {image.caption: False for image in images if image.caption}
        for image in images:
            if self._take(image) and image.caption:
                captions[image.caption] = True
        for caption, is_taken in captions.items():
            if is_taken:
                self.reading.losses.keep(caption)
            else:
                self._add(caption, False)

    def _take(self, image: Image) -> bool:
        name = self.resolve(page_images.source_of(image.attributes), self.path)
        if not name or name in self.sizes:
            return bool(name)
        if name in self.furniture.links or ICON.search(posixpath.basename(name)):
            self.reading.losses.leave_out("icons and images that many pages share", name, unit="images")
            return False
        sides = list(page_images.sides_of(image.attributes))
        if looks_like_image(image.link) and min(self.measure(full := self.resolve(image.link, self.path))) >= LARGE:
            name, sides = full, []  # a link to the whole image
        if len(sides) < 2:
            sides += self.measure(name)
        if min(sides) < (SMALLEST if self.is_wiki else LARGE):
            reason = "small images"
            if not any(sides[-2:]):
                reason = "remote images of unknown size" if "//" in name else "images that are not there"
            self.reading.losses.leave_out(reason, name, unit="images")
            return False
        if self.is_above or (image.link and not self.is_wiki and not looks_like_image(image.link)):
            self.links.add(name)
        self.sizes[name] = int(min(sides))
        caption = self._without_marks(image.caption) or _one_line(image.attributes.get("alt") or "")
        self.images.append(ArticleImage(name, len(self.parts) - 1, caption))
        return True

    def _add(self, line: str, is_links: bool) -> None:
        line = self._without_marks(line)
        if is_links or self.is_above or self.leading or (len(line) < _LONGEST_RIGHTS and _RIGHTS.search(line)):
            if line in self.furniture.links:
                self.reading.losses.leave_out("navigation", line)
                return
            self.links.add(line)
            self.leading = 0 if self.furniture.links else max(self.leading - 1, 0)
        self.parts[-1][2].extend([line] if line else [])

    def _without_marks(self, line: str) -> str:
        """Returns a line without the footnote marks of wikis."""
        text = " ".join(_CITATION.sub("", line).split()) if self.is_wiki and "[" in line else line
        if text is not line:
            self.reading.losses.leave_out("footnote marks and references", line, words_in([line]) - words_in([text]))
        return text

    def _begin(self, level: int, title: str) -> None:
        _, lead, lines = self.parts[0]
        if level == 1 and title == self.title:
            return
        if title in self.furniture.titles:
            self.reading.losses.leave_out("navigation", title)
        elif level == 1 and len(self.parts) == 1 and not lines:
            if lead != self.title:
                self.reading.losses.leave_out("headings without text", lead)
            self.parts[0] = (level, title, lines)
        else:
            self.parts.append((level, title, []))


def _is_redirect(meta: Any) -> bool:
    """Returns whether a `<meta>` tag leads to another page; without an address, it loads the same one again."""
    return (
        page_parts.attribute(meta, "http-equiv").lower() == "refresh"
        and "url" in page_parts.attribute(meta, "content").lower()
    )


def _without_edges(pieces: list[Heading | Piece], losses: Losses) -> list[Heading | Piece]:
    """Returns the parts of a page without the links before its first words, and after its last ones."""
    own = [number for number, piece in enumerate(pieces) if isinstance(piece, Heading) or not _is_link(piece)]
    if not own:
        return pieces
    first, end = own[0], own[-1] + 1
    last = pieces[end - 1]
    if isinstance(last, Heading) or last.text.endswith(":"):
        end = len(pieces)
    for piece in (*pieces[:first], *pieces[end:]):
        losses.leave_out("navigation", piece.text)
    return pieces[first:end]


def _is_link(piece: Piece) -> bool:
    return piece.is_links and not piece.images


def _one_line(text: str) -> str:
    return lines_in(text).replace("\n", " ")
