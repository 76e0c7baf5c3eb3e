"""What the elements of HTML are: pictures, what nobody sees, and on a page also navigation, comments and notices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from indexes.html_source import INVISIBLE, innermost_first
from indexes.knowledge.document import Block, Picture

Kinds = Mapping[int, str]
"""The kinds of elements by their `mem_id`; "" for the main part inside others."""
MARKS = "footnote marks and references"
"""The kind of what refers to notes and sources."""
BESIDE = "text beside the main part"
"""The kind of what is not in the main part of a page; parts of it may be of another kind."""
INFOBOX = "facts in an infobox"
"""The kind of what is in an infobox."""
_UNSEEN = {
    "code that pages hide": "script, style",
    "words in drawings": "svg",
    "text that pages hide": INVISIBLE,
    "code of drawings and queries": ".mermaid, code.language-mermaid",
    MARKS: "sup:has(a[href^='#'])",
}
"""Elements that are not read as text anywhere, by what they are."""
_UNSEEN_ON_PAGES = {
    "text that pages hide": "[style*='display:none'], [style*='display: none'], .mw-jump-link, .shortdescription, "
    ".onlyprint",
    MARKS: ".reference:not(a), .reflist, ol.references, sup[id^=cite_ref], .mw-ref, a[href*='#cite_note'], "
    ".external-autonumber, .Inline-Template",
    "formulas": "math, .mwe-math-element, img[class*=mwe-math]",
}
_FURNITURE = {
    "navigation": "nav, .navbox, .vertical-navbox, .navbar, .NavFrame, .succession-box, .toc, #toc, .sistersitebox, "
    ".side-box, .catlinks, .printfooter, .mw-authority-control, .mw-editsection, .noprint, .breadcrumb, .breadcrumbs, "
    "[role=navigation], [role=contentinfo]",
    "notices": ".metadata, .ambox, .hatnote, .dablink",
    "coordinates": "span#coordinates, div#coordinates, .coordinates, .geo-default, .geo-nondefault, .geo",
    "forms and buttons": "button, select, textarea, [role=search]",
}
"""Elements that are not of the content of any page, by what they are."""
_WIKI = "#mw-content-text, body.mediawiki, .mw-parser-output, meta[name=generator][content^=MediaWiki]"
_CONTENT = ("#mw-content-text", "main", "[role=main]", ".mw-parser-output")
"""Selectors for the content of a page, most reliable first; a single `article` comes last."""
_INFOBOXES = 'table[class*="infobox"], div[class*="infobox"], table.sinottico, table.biota'  # in several languages
_NAMED = "header, :is(div, section, aside, ul, ol, p, span, table, td):is([class], [id])"
_NAMES = {
    "navigation": re.compile(
        r"(?:[\w-]*[_-])?(?:side-?bar|related|recommended|promo(?:ted)?|share|sharing|social|menu|navi?|navigation"
        r"|login|signup|footer|masthead|breadcrumbs?|pagination|pager|skip|toolbar)(?:[_-][\w-]*)?"
    ),
    "comments": re.compile(r"(?:\w+-)?comments?(?:-(?:list|area|section|wrap\w*))?|respond|.*disqus.*"),
    "advertisements": re.compile(
        r"cookie(?:s|-?\w*(?:banner|notice|bar|consent|law|popup)\w*)?|(?:\w+-)?newsletter(?:-\w+)*|subscribe(?:-\w+)*"
        r"|popup|modal|advert\w*|ads?|ad-(?:slot|unit|container|wrapper)|sponsor(?:ed|ship)?"
    ),
}
"""Classes and ids of elements that are not of a page's author; navigation holds links or a few words, no facts."""
_SAYS = re.compile(r"[.!?…:]\s|[.!?…:]$|[\u3002\uff01\uff1f\u061f\u06d4\u0964]|\d")  # signs of a sentence or a fact
_FEW = 100  # most characters of a few words
_LICENSE = ":is(div, p):has(a[href*='creativecommons.org/licenses']):has(a[href*='oldid='])"
_LONGEST_LICENSE = 1000  # most characters in a license note
_LINKED = 0.6  # if more than this share of an element's characters is in links, it may be navigation

