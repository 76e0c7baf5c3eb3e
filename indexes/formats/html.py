"""An HTML page as an article: sections by its headings, the facts of its infoboxes, and images that are not icons."""

from __future__ import annotations

import codecs
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote

from indexes.formats.fields import Names, optional
from indexes.formats.images import LARGE, SMALLEST
from indexes.formats.infobox import INFOBOX, facts
from indexes.ids import canonical_url
from indexes.sections import DROPPED, title_rule
from retriever.types import ArticleImage

FACTS = "Facts"
"""Title of the section of an infobox's rows; it comes last, so that the others keep their numbers."""

_NO_CONTENT = (
    "script, style, noscript, template, nav, footer, form, math, iframe, button, select, audio, video, sup.reference, "
    ".reference, .reflist, ol.references, sup[id^=cite_ref], a[href*='#cite_note'], .mw-ref, .mw-editsection, "
    ".noprint, .navbox, .vertical-navbox, .sidebar, .navbar, .NavFrame, .succession-box, .metadata, .ambox, .hatnote, "
    ".dablink, .shortdescription, .toc, #toc, .mw-jump-link, .external-autonumber, .mwe-math-element, .sistersitebox, "
    ".side-box, .catlinks, .printfooter, .mw-authority-control, .Inline-Template, #coordinates, .coordinates, "
    ".geo-default, .geo-nondefault, .geo, [hidden], [style*='display:none'], [style*='display: none'], "
    "[role=navigation], [role=contentinfo], [role=search], .breadcrumb, .breadcrumbs"
)
_WIKI = "#mw-content-text, body.mediawiki, .mw-parser-output, meta[name=generator][content^=MediaWiki]"
_CONTENT = ("#mw-content-text", "main", "[role=main]", ".mw-parser-output")
"""Where the content of a page is, the surest first; a sole `article` comes last."""
_INLINE = frozenset(
    {"-text", "a", "abbr", "b", "bdi", "big", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "mark", "q", "s"}
    | {"samp", "small", "span", "strong", "sub", "sup", "time", "u", "var"}
)
_PARAGRAPHS = frozenset({"p", "li", "dt", "dd", "blockquote", "pre"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_CITATION = re.compile(r"\[(?:\d{1,3}|[a-z]|(?:note|nb|n|fn) ?\d+|citation needed|clarification needed)\]")
_ICON = re.compile(
    r"(?:^|[^a-z])(?:icon|badge|button|sprite|spacer|favicon|emoji|avatar|appstore|app-store|google-?play)s?(?:[^a-z]|$)",
    re.IGNORECASE,
)
_LISTS = title_rule(DROPPED)


class Furniture(NamedTuple):
    """What many pages of a file share: lines of navigation and footers, and images such as badges."""

    lines: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()


class Page(NamedTuple):
    """The content of a page: (title, text) of each section, images by their paths, and which is the main one."""

    title: str
    canonical: str
    sections: list[tuple[str, str]]
    images: tuple[ArticleImage, ...]
    main: str | None


Measure = Callable[[str], tuple[int, int]]
"""Returns width and height of an image that the file contains, (0, 0) if it does not."""


def read_page(
    html: bytes, path: str, title: str, measure: Measure, furniture: Furniture | None = None, names: Names | None = None
) -> Page | None:
    """Returns the article in a page, or `None` if the page has no text or only redirects to another one.

    Tables of data, references and navigation are left out, and so are icons: images that the page shows with less than
    `SMALLEST` pixels on a side.

    Args:
        html: The page.
        path: The path of the page in its file, which the paths of its images are relative to.
        title: Its title, "" if unknown.
        measure: Tells how large an image is whose size the page does not say.
        furniture: What to leave out because many pages have it.
        names: Names of `<meta>` tags to take title, image or URL from.

    Raises:
        ValueError: selectolax is not installed.
    """
    source = decode(html)
    if not source.lstrip().startswith("<"):  # scripts are often served as text/html
        return None
    tree = optional("selectolax.lexbor", "zim").LexborHTMLParser(source)
    if tree.body is None or any(_attribute(one, "http-equiv").lower() == "refresh" for one in tree.css("meta")):
        return None
    furniture = furniture or Furniture()
    given = {field: _meta(tree, name) for field, name in (names or {}).items()}
    url = given.get("url") or _canonical(tree)
    shared = _meta(tree, "og:image")
    wiki = tree.css_first(_WIKI) is not None
    _remove(tree.css(_NO_CONTENT))
    _drop_license(tree)
    root = _content(tree)
    titles = (_words(node.text()) for node in (*root.css("h1"), *tree.css("h1"), *tree.css("title")))
    own_titles = (name for name in titles if name and name not in furniture.lines)  # not the name of the whole site
    title = given.get("title") or title or next(own_titles, path)
    if not wiki:
        _drop_links(root)
    walk = _Walk(path, title, measure, furniture, wiki)
    boxes = [box for box in root.css(INFOBOX) if not _is_inside(box, "infobox")]
    for box in boxes:
        walk.take_images(box)
    own = next((image.url for image in walk.images), None)
    rows = [line for box in boxes for line in facts(box)]
    _remove(boxes)
    for node in root.css("br"):
        node.replace_with("\n")
    walk.through(root)
    walk.end_paragraph()
    sections = walk.articles()
    if rows:
        sections.append((FACTS, "\n".join(rows)))
    if not any(text for _, text in sections):
        return None
    named = (_image_path(src, path) for src in (given.get("image"), shared) if src)
    large = (name for name in named if name not in furniture.images and min(measure(name)) >= SMALLEST)
    main = own if "image" not in given else None
    return Page(title, url, sections, tuple(walk.images), main or next(large, None) or walk.first_large())


def decode(html: bytes) -> str:
    """Returns the text of a page in UTF-8, or else in the character set that it declares, as browsers read it."""
    try:
        return html.decode("utf-8-sig")
    except UnicodeDecodeError:
        declared = re.search(rb"charset\s*=\s*[\"']?\s*([\w.:-]+)", html[:2048], re.IGNORECASE)
        name = declared[1].decode("ascii", "replace").lower() if declared else "windows-1252"
        if name in ("iso-8859-1", "latin1", "us-ascii", "ascii"):  # HTML's standard says so
            name = "windows-1252"
        try:
            codecs.lookup(name)
        except LookupError:
            name = "windows-1252"
        return html.decode(name, errors="replace")


def furniture_of(pages: list[tuple[bytes, str]]) -> Furniture:
    """Returns what at least half of some pages share, given as (content, path); nothing if they are fewer than six."""
    if len(pages) < _FEWEST:
        return Furniture()
    lines: Counter[str] = Counter()
    images: Counter[str] = Counter()
    for html, path in pages:
        page = read_page(html, path, "", lambda name: (LARGE, LARGE))
        if page is not None:
            lines.update({page.title, *(line for _, text in page.sections for line in text.split("\n"))})
            images.update({image.url for image in page.images})
    least = len(pages) / 2
    return Furniture(
        frozenset(line for line, count in lines.items() if count >= least),
        frozenset(image for image, count in images.items() if count >= least),
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
        """Returns (title, text) of each section; those below a list such as "References" are empty as it will be."""
        found, inside = [], 0
        for level, title, lines in self._sections:
            if inside and level > inside:
                found.append((title, ""))
                continue
            inside = level if level > 1 and _LISTS(title) else 0
            found.append((title, "\n".join(lines)))
        return found

    def first_large(self) -> str | None:
        """Returns the first image that is large, or else the first."""
        names = [one.url for one in self.images]
        return next((name for name in names if self._sizes[name] >= LARGE), names[0] if names else None)

    def through(self, parent: Any) -> None:
        """Reads the children of a node."""
        for node in parent.iter(include_text=True):
            tag = node.tag
            if tag in _INLINE and (tag == "-text" or node.css_first("p, div, h2, h3, ul, table") is None):
                self._paragraph.append(node.text())
                self.take_images(node)
                continue
            self.end_paragraph()
            if tag in _HEADINGS:
                self._begin(int(tag[1]), _words(node.text()))
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
        """Adds the images in a node that are no icons."""
        if node.tag == "-text":
            return
        nodes = [node] if node.tag == "img" else node.css("img, .lazy-image-placeholder")
        if not nodes:
            return
        caption = node.css_first("figcaption, .thumbcaption, .gallerytext")
        said = _CITATION.sub("", _words(caption.text())) if caption is not None else ""
        for image in nodes:
            attributes = image.attributes
            name = _image_path(_source(attributes), self._path)
            if not name or _ICON.search(posixpath.basename(name)) or name in self._furniture.images:
                continue
            if name in self._sizes:
                continue
            sides = list(_sides(attributes))
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


_FEWEST = 6
"""Pages that tell what is common to all."""


def _remove(nodes: list[Any]) -> None:
    """Removes nodes given in the page's order, the inner ones first: a node must not be touched after its parent."""
    for node in {node.mem_id: node for node in reversed(nodes)}.values():
        node.decompose()


def _is_inside(node: Any, name: str) -> bool:
    """Returns whether a class of a node above this one contains a name."""
    while (node := node.parent) is not None and node.tag != "body":
        if name in _attribute(node, "class"):
            return True
    return False


def _content(tree: Any) -> Any:
    """Returns the node that holds the content of a page."""
    for selector in _CONTENT:
        if (node := tree.css_first(selector)) is not None and node.text().strip():
            return node
    articles = tree.css("article")
    return articles[0] if len(articles) == 1 else tree.body


def _drop_license(tree: Any) -> None:
    """Removes the note below articles of Kiwix that names the source and its license: a block with links to both."""
    for link in tree.css("a[href*='creativecommons.org/licenses']"):
        block = link.parent
        while block is not None and block.tag in _INLINE:
            block = block.parent
        if block is not None and block.css_first("a[href*='oldid=']") is not None and len(block.text()) < _NOTE:
            block.decompose()
            return  # other links may have been in it


_NOTE = 1000
"""Characters that a note on the license has at most."""


def _drop_links(root: Any) -> None:
    """Removes lists that hold little but links, which outside of encyclopedias are navigation."""
    found = []
    for node in root.css("ul, ol, header"):
        if node.tag == "header" and node.css_first("h1") is not None:
            continue
        text = len("".join(node.text().split()))
        linked = sum(len("".join(link.text().split())) for link in node.css("a"))
        if linked > _LINKED * text:
            found.append(node)
    _remove(found)


_LINKED = 0.6


def _canonical(tree: Any) -> str:
    """Returns the URL of the article that a page shows: its canonical link, or that in Kiwix's note on the license."""
    link = tree.css_first('link[rel="canonical"]')
    href = "" if link is None else _attribute(link, "href")
    if not href:
        sources = [_attribute(one, "href") for one in tree.css("a.external[href*='/wiki/'][href*='oldid=']")]
        href = sources[-1] if sources else ""
    return canonical_url(href) if href else ""


def _meta(tree: Any, name: str) -> str:
    found = (one for one in tree.css("meta") if name in (_attribute(one, "property"), _attribute(one, "name")))
    return next((_attribute(one, "content") for one in found), "")


def _attribute(node: Any, name: str) -> str:
    return node.attributes.get(name) or ""


def _is_layout(table: Any) -> bool:
    """Returns whether a table places parts of the page rather than holding data."""
    classes = _attribute(table, "class")
    return "wikitable" not in classes and table.css_first("p, h2, h3") is not None


def _is_frame(node: Any) -> bool:
    classes = _attribute(node, "class").split()
    return node.tag == "figure" or "thumb" in classes or "gallerybox" in classes


def _source(attributes: dict[str, str | None]) -> str:
    source = attributes.get("src") or ""
    return (attributes.get("data-src") or "") if not source or source.startswith("data:") else source


def _image_path(source: str, page: str) -> str:
    """Returns the path of an image in the page's file, "" for SVG drawings and images outside of the file."""
    if not source or source.lower().endswith(".svg"):
        return ""
    if re.match(r"[a-z][a-z0-9+.-]*:|//", source, re.IGNORECASE):
        return ""
    relative = unquote(re.split(r"[?#]", source)[0])
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(page), relative)).lstrip("/")


def _sides(attributes: dict[str, str | None]) -> Iterator[float]:
    for name in ("width", "height"):
        if number := re.match(r"\d+(?![\d%])", attributes.get(name) or attributes.get(f"data-{name}") or ""):
            yield float(number[0])


def _words(text: str) -> str:
    return " ".join(text.split())
