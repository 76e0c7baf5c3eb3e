"""An HTML page as an article: sections by their second-level headings, and images that are not icons."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from indexes.formats.fields import optional
from retriever.types import ArticleImage

SMALLEST = 64
"""Pixels per side below which an image counts as an icon."""

_NO_CONTENT = (
    "script, style, noscript, template, nav, footer, form, math, sup.reference, .reference, .reflist, ol.references, "
    ".mw-editsection, .noprint, .navbox, .metadata, .ambox, .hatnote, .shortdescription, .toc, #toc, .mw-jump-link, "
    ".external-autonumber, .mwe-math-element, .sistersitebox, .catlinks, .printfooter"
)
_INLINE = frozenset(
    {"-text", "a", "abbr", "b", "bdi", "big", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "mark", "q", "s"}
    | {"samp", "small", "span", "strong", "sub", "sup", "time", "u", "var"}
)
_PARAGRAPHS = frozenset({"p", "li", "dt", "dd", "blockquote", "pre", "h3", "h4", "h5", "h6"})
_FRAMES = frozenset({"figure", "table"})


class Page(NamedTuple):
    """The content of a page: (title, text) of each section, and images by their paths."""

    title: str
    canonical: str
    sections: list[tuple[str, str]]
    images: tuple[ArticleImage, ...]


def read_page(html: bytes, path: str, title: str, where: str) -> Page | None:
    """Returns the article in a page, or `None` if the page only redirects to another one.

    Tables, references and navigation are left out, and so are icons: images that the page shows with less than
    `SMALLEST` pixels on a side.

    Args:
        html: The page, in UTF-8.
        path: The path of the page in its file, which the paths of its images are relative to.
        title: Its title, "" if unknown.
        where: The place to name in error messages.

    Raises:
        ValueError: selectolax is not installed, or the page is not UTF-8.
    """
    try:
        source = html.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: byte {error.start}: not UTF-8 ({error.reason})") from error
    tree = optional("selectolax.lexbor", "zim").LexborHTMLParser(source)
    if any(one.attributes.get("http-equiv", "").lower() == "refresh" for one in tree.css("meta[http-equiv]")):
        return None
    link, heading, head = tree.css_first('link[rel="canonical"]'), tree.css_first("h1"), tree.css_first("title")
    names = (title, *(_words(node.text()) for node in (heading, head) if node is not None), path)
    for node in tree.css(_NO_CONTENT):
        node.decompose()
    for node in tree.css("br"):
        node.replace_with("\n")
    walk = _Walk(path, next(filter(None, names)))
    if tree.body is not None:
        walk.through(tree.body)
    walk.end_paragraph()
    sections = [(name, "\n".join(lines)) for name, lines in walk.sections]
    canonical = (link.attributes.get("href") or "") if link is not None else ""
    return Page(walk.sections[0][0], canonical, sections, tuple(walk.images))


class _Walk:
    """Collects sections and images in the order of the page."""

    def __init__(self, path: str, title: str) -> None:
        self.sections: list[tuple[str, list[str]]] = [(title, [])]
        self.images: list[ArticleImage] = []
        self._path = path
        self._paragraph: list[str] = []

    def through(self, parent: Any) -> None:
        for node in parent.iter(include_text=True):
            tag = node.tag
            if tag in _INLINE:
                self._paragraph.append(node.text())
                self._take_images(node)
                continue
            self.end_paragraph()
            if tag == "h2":
                self.sections.append((_words(node.text()), []))
            elif tag in _PARAGRAPHS:
                self._paragraph.append(node.text())
                self._take_images(node)
                self.end_paragraph()
            elif tag == "img" or tag in _FRAMES or _is_frame(node):
                self._take_images(node)
            elif tag != "h1":
                self.through(node)
                self.end_paragraph()

    def end_paragraph(self) -> None:
        line = _words("".join(self._paragraph))
        self._paragraph = []
        if line:
            self.sections[-1][1].append(line)

    def _take_images(self, node: Any) -> None:
        if node.tag == "-text":
            return
        nodes = [node] if node.tag == "img" else node.css("img")
        if not nodes:
            return
        caption = node.css_first("figcaption, .thumbcaption, .gallerytext")
        said = _words(caption.text()) if caption is not None else ""
        for image in nodes:
            if name := _image_path(image.attributes, self._path):
                self.images.append(
                    ArticleImage(name, len(self.sections) - 1, said or _words(image.attributes.get("alt") or ""))
                )


def _is_frame(node: Any) -> bool:
    classes = (node.attributes.get("class") or "").split()
    return "thumb" in classes or "gallerybox" in classes or "infobox" in classes


def _image_path(attributes: dict[str, str | None], page: str) -> str:
    """Returns the path of an image in the page's file, "" for icons, SVG drawings and images outside of the file."""
    source = attributes.get("src") or attributes.get("data-src") or ""
    if not source or re.match(r"[a-z][a-z0-9+.-]*:|//", source, re.I) or source.lower().endswith(".svg"):
        return ""
    if any(side < SMALLEST for side in _sides(attributes)):
        return ""
    relative = unquote(re.split(r"[?#]", source)[0])
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(page), relative)).lstrip("/")


def _sides(attributes: dict[str, str | None]) -> Iterator[float]:
    for name in ("width", "height"):
        if number := re.match(r"\d+", attributes.get(name) or ""):
            yield float(number[0])


def _words(text: str) -> str:
    return " ".join(text.split())
