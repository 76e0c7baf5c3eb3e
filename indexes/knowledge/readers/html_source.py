"""HTML as it is written: its character set, what only looks like a tag, how deep it may be, and where pictures are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from indexes.decoding import encoding_of, likely_encoding
from indexes.knowledge.document import Picture

_BEGINNING = 4096
_SAMPLE = 1 << 16
_FEWEST = 8  # bytes beyond ASCII that an encoding can be told from
_ASCII_ONLY = ("iso-2022-", "hz-gb")  # character sets that write all characters as ASCII
_DECLARED = re.compile(rb"(?:charset|<\?xml[^>]{0,80}?encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
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

INLINE = frozenset({
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del", "dfn", "em", "font",
    "i", "img", "ins", "kbd", "label", "mark", "nobr", "picture", "q", "rb", "rp", "rt", "ruby", "s", "samp",
    "small", "source", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
})  # fmt: skip
"""Elements that are part of a line of text."""
_UNCLOSED = frozenset({
    "area", "base", "body", "br", "caption", "center", "col", "colgroup", "dd", "details", "div", "dt", "embed",
    "font", "head", "hr", "html", "img", "input", "li", "link", "meta", "nobr", "optgroup", "option", "p", "param",
    "rb", "rp", "rt", "rtc", "source", "span", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "wbr",
})  # fmt: skip
"""Elements without an end tag, with one that may be left out, and those of which authors forget it."""
_ELEMENTS = _UNCLOSED | INLINE | {
    "address", "applet", "area", "article", "aside", "audio", "blink", "blockquote", "button", "canvas",
    "datalist", "dialog", "dir", "dl", "fieldset", "figcaption", "figure", "footer", "form", "frame", "frameset",
    "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "iframe", "legend", "main", "map", "marquee", "math",
    "menu", "meter", "nav", "noembed", "noframes", "noscript", "object", "ol", "output", "plaintext", "pre",
    "progress", "script", "search", "section", "select", "slot", "style", "summary", "svg", "table", "template",
    "textarea", "title", "ul", "video", "xmp",
}  # fmt: skip
_UNNESTED = _UNCLOSED - {"center", "details", "div", "font", "nobr", "span"}
_DEEPEST = 4000
"""Most tags inside one another; the time that a parser takes grows with the square of it."""
_FORMATS = frozenset({"b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"})
"""Elements that a parser repeats in every paragraph until they are closed, if their attributes differ."""
_MOST_REPEATED = 5_000_000
_TAG = re.compile(r"<(/?)([a-z][^\s<>/]*)(\s?)", re.IGNORECASE)
_COMMENT = r"<!--(?:(?!-->).)*(?:-->)?"
_NO_TAG = re.compile(rf"{_COMMENT}|<([A-Za-z])(?:[^<>\"'=]*+(?=<|\Z)|\s[^<>\"'=/]+>)", re.DOTALL)
"""A comment, or what is no tag: it ends with another one, or has one letter and words: `0<p<1`, `a<b and c>d`."""
_BARE = re.compile(rf"{_COMMENT}|<([A-Za-z][^\s<>/=\"'!?:-]*)(?:\s[^<>\"'=]*)?(?<!/)>", re.DOTALL)
"""A comment, or a start tag without values."""
_NAME = re.compile(rf"{_COMMENT}|<(/?[a-z][^\s<>/=\"'!?]*)", re.DOTALL)  # of a start or an end tag
_EMPTY = re.compile(
    r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)([\w:.-]+)([^<>]*)/>"
)
"""An element of XHTML without content, which HTML has only for some names."""


def decode_html(content: bytes, charset: str = "") -> str:
    """Decodes a page as Unicode, or else with the character set that it declares, as browsers do.

    The character set that the server names counts before the page's own; without any, the likely one is used.
    """
    declared = _DECLARED.search(content[:_BEGINNING])
    name = (charset or (declared[1].decode("ascii", "replace") if declared else "")).lower()
    if name.startswith(_ASCII_ONLY):  # also valid UTF-8, but as other characters
        return content.decode(name, errors="replace")
    unicode = encoding_of(content[:_BEGINNING])
    try:
        return content.decode(unicode, errors="strict" if unicode == "utf-8-sig" else "replace")
    except UnicodeDecodeError:
        name = _LABELS.get(name, name) or _likely(content)
    try:
        return content.decode(name, errors="replace")
    except (LookupError, UnicodeError):  # no such character set, or a codec of another kind
        return content.decode(_likely(content), errors="replace")


def _likely(content: bytes) -> str:
    """Returns the most likely encoding of a page that declares none: UTF-8 if little of it is damaged."""
    whole = len(re.findall(rb"[\xc2-\xf4][\x80-\xbf]+", content))
    if whole > 4 * content.decode("utf-8", errors="replace").count("\ufffd"):
        return "utf-8"
    sample = content[:_SAMPLE]
    return likely_encoding(sample) or "cp1252" if len(re.findall(rb"[\x80-\xff]", sample)) >= _FEWEST else "cp1252"


def parse(html: str) -> Any:
    """Parses HTML; the parser is imported here, because a machine that reads other formats can do without it.

    Raises:
        ValueError: Its elements are nested too deeply.
    """
    from selectolax.lexbor import LexborHTMLParser

    if html.count("<") - html.count("</") > _DEEPEST:
        depth = formats = repeated = 0
        for slash, name, space in _TAG.findall(html):
            if name.lower() not in _UNNESTED:
                depth = max(depth - 1, 0) if slash else depth + 1
                if name.lower() in _FORMATS and (slash or space):
                    formats = max(formats - 1, 0) if slash else formats + 1
            repeated += formats
            if depth > _DEEPEST or repeated > _MOST_REPEATED:
                raise ValueError("its elements are nested too deeply")
    return LexborHTMLParser(html)


def tree_of(html: str, is_page: bool) -> Any:
    """Parses HTML or XHTML in which what only looks like a tag is text.

    Raises:
        ValueError: As for `parse`.
    """
    if html[:100].lstrip().startswith("<?xml"):
        html = _EMPTY.sub(r"<\1\2></\1>", html)
    return parse(with_words(html, is_page))


def with_words(html: str, is_page: bool = False) -> str:
    """Returns HTML in which what only looks like a tag is text: `List<String>`, `0<p<1`, `<your name>`, "the <a> tag".

    An element has a usual name or an end tag. In texts other than whole pages, whose authors forget end tags, start
    tags for which there are no end tags are words, too.
    """
    counts = Counter[str]()

    def written(tag: re.Match[str]) -> str:
        name = (tag[1] or "").lower()
        if not name or name in _UNCLOSED or (is_page and name in _ELEMENTS):
            return tag[0]
        if not counts:
            counts.update(_NAME.findall(html.lower()))
        is_word = not counts[f"/{name}"]
        if name in _ELEMENTS and counts[name] > counts[f"/{name}"]:
            following = re.compile(rf"<(/?){name}\b", re.IGNORECASE).search(html, tag.end())
            is_word = following is None or not following[1]
        return f"&lt;{tag[0][1:]}" if is_word else tag[0]

    html = _NO_TAG.sub(lambda tag: f"&lt;{tag[0][1:]}" if tag[1] else tag[0], html)
    return _BARE.sub(written, html)


PICTURES = "img, amp-img, .lazy-image-placeholder, object[type^='image/']"
_SOURCES = (
    "src",
    "data-src",
    "data-original",
    "data-lazy-src",
    "data-lazy",
    "data-full",
    "data-large",
    "data-url",
    "data",
)
"""Attributes with the source of an `<img>` or `<object>`, the one that browsers show first."""
_SETS = ("srcset", "data-srcset", "data-lazy-srcset")
_PLACEHOLDER = re.compile(
    r"(?:^|/)(?:blank|spacer|pixel|placeholder|loading|transparent|lazy|grey|gray|1x1|empty)[\w-]*\.(?:gif|png|svg|jpe?g|webp)"
    r"(?:[?#].*)?$",
    re.IGNORECASE,
)
"""An image that a script replaces."""
_BACKGROUND = re.compile(r"background(?:-image)?\s*:[^;]*?url\(\s*([\"']?)(.*?)\1\s*\)")
_CANDIDATE = re.compile(r"\s*(\S*[^\s,])(?:\s+([\d.]+)[wx])?\s*(?:,\s+|,$|$|,(?=\S))")


def image_of(node: Any, link: str = "") -> Picture:
    """Returns an `<img>`, which may have its source in the `<picture>` around it; `link` is where a click leads."""
    picture = picture_of(node.attributes, link)
    if not picture.url and node.parent is not None and node.parent.tag == "picture":
        urls = (picture_of(source.attributes).url for source in node.parent.css("source"))
        picture = replace(picture, url=next(filter(None, urls), ""))
    return picture


def picture_of(attributes: Mapping[str, str | None], link: str = "") -> Picture:
    """Returns the picture with these attributes; its source may be loaded later, or be the largest of several."""
    urls = [url.strip() for name in _SOURCES if (url := attributes.get(name))]
    urls += [largest for name in _SETS if (largest := _largest(attributes.get(name) or ""))]
    files = [url for url in urls if not url.startswith("data:")]
    photos = (url for url in files if not _PLACEHOLDER.search(url))
    url = next(photos, next(iter(files), next(iter(urls), "")))
    sides = (attributes.get(name) or attributes.get(f"data-{name}") or "" for name in ("width", "height"))
    numbers = tuple(int(side[0]) for text in sides if (side := re.match(r"\d{1,6}(?![\d%])", text.strip())))
    alt = " ".join((attributes.get("alt") or "").split())
    return Picture(url if url.startswith("data:") else url.replace("\\", "/"), alt, "", numbers, link)


def _largest(sources: str) -> str:
    """Returns the source of the largest of the images in a `srcset`: `fox.jpg 300w, large.jpg 600w`."""
    sizes = [(_number(size), source) for source, size in _CANDIDATE.findall(sources) if source]
    return max(sizes, key=lambda size: size[0])[1] if sizes else ""


def _number(text: str) -> float:
    try:
        return float(text or 1)
    except ValueError:
        return 1.0


def background_of(node: Any) -> str:
    """Returns the source of the image that is the background of an element, "" if it has none."""
    background = _BACKGROUND.search(node.attributes.get("style") or "")
    return background[2].strip() if background else ""