PICTURES = "img, object[type^='image/']"
_BACKGROUND = re.compile(r"background(?:-image)?\s*:[^;]*?url\(\s*([\"']?)(.+?)\1\s*\)")
_SOURCES = ("src", "data-src", "data-original", "data-lazy-src", "data-lazy", "data-full", "data-url", "data")
"""Attributes with the source of a picture, the one that browsers show first."""
_SETS = ("srcset", "data-srcset", "data-lazy-srcset")
_CANDIDATE = re.compile(r"\s*(\S*[^\s,])(?:\s+(\d+(?:\.\d+)?)[wx])?\s*(?:,\s+|,$|$|,(?=\S))")
_PLACEHOLDER = re.compile(
    r"(?i)(?:^|/)(?:blank|spacer|pixel|placeholder|loading|transparent|lazy|gr[ae]y|1x1|empty)[\w-]*\.\w+(?:[?#]|$)"
)
"""An image that a script replaces."""


def kind_of(node: Any, outer: str, kinds: Kinds) -> str:
    """Returns the kind of an element inside one of kind `outer`."""
    return kinds.get(node.mem_id, outer) if outer in ("", BESIDE, INFOBOX) else outer


def is_wiki(tree: Any) -> bool:
    """Returns whether a page is one of MediaWiki."""
    return tree.css_first(_WIKI) is not None


def kinds_of(tree: Any) -> Kinds:
    """Returns the kinds of the elements of a page, from which what is not seen has been taken.

    Raises:
        RecursionError: They are nested too deeply.
    """
    body, wiki, kinds = tree.body, is_wiki(tree), dict[int, str]()

    def mark(nodes: Iterable[Any], kind: str) -> None:
        for node in nodes:
            kinds.setdefault(node.mem_id, kind)

    if wiki:  # Kiwix's note on the source and its license
        mark((note for note in body.css(_LICENSE)[-1:] if len(note.text()) < _LONGEST_LICENSE), "notices")
        mark(body.css("table.sidebar, .sidebar"), "navigation")
    for kind, selector in _FURNITURE.items():
        mark(body.css(selector), kind)
    forms, footers = body.css("form"), body.css("footer")
    sizes = _sizes(body, kinds) if forms or footers else {}
    inner = {node.mem_id for node in body.css(":is(article, main, blockquote, figure) footer")} if footers else set()
    mark((node for node in footers if node.mem_id not in inner or sizes[node.mem_id][1]), "navigation")
    mark((form for form in forms if 2 * sizes[form.mem_id][0] < sizes[body.mem_id][0]), "forms and buttons")
    main = _main_part(tree)
    if main.mem_id != body.mem_id:
        mark([main, *(body.css("h1") if main.css_first("h1") is None else ())], "")
        mark([body], BESIDE)
    mark(main.css(_INFOBOXES), INFOBOX)
    named = [] if wiki else [(node, names) for node in main.css(_NAMED) if (names := _named(node))]
    sizes = _sizes(main, kinds) if named else {}
    for node, names in named:
        characters, is_linked = sizes[node.mem_id]
        if 2 * characters > sizes[main.mem_id][0]:
            continue
        if "navigation" in names:
            says = characters >= _FEW or node.css_first("img") or _SAYS.search(node.text().strip())
            mark([node] if is_linked or not says else (), "navigation")
        for kind in sorted(names - {"navigation"}):
            mark([node], kind)
    return kinds


def _main_part(tree: Any) -> Any:
    """Returns the element with the content of a page."""
    for selector in _CONTENT:
        if (node := tree.css_first(selector)) is not None and node.text().strip():
            return node
    articles = tree.css("article")
    return articles[0] if len(articles) == 1 else tree.body


def _named(node: Any) -> frozenset[str]:
    """Returns the kinds that the names of an element suggest; a header without a title is navigation, too."""
    names = _suggested(f"{node.attributes.get('class') or ''} {node.attributes.get('id') or ''}")
    return names | {"navigation"} if node.tag == "header" and node.css_first("h1") is None else names


