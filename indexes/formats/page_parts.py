"""The parts of an HTML page: its content, what does not belong to it, and the page's metadata."""

from __future__ import annotations

import re
from typing import Any

from indexes.ids import canonical_url

NO_CONTENT = (
    "script, style, noscript, template, svg, textarea, nav, footer, form, math, iframe, button, select, audio, video, "
    "sup.reference, .reference, .reflist, ol.references, sup[id^=cite_ref], a[href*='#cite_note'], .mw-ref, "
    "sup a[href^='#'], "
    ".mw-editsection, .noprint, .navbox, "
    ".vertical-navbox, .sidebar, .navbar, .NavFrame, .succession-box, .metadata, .ambox, .hatnote, "
    ".dablink, .shortdescription, .toc, #toc, .mw-jump-link, .external-autonumber, .mwe-math-element, .sistersitebox, "
    ".side-box, .catlinks, .printfooter, .mw-authority-control, .Inline-Template, #coordinates, .coordinates, "
    ".geo-default, .geo-nondefault, .geo, [hidden], [style*='display:none'], [style*='display: none'], "
    "[role=navigation], [role=contentinfo], [role=search], .breadcrumb, .breadcrumbs, img[class*=mwe-math]"
)
"""Elements that are not content on any page."""
INLINE = frozenset(
    {"-text", "a", "abbr", "b", "bdi", "big", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "mark", "q", "s"}
    | {"samp", "small", "span", "strong", "sub", "sup", "time", "u", "var"}
)
"""Elements that are part of a line of text."""

_CONTENT = ("#mw-content-text", "main", "[role=main]", ".mw-parser-output")
"""Selectors for the content of a page, most reliable first; a single `article` comes last."""
_NOTE = 1000
"""Most characters in a license note."""
_LINKED = 0.6
"""If more than this share of a list's characters is in links, it is navigation."""


_UNLIKELY = re.compile(
    r"(?:^|[\s_-])(?:comments?|respond|disqus|sidebar|side-?bar|related|recommended|recirc|promo(?:ted)?|sponsor(?:ed)?|share|sharing"
    r"|social|newsletter|subscribe|cookies?|popup|modal|banner|advert\w*|ads?|menu|navi?|navigation|login|signup|footer|masthead"
    r"|breadcrumbs?|pagination|pager|outbrain|taboola|widget|skip|hidden|toolbar)(?:$|[\s_-])",
    re.IGNORECASE,
)
_LIKELY = re.compile(r"article|body|content|entry|main|post|text|story", re.IGNORECASE)


def decode(html: bytes) -> str:
    """Decodes a page as UTF-8, or else with the character set that it declares, as browsers do."""
    try:
        return html.decode("utf-8-sig")
    except UnicodeDecodeError:
        declared = re.search(rb"charset\s*=\s*[\"']?\s*([\w.:-]+)", html[:2048], re.IGNORECASE)
        name = declared[1].decode("ascii", "replace").lower() if declared else "windows-1252"
        if name in ("iso-8859-1", "latin1", "us-ascii", "ascii"):  # as the HTML standard requires
            name = "windows-1252"
        try:
            return html.decode(name, errors="replace")
        except (LookupError, UnicodeError):  # no such character set, or a codec of another kind
            return html.decode("windows-1252", errors="replace")


def content(tree: Any) -> Any:
    """Returns the node with the content of a page."""
    for selector in _CONTENT:
        if (node := tree.css_first(selector)) is not None and node.text().strip():
            return node
    articles = tree.css("article")
    return articles[0] if len(articles) == 1 else tree.body


def remove(nodes: list[Any]) -> None:
    """Removes nodes, given in page order, innermost first: a node must not be touched after its parent is removed."""
    for node in {node.mem_id: node for node in reversed(nodes)}.values():
        node.decompose()


def is_inside(node: Any, name: str) -> bool:
    """Returns whether the class of an ancestor of this node contains `name`."""
    while (node := node.parent) is not None and node.tag != "body":
        if name in attribute(node, "class"):
            return True
    return False


def drop_license(tree: Any) -> None:
    """Removes Kiwix's note below an article that names the source and its license: a block with links to both."""
    for link in tree.css("a[href*='creativecommons.org/licenses']"):
        block = link.parent
        while block is not None and block.tag in INLINE:
            block = block.parent
        if block is not None and block.css_first("a[href*='oldid=']") is not None and len(block.text()) < _NOTE:
            block.decompose()
            return  # the removed block may contain other links of the loop


def drop_links(root: Any) -> None:
    """Removes lists that consist mostly of links, which are navigation except in encyclopedias."""
    found = []
    for node in root.css("ul, ol, header"):
        if node.tag == "header" and node.css_first("h1") is not None:
            continue
        text = len("".join(node.text().split()))
        linked = sum(len("".join(link.text().split())) for link in node.css("a"))
        if linked > _LINKED * text:
            found.append(node)
    remove(found)


def drop_unlikely(root: Any) -> None:
    """Removes elements whose class or id marks them as comments, sidebars etc., unless they are most of the page."""
    total = len(root.text())
    found = []
    for node in root.css("div, section, aside, ul, ol, header, p, span, table, td"):
        name = f"{attribute(node, 'class')} {attribute(node, 'id')}"
        if name.strip() and _UNLIKELY.search(name) and not _LIKELY.search(name) and 2 * len(node.text()) < total:
            found.append(node)
    remove(found)


def canonical(tree: Any) -> str:
    """Returns the URL of the article on a page: its canonical link, or the one in Kiwix's license note."""
    link = tree.css_first('link[rel="canonical"]')
    href = "" if link is None else attribute(link, "href")
    if not href:
        sources = [attribute(one, "href") for one in tree.css("a.external[href*='/wiki/'][href*='oldid=']")]
        href = sources[-1] if sources else ""
    return canonical_url(href) if href else ""


def meta(tree: Any, name: str) -> str:
    """Returns the content of the first `<meta>` tag with a name or property, "" if there is none."""
    found = (one for one in tree.css("meta") if name in (attribute(one, "property"), attribute(one, "name")))
    return next((attribute(one, "content") for one in found), "")


def attribute(node: Any, name: str) -> str:
    """Returns the value of an attribute, "" if there is none."""
    return node.attributes.get(name) or ""
