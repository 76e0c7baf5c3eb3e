"""The names of HTML's elements, and what looks like their tags but is text."""

from __future__ import annotations

import re
from collections import Counter

INLINE = frozenset(
    {"-text", "a", "abbr", "b", "bdi", "big", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "mark", "q", "s"}
    | {"samp", "small", "span", "strong", "sub", "sup", "time", "u", "var", "label", "tt", "dfn", "strike", "img"}
)
"""Elements that are part of a line of text."""
_UNCLOSED = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
    | {"body", "caption", "colgroup", "dd", "dt", "head", "html", "li", "optgroup", "option", "p", "rb", "rp", "rt"}
    | {"rtc", "tbody", "td", "tfoot", "th", "thead", "tr", "center", "details", "div", "font", "nobr", "span"}
)
"""Elements without an end tag, with one that may be left out, and those of which authors forget it."""
_ELEMENTS = _UNCLOSED | INLINE.union(
    {"acronym", "address", "applet", "article", "aside", "audio", "bdo", "blink", "blockquote", "button", "canvas"}
    | {"data", "datalist", "dialog", "dir", "dl", "fieldset", "figcaption", "figure", "footer", "form", "frame"}
    | {"frameset", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "iframe", "legend", "main", "map", "marquee"}
    | {"math", "menu", "meter", "nav", "noembed", "noframes", "noscript", "object", "ol", "output", "picture", "pre"}
    | {"plaintext", "progress", "ruby", "script", "search", "section", "select", "slot", "style", "summary", "svg"}
    | {"table", "template", "textarea", "title", "ul", "video", "xmp"}
)
_COMMENT = r"<!--(?:(?!-->).)*(?:-->)?"
_NO_TAG = re.compile(rf"{_COMMENT}|<([A-Za-z])(?:[^<>\"'=]*+(?=<|\Z)|\s[^<>\"'=/]+>)", re.DOTALL)
"""A comment, or what is no tag: it ends with another one, or has one letter and words: `0<p<1`, `a<b and c>d`."""
_BARE = re.compile(rf"{_COMMENT}|<([A-Za-z][^\s<>/=\"'!?:-]*)(?:\s[^<>\"'=]*)?(?<!/)>", re.DOTALL)
"""A comment, or a start tag without values."""
_NAME = re.compile(rf"{_COMMENT}|<(/?[a-z][^\s<>/=\"'!?]*)", re.DOTALL)  # of a start or an end tag


def with_words(html: str, is_page: bool = False) -> str:
    """Returns HTML in which what only looks like a tag is text: `List<String>`, `0<p<1`, `<your name>`, "the <a> tag".

    An element has a usual name or an end tag. In texts other than whole pages, whose authors forget end tags, start
    tags for which there are no end tags are words, too.
    """
    counts = Counter[str]()

    def shown(found: re.Match[str]) -> str:
        name = (found[1] or "").lower()
        if not name or name in _UNCLOSED or (is_page and name in _ELEMENTS):
            return found[0]
        if not counts:
            counts.update(_NAME.findall(html.lower()))
        is_word = not counts[f"/{name}"]
        if name in _ELEMENTS and counts[name] > counts[f"/{name}"]:
            following = re.compile(rf"<(/?){name}\b", re.IGNORECASE).search(html, found.end())
            is_word = following is None or not following[1]
        return f"&lt;{found[0][1:]}" if is_word else found[0]

    html = _NO_TAG.sub(lambda found: f"&lt;{found[0][1:]}" if found[1] else found[0], html)
    return _BARE.sub(shown, html)
