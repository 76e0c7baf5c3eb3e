"""The parts of an HTML page: its content, its infoboxes, what does not belong to it, and its metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from indexes.knowledge.formats import html_text
from indexes.knowledge.formats.elements import INLINE
from indexes.knowledge.formats.encodings import BEGINNING, encoding_of, likely_encoding
from indexes.knowledge.formats.html_text import DRAWINGS, INVISIBLE, Image
from indexes.knowledge.formats.losses import Losses, words_in
from indexes.knowledge.ids import canonical_url

_UNSEEN = (
    f"{INVISIBLE}, [style*='display:none'], [style*='display: none'], .mw-jump-link, .shortdescription, .onlyprint"
)
_NO_CONTENT = {
    "footnote marks and references": ".reference:not(a), .reflist, ol.references, sup[id^=cite_ref], .mw-ref, "
    "a[href*='#cite_note'], sup a[href^='#'], .external-autonumber, .Inline-Template",
    "code of drawings and queries": DRAWINGS,
    "formulas": "math, .mwe-math-element, img[class*=mwe-math]",
    "navigation": "nav, .navbox, .vertical-navbox, .navbar, .NavFrame, .succession-box, .toc, #toc, .sistersitebox, "
    ".side-box, .catlinks, .printfooter, .mw-authority-control, .mw-editsection, .noprint, .breadcrumb, .breadcrumbs, "
    "[role=navigation], [role=contentinfo]",
    "notices": ".metadata, .ambox, .hatnote, .dablink",
    "coordinates": "#coordinates, .coordinates, .geo-default, .geo-nondefault, .geo",
    "forms and buttons": "button, select, textarea, [role=search]",
}
"""Elements that are not content on any page, by what they are."""
_MARKS = ("footnote marks and references", "formulas")
_OF_WIKIS = "table.sidebar, .sidebar"
_CONTENT = ("#mw-content-text", "main", "[role=main]", ".mw-parser-output")
"""Selectors for the content of a page, most reliable first; a single `article` comes last."""
_NOTE = 1000  # most characters in a license note
_LINKED = 0.6  # if more than this share of an element's characters is in links, it may be navigation
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


_ASCII_ONLY = ("iso-2022-", "hz-gb")  # character sets that write all characters as ASCII
_LABELS = {
    **dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii", "iso8859-1"), "windows-1252"),
    **dict.fromkeys(("iso-8859-9", "latin5"), "windows-1254"),
    **dict.fromkeys(("gb2312", "gbk", "x-gbk", "gb_2312-80"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j", "ms_kanji"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "ksc5601", "korean", "windows-949"), "cp949"),
    **dict.fromkeys(("tis-620", "iso-8859-11", "windows-874", "dos-874"), "cp874"),
    **dict.fromkeys(("big5", "big5-hkscs", "x-x-big5", "cn-big5"), "big5hkscs"),
    **dict.fromkeys(("iso-8859-8-i", "iso-8859-8-e", "visual", "logical"), "iso-8859-8"),
    **dict.fromkeys(("macintosh", "x-mac-roman"), "mac-roman"), "x-mac-cyrillic": "mac-cyrillic", "x-euc-jp": "euc-jp",
}  # fmt: skip
"""Python's codec for a name of a character set, where they differ, by the table of the WHATWG's Encoding Standard."""


def decode(html: bytes, charset: str = "") -> str:
    """Decodes a page as Unicode, or else with the character set that it declares, as browsers do.

    The character set that the server names counts before the page's own.
    """
    declared = re.search(rb"charset\s*=\s*[\"']?\s*([\w.:-]+)", html[:2048], re.IGNORECASE)
    name = (charset or (declared[1].decode("ascii", "replace") if declared else "")).lower()
    if name.startswith(_ASCII_ONLY):  # also valid UTF-8, but as other characters
        return html.decode(name, errors="replace")
    unicode = encoding_of(html[:BEGINNING])
    try:
        return html.decode(unicode, errors="strict" if unicode == "utf-8-sig" else "replace")
    except UnicodeDecodeError:
        name = _LABELS.get(name, name) or _guess(html)
    try:
        return html.decode(name, errors="replace")
    except (LookupError, UnicodeError):  # no such character set, or a codec of another kind
        return html.decode(_guess(html), errors="replace")


def _guess(html: bytes) -> str:
    """Returns the most likely encoding of a page that declares none: UTF-8 if little of it is damaged."""
    whole = len(re.findall(rb"[\xc2-\xf4][\x80-\xbf]+", html))
    damaged = html.decode("utf-8", errors="replace").count("\ufffd")
    return "utf-8" if whole > 4 * damaged else likely_encoding(html[: 1 << 16])


def clean(tree: Any, losses: Losses, is_wiki: bool, keep_navigation: bool) -> None:
    """Removes what is not content on any page. With `keep_navigation`, notices, forms and buttons are kept, too."""
    remove(tree.css(_UNSEEN))
    _drop_license(tree)
    for reason, selector in _NO_CONTENT.items():
        if not keep_navigation or reason in _MARKS:
            remove(tree.css(selector), losses, reason)
    if not keep_navigation:
        remove(tree.css(_OF_WIKIS) if is_wiki else [], losses, "navigation")
        whole = len(tree.body.text())
        remove([form for form in tree.css("form") if 2 * len(form.text()) < whole], losses, "forms and buttons")
        remove([one for one in tree.css("footer") if not _is_in_body(one) or _is_linked(one)], losses, "navigation")


def content(tree: Any) -> Any:
    """Returns the node with the content of a page."""
    for selector in _CONTENT:
        if (node := tree.css_first(selector)) is not None and node.text().strip():
            return node
    articles = tree.css("article")
    return articles[0] if len(articles) == 1 else tree.body


def count_around(node: Any, body: Any, losses: Losses) -> None:
    """Counts the text of a page that is not in the node with its content."""
    while node.mem_id != body.mem_id and (parent := node.parent) is not None:
        for other in parent.iter(include_text=True):
            if other.mem_id != node.mem_id and other.tag != "-comment":
                losses.leave_out("text beside the main part", html_text.words_of(other))
        node = parent


def drop_unlikely(root: Any, losses: Losses) -> None:
    """Removes elements that their classes mark as comments or advertisements, or as navigation if they are links."""
    total = len(root.text())
    found: dict[str, list[Any]] = {"navigation": []}
    for node in root.css("div, section, aside, ul, ol, header, p, span, table, td"):
        names = f"{attribute(node, 'class')} {attribute(node, 'id')}".lower().split()
        if (not names and node.tag != "header") or 2 * len(node.text()) > total:
            continue
        is_header = node.tag == "header" and node.css_first("h1") is None
        if (is_header or any(map(_LINKS.fullmatch, names))) and (_is_linked(node) or _says_nothing(node)):
            found["navigation"].append(node)
        for reason, pattern in _REMARKS.items():
            if any(map(pattern.fullmatch, names)):
                found.setdefault(reason, []).append(node)
    for reason, nodes in found.items():
        remove(nodes, losses, reason)


def remove(nodes: list[Any], losses: Losses | None = None, reason: str = "") -> None:
    """Removes nodes, innermost first: a node must not be touched after its parent is removed; counts their text."""
    for node in html_text.outermost(nodes):
        if losses is not None:
            losses.leave_out(reason, html_text.words_of(node))
        node.decompose()


def _is_linked(node: Any) -> bool:
    """Returns whether most of the text of an element is in links."""
    text = len("".join(node.text().split()))
    return sum(len("".join(link.text().split())) for link in node.css("a, button")) > _LINKED * text


def is_inside(node: Any, name: str) -> bool:
    """Returns whether the class of an ancestor of this node contains `name`."""
    while (node := node.parent) is not None and node.tag != "body":
        if name in attribute(node, "class"):
            return True
    return False


def _says_nothing(node: Any) -> bool:
    text = node.text().strip()
    return len(text) < _FEW and node.css_first("img") is None and _SAYS.search(text) is None


def _is_in_body(node: Any) -> bool:
    """Returns whether an element is part of an article's body."""
    while (node := node.parent) is not None and node.tag != "body":
        if node.tag in ("article", "main", "blockquote", "figure"):
            return True
    return False


