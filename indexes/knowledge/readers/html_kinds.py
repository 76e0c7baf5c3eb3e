"""What the elements of HTML are: those that nobody sees, and on a page also navigation, comments and notices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from indexes.knowledge.document import Block, Picture
from indexes.knowledge.readers.html_source import INLINE, PICTURES, background_of, image_of, picture_of

MARKS = "footnote marks and references"
"""The kind of what refers to notes and sources."""
BESIDE = "text beside the main part"
"""The kind of what is not in the main part of a page; parts of it may be of another kind."""
INVISIBLE = "script, style, noscript, template, svg, iframe, object:not([type^='image/']), audio, video, [hidden]"
"""Elements that no reader of a page sees as text."""
_UNSEEN = {
    "code that pages hide": "script, style",
    "words in drawings": "svg",
    "text that pages hide": INVISIBLE,
    "code of drawings and queries": ".mermaid, code.language-mermaid",
    MARKS: "sup:has(a[href^='#'])",
}
"""Elements that are not read as text anywhere, by what they are."""
_MAY_BE_UNSEEN = re.compile(
    r"<(?:sc|st|no|te|sv|if|ob|au|vi|sup)|hidden|mermaid|figure|thumb|gallery|amp-|lazy|url\(", re.IGNORECASE
)
"""What the source of a piece of HTML has if any of these elements or of those that have marks are in it."""
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
_NAMED = "header, " + ", ".join(
    f"{tag}[class], {tag}[id]" for tag in ("div", "section", "aside", "ul", "ol", "p", "span", "table", "td")
)
_REMARKS = {
    "comments": re.compile(r"(?:\w+-)?comments?(?:-(?:list|area|section|wrap\w*))?|respond|disqus\w*|.*disqus.*"),
    "advertisements": re.compile(
        r"cookie(?:s|-?\w*(?:banner|notice|bar|consent|law|popup)\w*)?|(?:\w+-)?newsletter(?:-\w+)*|subscribe(?:-\w+)*"
        r"|popup|modal|advert\w*|ads?|adsbygoogle|ad-(?:slot|unit|container|wrapper)|sponsor(?:ed|ship)?|outbrain\w*|taboola\w*|recirc"
    ),
}
"""Classes and ids of elements that are not of the page's author, by what they are."""
_LINKS = re.compile(
    r"(?:[\w-]*[_-])?(?:side-?bar|related|recommended|promo(?:ted)?|share|sharing|social|menu|navi?|navigation|login|signup"
    r"|footer|masthead|breadcrumbs?|pagination|pager|skip|toolbar)(?:[_-][\w-]*)?"
)
"""Classes and ids of elements that are navigation if they hold links or a few words, but neither sentence nor fact."""
_SAYS = re.compile(r"[.!?…:]\s|[.!?…:]$|[\u3002\uff01\uff1f\u061f\u06d4\u0964]|\d")  # signs of a sentence or a fact
_FEW = 100  # most characters of a few words
_LICENSE = 1000  # most characters in a license note
_LINKED = 0.6  # if more than this share of an element's characters is in links, it may be navigation
_CITATION = re.compile(r"\[(?:\d{1,3}|[a-z]|(?:note|nb|n|fn) ?\d+|citation needed|clarification needed)\]")
_INFOBOX = 'table[class*="infobox"], div[class*="infobox"], aside.portable-infobox, table.sinottico, table.biota'
"""Infoboxes of Wikipedia in several languages, and of Fandom's wikis."""
_FRAMES = "figure, .thumb, .gallerybox"
_CAPTIONS = "figcaption, .thumbcaption, .gallerytext"
_NEAR = 4  # most elements between a caption and its figure


@dataclass(frozen=True, slots=True)
class Marks:
    """What is known of elements before they are read, by their `mem_id`.

    Attributes:
        kinds: The kinds of the blocks in them; "" for the main part inside others.
        captions: The elements with the captions of figures.
        pictures: Pictures other than `<img>`.
        citations: A pattern of words that are footnote marks.
    """

    kinds: Mapping[int, str] = field(default_factory=dict)
    captions: Mapping[int, Any] = field(default_factory=dict)
    pictures: Mapping[int, Picture] = field(default_factory=dict)
    citations: re.Pattern[str] | None = None

    def kind_of(self, node: Any, outer: str) -> str:
        """Returns the kind of an element inside one of kind `outer`."""
        return self.kinds.get(node.mem_id, outer) if outer in ("", BESIDE) else outer