@lru_cache(maxsize=4096)
def _suggested(names: str) -> frozenset[str]:
    return frozenset(kind for kind, pattern in _NAMES.items() if any(map(pattern.fullmatch, names.lower().split())))


def _sizes(root: Any, kinds: Kinds) -> dict[int, tuple[int, bool]]:
    """Returns the number of characters in each element that are of no kind, and whether most of them are in links."""
    sizes: dict[int, tuple[int, bool]] = {}

    def measure(parent: Any, linked: bool) -> tuple[int, int]:
        characters = links = 0
        for node in parent.iter(include_text=True):
            size = inside = 0
            if node.tag == "-text":
                size = len("".join(node.text().split()))
                inside = size if linked else 0
            elif node.tag and node.tag[0] != "-":
                size, inside = measure(node, linked or node.tag in ("a", "button"))
            if not kinds.get(node.mem_id):
                characters += size
                links += inside
        sizes[parent.mem_id] = characters, links > _LINKED * characters
        return characters, links

    measure(root, False)
    return sizes


def take_unseen(tree: Any, is_page: bool) -> list[Block]:
    """Removes what no reader of HTML sees as text, and returns it."""
    for node in tree.css("noscript"):
        if node.css_first("img") is not None and not node.text().strip():  # for browsers without scripts
            node.unwrap()
    blocks = list[Block]()
    for kind, selector in (*_UNSEEN.items(), *(_UNSEEN_ON_PAGES.items() if is_page else ())):
        unseen = list[Block]()
        for node in innermost_first(tree.css(selector)):
            roots = (node, *(node.template_fragments() if node.tag == "template" else ()))  # not part of the tree
            text = "\n".join(filter(None, (root.text().strip() for root in roots)))
            unseen.append(Block(text, tuple(picture_of(image) for image in node.css(PICTURES)), kind))
            node.decompose()
        blocks += [block for block in reversed(unseen) if block.text or block.pictures]
    return blocks


def picture_at(node: Any, tag: str, link: str) -> Picture | None:
    """Returns the picture that an element is, or has as its background."""
    attributes = node.attributes
    if tag == "img" or (tag == "object" and (attributes.get("type") or "").startswith("image/")):
        return picture_of(node, link)
    background = _BACKGROUND.search(attributes.get("style") or "")
    return Picture(background[2], link=link) if background and node.css_first("img") is None else None


def picture_of(node: Any, link: str = "") -> Picture:
    """Returns the picture of an element, whose source may be loaded later, be the largest of several, or be beside it.

    `link` is where a click on it leads.
    """
    attributes = node.attributes
    urls = [url.strip() for name in _SOURCES if (url := attributes.get(name))]
    urls += _largest(attributes)
    if not urls and node.parent is not None and node.parent.tag == "picture":
        urls = [url for source in node.parent.css("source") for url in _largest(source.attributes)]
    files = [url for url in urls if not url.startswith("data:")]
    photos = (url for url in files if not _PLACEHOLDER.search(url))
    url = next(photos, next(iter(files), next(iter(urls), "")))
    sides = (attributes.get(name) or attributes.get(f"data-{name}") or "" for name in ("width", "height"))
    numbers = tuple(int(side[0]) for text in sides if (side := re.match(r"\d{1,6}(?![\d%])", text.strip())))
    alt = " ".join((attributes.get("alt") or "").split())
    caption = attributes.get("data-caption") or ""  # as `move_captions` notes it
    return Picture(url if url.startswith("data:") else url.replace("\\", "/"), alt, caption, numbers, link)


def _largest(attributes: Mapping[str, str | None]) -> Iterator[str]:
    """Yields the source of the largest of the images in each `srcset`: `fox.jpg 300w, large.jpg 600w`."""
    for name in _SETS:
        sizes = [(float(size or 1), source) for source, size in _CANDIDATE.findall(attributes.get(name) or "")]
        yield from [max(sizes, key=lambda size: size[0])[1]] if sizes else []