def _drop_license(tree: Any) -> None:
    """Removes Kiwix's note below an article that names the source and its license: a block with links to both."""
    for link in tree.css("a[href*='creativecommons.org/licenses']"):
        block = link.parent
        while block is not None and block.tag in INLINE:
            block = block.parent
        if block is not None and block.css_first("a[href*='oldid=']") is not None and len(block.text()) < _NOTE:
            block.decompose()
            return  # the removed block may contain other links of the loop


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


INFOBOX = 'table[class*="infobox"], div[class*="infobox"], aside.portable-infobox, table.sinottico, table.biota'
"""Infoboxes of Wikipedia in several languages, and of Fandom's wikis."""

_BULLETS = "•·*- \u2013\u00a0"
_LONGEST_LABEL = 80
_HEADINGS = "headings in infoboxes"


class Box(NamedTuple):
    """The content of an infobox: lines, and images with the text in their cell as caption."""

    lines: list[str]
    images: list[Image]


def read_infobox(box: Any, title: str, losses: Losses) -> Box:
    """Returns the content of an infobox.

    A single cell before the first pair ("Single by …") is a line of its own, unless it is the title. After that, it is
    the heading of a group, which is put before labels that are marked as its parts ("• Total").
    """
    found, group, fresh, begun = Box([], []), "", "", False  # fresh: a heading that is in no line yet
    for label, value, images in _rows(box, losses):
        found.images.extend(images)
        if label and value:
            if label[0] in _BULLETS and group:
                losses.repeat(0 if fresh else words_in([group]))
                label, fresh = f"{group}, {label.strip(_BULLETS)}", ""
            else:
                losses.leave_out(_HEADINGS, fresh)
                group, fresh = label, ""
            found.lines.append(f"{label.strip(':' + _BULLETS)}: {value}")
            begun = True
        elif value and _plain(value) not in (_plain(title), _plain(title.partition(" (")[0])):
            losses.leave_out(_HEADINGS, fresh)
            group, fresh = value, value if begun else ""
            found.lines.extend([] if begun else [value])
    losses.leave_out(_HEADINGS, fresh)
    return found