def is_wiki(tree: Any) -> bool:
    """Returns whether a page is one of MediaWiki."""
    return tree.css_first(_WIKI) is not None


def is_plain(html: str) -> bool:
    """Returns whether there is nothing to take or to mark in a piece of HTML, which is faster than looking for each."""
    return _MAY_BE_UNSEEN.search(html) is None


def take_unseen(tree: Any, is_page: bool) -> list[Block]:
    """Removes what no reader of HTML sees as text, and returns it."""
    for node in tree.css("noscript"):
        if node.css_first("img") is not None and not node.text().strip():  # for browsers without scripts
            node.unwrap()
    blocks = list[Block]()
    for selectors in (_UNSEEN, _UNSEEN_ON_PAGES) if is_page else (_UNSEEN,):
        for kind, selector in selectors.items():
            part = list[Block]()
            for node in _innermost_first(tree.css(selector)):
                part.append(Block(_text(node), _pictures(node), kind))
                node.decompose()
            blocks += [block for block in reversed(part) if block.text or block.pictures]
    return blocks


def remove(nodes: Iterable[Any]) -> None:
    """Removes nodes and what is in them."""
    for node in _innermost_first(nodes):
        node.decompose()


def _innermost_first(nodes: Iterable[Any]) -> Iterable[Any]:
    """Returns nodes, each once, in an order to remove them: one must not be touched after its parent is removed."""
    return {node.mem_id: node for node in reversed(list(nodes))}.values()


def _text(node: Any) -> str:
    fragments = node.template_fragments() if node.tag == "template" else ()  # they are not part of the tree
    return "\n".join(filter(None, (str(part.text()).strip() for part in (node, *fragments))))


def _pictures(node: Any) -> tuple[Picture, ...]:
    return tuple(image_of(image) for image in ([node] if node.tag == "img" else node.css(PICTURES)))


def marks_of(tree: Any, is_page: bool) -> Marks:
    """Returns what the elements of a tree are, from which what is not seen has been taken.

    Raises:
        RecursionError: They are nested too deeply.
    """
    body = tree.body
    frames, captions = {node.mem_id for node in body.css(_FRAMES)}, dict[int, Any]()
    for caption in body.css(_CAPTIONS) if frames else ():
        node = caption.parent
        for _ in range(_NEAR):
            if node is not None and node.mem_id in frames:
                captions.setdefault(node.mem_id, caption)
                break
            node = node and node.parent
    pictures = {node.mem_id: picture_of(node.attributes) for node in body.css(PICTURES) if node.tag != "img"}
    for node in body.css("[style*='url(']"):
        if (url := background_of(node)) and node.css_first("img") is None:
            pictures[node.mem_id] = Picture(url)
    if not is_page:
        return Marks({}, captions, pictures)
    return Marks(_kinds_of(tree), captions, pictures, _CITATION if is_wiki(tree) else None)


def infoboxes_in(tree: Any, marks: Marks) -> list[Any]:
    """Returns the infoboxes in the main part of a page that are not inside others."""
    boxes = list[Any]()
    for box in tree.body.css(_INFOBOX):
        around = [box]
        while around[-1].tag != "body" and around[-1].parent is not None:
            around.append(around[-1].parent)
        kind = ""
        for node in reversed(around):
            kind = marks.kind_of(node, kind)
        if not kind and not any("infobox" in (node.attributes.get("class") or "") for node in around[1:-1]):
            boxes.append(box)
    return boxes


def _main_part(tree: Any) -> Any:
    """Returns the element with the content of a page."""
    for selector in _CONTENT:
        if (node := tree.css_first(selector)) is not None and node.text().strip():
            return node
    articles = tree.css("article")
    return articles[0] if len(articles) == 1 else tree.body


