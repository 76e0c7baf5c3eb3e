"""An HTML page as an article: sections by its headings, the facts of its infoboxes, and images that are not icons."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from indexes.extras import optional
from indexes.formats.fields import Names
from indexes.formats.images import ICON, LARGE, SMALLEST, image_path, photos_first, sides_of, source_of
from indexes.formats.infobox import INFOBOX, facts
from indexes.formats.page_parts import (
    INLINE,
    NO_CONTENT,
    attribute,
    canonical,
    content,
    decode,
    drop_license,
    drop_links,
    drop_unlikely,
    is_inside,
    meta,
    remove,
)
from indexes.formats.superscripts import END, START, write_superscripts
from indexes.sections import DROPPED, FACTS, split_article, title_rule
from retriever.types import ArticleImage, Entity

_WIKI = "#mw-content-text, body.mediawiki, .mw-parser-output, meta[name=generator][content^=MediaWiki]"
_PARAGRAPHS = frozenset({"p", "li", "dt", "dd", "blockquote", "pre"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_CITATION = re.compile(r"\[(?:\d{1,3}|[a-z]|(?:note|nb|n|fn) ?\d+|citation needed|clarification needed)\]")
_SEPARATOR = re.compile(r"\s+[-|\u2013\u2014·:»]+\s|\s*[|\u2013\u2014·»]|:+\s")
_ANCHOR = re.compile(r"\s*[¶#§🔗]+$")
_LISTS = title_rule(DROPPED)
_FEWEST = 6
"""Fewest pages from which shared boilerplate can be told."""


class Furniture(NamedTuple):
    """Boilerplate that many pages of a file share: lines of navigation and footers, and images such as badges."""

    lines: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()


class Page(NamedTuple):
    """The content of a page: (title, text) of each section, images by path, and which is the main one."""

    title: str
    canonical: str
    sections: list[tuple[str, str]]
    images: tuple[ArticleImage, ...]
    main: str | None

    def entity(self, id: str) -> Entity:
        """Returns the page as an entity."""
        return Entity(id, self.title, split_article(self.sections), self.main, self.canonical, self.images)


Measure = Callable[[str], tuple[int, int]]
"""Returns the width and height of an image in the file, (0, 0) if it is not there."""


def read_page(
    html: bytes, path: str, title: str, measure: Measure, furniture: Furniture | None = None, names: Names | None = None
) -> Page | None:
    """Returns the article in a page, or `None` if the page has no text or only redirects to another one.

    Data tables, references and navigation are left out, and so are icons: images that the page shows with less than
    `SMALLEST` pixels per side. Remote images are only used if the page states their size, or as its `og:image`.

    Args:
        html: The page.
        path: The path of the page in its file; the paths of its images are relative to it.
        title: Its title, "" if unknown.
        measure: Returns the size of an image if the page does not state it.
        furniture: Boilerplate to leave out.
        names: Names of `<meta>` tags for title, image or URL.

    Raises:
        ValueError: selectolax is not installed, or the page is nested too deeply.
    """
    source = decode(html)
    if not source.lstrip().startswith("<"):  # scripts are often served as text/html
        return None
    tree = optional("selectolax.lexbor", "zim").LexborHTMLParser(source)
    if tree.body is None or any(attribute(one, "http-equiv").lower() == "refresh" for one in tree.css("meta")):
        return None
    furniture = furniture or Furniture()
    given = {field: meta(tree, name) for field, name in (names or {}).items()}
    url = given.get("url") or canonical(tree)
    shared = meta(tree, "og:image")
    wiki = tree.css_first(_WIKI) is not None
    shared_title = _words(meta(tree, "og:title"))
    remove(tree.css(NO_CONTENT))
    drop_license(tree)
    root = content(tree)
    for node in reversed(tree.css("sup")):
        node.replace_with(f"{START}{node.text()}{END}")
    for node in tree.css(", ".join(f"{tag} br" for tag in sorted(_HEADINGS))):
        node.replace_with(" ")
    titles = (_heading(node) for node in (*root.css("h1"), *tree.css("h1"), *tree.css("title")))
    own_titles = [name for name in titles if name and name not in furniture.lines]  # not the name of the site
    title = given.get("title") or _title(title, shared_title, own_titles) or path
    if not wiki:
        drop_links(root)
        drop_unlikely(root)
    walk = _Walk(path, title, measure, furniture, wiki)
    boxes = [box for box in root.css(INFOBOX) if not is_inside(box, "infobox")]
    for box in boxes:
        walk.take_images(box)
    own = next(iter(photos_first(image.url for image in walk.images)), None)
    rows = [line for box in boxes for line in facts(box)]
    remove(boxes)
    for node in root.css("br"):
        node.replace_with("\n")
    try:
        walk.through(root)
    except RecursionError as error:
        raise ValueError("its elements are nested too deeply") from error
    walk.end_paragraph()
    sections = walk.articles()
    if rows:
        sections.append((FACTS, "\n".join(rows)))
    if not any(text for _, text in sections):
        return None
    named = [image_path(src, path) for src in (given.get("image"), shared) if src]
    remote = [name for name in named if "//" in name and name not in furniture.images]
    own = own if "image" not in given else None
    large = [name for name in named if name not in furniture.images and min(measure(name)) >= SMALLEST]
    main = own or next(iter(large), None) or walk.first_large()
    return Page(title, url, sections, tuple(walk.images), main or next(iter(remote), None))


def furniture_of(pages: list[tuple[bytes, str]]) -> Furniture:
    """Finds what pages (content, path) share: lines on half of them, and images on a tenth and at least three of them.

    For fewer than six pages, returns nothing.
    """
    if len(pages) < _FEWEST:
        return Furniture()
    lines: Counter[str] = Counter()
    images: Counter[str] = Counter()
    for html, path in pages:
        page = None
        with suppress(ValueError):  # reported when it is read
            page = read_page(html, path, "", lambda name: (LARGE, LARGE))
        if page is not None:
            lines.update({page.title, *(line for _, text in page.sections for line in text.split("\n"))})
            images.update({image.url for image in page.images})
    least = len(pages) / 2
    return Furniture(
        frozenset(line for line, count in lines.items() if count >= least),
        frozenset(image for image, count in images.items() if count >= max(3, len(pages) / 10)),
    )


class _Walk:
    """Collects sections and images in the order of the page."""

    def __init__(self, path: str, title: str, measure: Measure, furniture: Furniture, wiki: bool) -> None:
        self.images: list[ArticleImage] = []
        self._sections: list[tuple[int, str, list[str]]] = [(1, title, [])]
        self._path, self._measure, self._furniture, self._wiki = path, measure, furniture, wiki
        self._paragraph: list[str] = []
        self._sizes: dict[str, int] = {}

    def articles(self) -> list[tuple[str, str]]:
        """Returns (title, text) of each section; subsections of a section to be dropped ("References") get no text."""
        found, inside = [], 0
        for level, title, lines in self._sections:
            if inside and level > inside:
                found.append((title, ""))
                continue
            inside = level if level > 1 and _LISTS(title) else 0
            found.append((title, "\n".join(lines)))
        return found

    def first_large(self) -> str | None:
        """Returns the first large image, or else the first image."""
        names = photos_first(one.url for one in self.images)
        return next((name for name in names if self._sizes[name] >= LARGE), names[0] if names else None)

    def through(self, parent: Any) -> None:
        """Reads the children of a node."""
        for node in parent.iter(include_text=True):
            tag = node.tag
            if tag in INLINE and (tag == "-text" or node.css_first("p, div, h2, h3, ul, table") is None):
                self._paragraph.append(node.text())
                self.take_images(node)
                continue
            self.end_paragraph()
            if tag in _HEADINGS:
                self._begin(int(tag[1]), _heading(node))
            elif tag in _PARAGRAPHS and node.css_first("p, ul, ol, h2, h3, table") is None:
                self._paragraph.append(node.text())
                self.take_images(node)
                self.end_paragraph()
            elif tag == "img" or (tag == "table" and not _is_layout(node)) or _is_frame(node):
                self.take_images(node)
            else:
                self.through(node)
                self.end_paragraph()

    def end_paragraph(self) -> None:
        """Adds the words since the last paragraph as a line of the section."""
        text = "".join(self._paragraph)
        line = _words(_CITATION.sub("", text) if self._wiki else text)
        self._paragraph = []
        if line and line not in self._furniture.lines:
            self._sections[-1][2].append(line)

    def take_images(self, node: Any) -> None:
        """Adds the images in a node, except icons."""
        if node.tag == "-text":
            return
        nodes = [node] if node.tag == "img" else node.css("img, .lazy-image-placeholder")
        if not nodes:
            return
        caption = node.css_first("figcaption, .thumbcaption, .gallerytext")
        said = _CITATION.sub("", _words(caption.text())) if caption is not None else ""
        for image in nodes:
            attributes = image.attributes
            name = image_path(source_of(attributes), self._path)
            if not name or ICON.search(posixpath.basename(name)) or name in self._furniture.images:
                continue
            if name in self._sizes:
                continue
            sides = list(sides_of(attributes))
            if len(sides) < 2:
                sides += self._measure(name)
            if min(sides) >= (SMALLEST if self._wiki else LARGE):
                self._sizes[name] = int(min(sides))
                words = said or _words(attributes.get("alt") or "")
                self.images.append(ArticleImage(name, len(self._sections) - 1, words))

    def _begin(self, level: int, title: str) -> None:
        first = len(self._sections) == 1 and not self._sections[0][2]
        if level == 1 and (first or title == self._sections[0][1]):
            return  # the article's title
        if title and title not in self._furniture.lines:
            self._sections.append((level, title, []))


def _is_layout(table: Any) -> bool:
    """Returns whether a table is used for layout rather than data."""
    classes = attribute(table, "class")
    return "wikitable" not in classes and table.css_first("p, h2, h3") is not None


def _title(given: str, shared: str, headings: list[str]) -> str:
    """Returns the title of a page, without the name of its site.

    Args:
        given: The title in the file, "" if none.
        shared: The title in the page's `og:title`, "" if none.
        headings: Its first-level headings, then the content of its `<title>`.
    """
    for whole in filter(None, (given, shared, *headings[-1:])):
        own = [one for one in headings if whole.casefold().startswith(one.casefold()) and one != whole]
        if own and _SEPARATOR.match(whole[len(max(own, key=len)) :]):
            return max(own, key=len)
    return given or (headings[0] if headings and (not shared or headings[0] in shared) else shared)


def _heading(node: Any) -> str:
    """Returns the words of a heading, without the symbol of its anchor link; block elements in it are separated."""
    parts = [_words(part.text()) for part in node.css("div, p")]
    text = _words(node.text())
    for part in filter(None, parts):
        text = text.replace(part, f" {part} ")
    return _ANCHOR.sub("", _words(text))


def _words(text: str) -> str:
    return " ".join(write_superscripts(text).split())


def _is_frame(node: Any) -> bool:
    classes = attribute(node, "class").split()
    return node.tag == "figure" or "thumb" in classes or "gallerybox" in classes