def _plain(title: str) -> str:
    return title.strip("\"'\u201c\u201d").casefold()


def _rows(box: Any, losses: Losses) -> Iterator[tuple[str, str, list[Image]]]:
    """Yields the label, the value and the images of each row; a row of one cell has no label."""
    if box.tag != "table":
        for node in box.iter():
            label, value = node.css_first(".pi-data-label"), node.css_first(".pi-data-value")
            if node.tag == "table" or (node.css_first("table, .pi-data") is not None and label is None):
                yield from _rows(node, losses)
            elif label is not None and value is not None and len(node.css(".pi-data-label")) == 1:
                yield html_text.words_of(label), html_text.cell_text(value, losses), html_text.images_of(value)
            elif label is not None:
                yield from _rows(node, losses)
            else:
                yield _alone(node, losses)
        return
    for cells in html_text.table_cells(box):
        inner = cells[0].css_first("table") if len(cells) == 1 else None
        if inner is not None:
            yield from _rows(inner, losses)
        elif len(cells) == 1:
            yield _alone(cells[0], losses)
        else:
            label, *values = (html_text.cell_text(cell, losses) for cell in cells)
            if all(cell.tag == "th" for cell in cells):  # names of columns
                losses.leave_out(_HEADINGS, " ".join((label, *values)))
                continue
            images = [image for cell in cells for image in html_text.images_of(cell)]
            is_pair = bool(label) and len(label) <= _LONGEST_LABEL and any(values)
            value = "; ".join(filter(None, values if is_pair else [label, *values]))
            yield label if is_pair else "", value, images


def _alone(node: Any, losses: Losses) -> tuple[str, str, list[Image]]:
    """Returns the row of a single cell, whose text is the caption of its images if it has any."""
    text, images = html_text.cell_text(node, losses), html_text.images_of(node)
    return "", "" if images else text, [Image(one.attributes, text, one.link) for one in images]