def _kinds_of(tree: Any) -> dict[int, str]:
    body, wiki, kinds = tree.body, is_wiki(tree), dict[int, str]()

    def mark(nodes: Iterable[Any], kind: str) -> None:
        for node in nodes:
            kinds.setdefault(node.mem_id, kind)

    def is_linked(node: Any) -> bool:
        characters, linked = sizes[node.mem_id]
        return linked > _LINKED * characters

    mark(_license_notes(body), "notices")
    for kind, selector in _FURNITURE.items():
        mark(body.css(selector), kind)
    mark(body.css("table.sidebar, .sidebar") if wiki else (), "navigation")
    forms, footers = body.css("form"), [node for node in body.css("footer") if _is_in_article(node)]
    sizes = _sizes(body, kinds) if forms or footers else {}
    mark((node for node in body.css("footer") if not _is_in_article(node)), "navigation")
    mark(filter(is_linked, footers), "navigation")
    mark((form for form in forms if 2 * sizes[form.mem_id][0] < sizes[body.mem_id][0]), "forms and buttons")
    main = _main_part(tree)
    if main.mem_id != body.mem_id:
        mark([main, *(body.css("h1") if main.css_first("h1") is None else ())], "")
        mark([body], BESIDE)
    named = [] if wiki else [(node, names) for node in main.css(_NAMED) if (names := _named(node))]
    sizes = _sizes(main, kinds) if named else {}
    for node, names in named:
        characters, _ = sizes[node.mem_id]
        if 2 * characters > sizes[main.mem_id][0]:
            continue
        if "navigation" in names:
            says = characters >= _FEW or node.css_first("img") or _SAYS.search("".join(_words(node, kinds)).strip())
            mark([node] if is_linked(node) or not says else (), "navigation")
        for kind in sorted(names - {"navigation"}):
            mark([node], kind)
    return kinds


def _named(node: Any) -> frozenset[str]:
    """Returns the kinds that the names of an element suggest; a header without a title is navigation, too."""
    attributes = node.attributes
    kinds = _suggested(f"{attributes.get('class') or ''} {attributes.get('id') or ''}")
    return kinds | {"navigation"} if node.tag == "header" and node.css_first("h1") is None else kinds


@lru_cache(maxsize=4096)
def _suggested(names: str) -> frozenset[str]:
    patterns = {"navigation": _LINKS, **_REMARKS}
    return frozenset(kind for kind, pattern in patterns.items() if any(map(pattern.fullmatch, names.lower().split())))


def _sizes(root: Any, kinds: Mapping[int, str]) -> dict[int, tuple[int, int]]:
    """Returns the number of characters in each element that are of no kind, and how many of them are in links."""
    sizes: dict[int, tuple[int, int]] = {}

    def measure(parent: Any, linked: bool) -> tuple[int, int]:
        characters = links = 0
        for node in parent.iter(include_text=True):
            if node.tag == "-text":
                size = len("".join(node.text().split()))
                inside = size if linked else 0
            elif node.tag and node.tag[0] != "-":
                size, inside = measure(node, linked or node.tag in ("a", "button"))
                if kinds.get(node.mem_id):
                    continue
            else:
                continue
            characters += size
            links += inside
        sizes[parent.mem_id] = characters, links
        return characters, links

    measure(root, False)
    return sizes


def _words(parent: Any, kinds: Mapping[int, str]) -> Iterator[str]:
    """Yields the texts in an element that are of no kind."""
    for node in parent.iter(include_text=True):
        if node.tag == "-text":
            yield node.text()
        elif not kinds.get(node.mem_id):
            yield from _words(node, kinds)


def _is_in_article(node: Any) -> bool:
    """Returns whether an element is part of an article's body."""
    while (node := node.parent) is not None and node.tag != "body":
        if node.tag in ("article", "main", "blockquote", "figure"):
            return True
    return False


def _license_notes(body: Any) -> list[Any]:
    """Returns Kiwix's notes below an article that name the source and its license: blocks with links to both."""
    notes = list[Any]()
    for link in body.css("a[href*='creativecommons.org/licenses']"):
        block = link.parent
        while block is not None and block.tag in INLINE:
            block = block.parent
        if block is not None and block.css_first("a[href*='oldid=']") is not None and len(block.text()) < _LICENSE:
            notes.append(block)
    return notes
