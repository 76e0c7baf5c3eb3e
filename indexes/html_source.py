"""HTML as it is written: its character set, what only looks like a tag, and how deep it may be."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from typing import Any

from markdown_it.common.html_blocks import block_names

from indexes.decoding import encoding_of, likely_encoding

_BEGINNING = 4096
_SAMPLE = 1 << 16
_TELLING = 8  # fewest bytes beyond ASCII that an encoding can be told from
_DECLARED = re.compile(rb"(?:charset|<\?xml[^>]{0,80}?encoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_CODECS = {
    **{"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874"},
    **{"gb2312": "gb18030", "gbk": "gb18030", "big5": "big5hkscs", "shift_jis": "cp932", "euc_kr": "cp949"},
}
"""What pages mean by a character set, if it is more than that, by the table of the WHATWG's Encoding Standard."""
INVISIBLE = "script, style, noscript, template, svg, iframe, object:not([type^='image/']), audio, video, [hidden]"
"""Elements that no reader of a page sees as text."""
_INLINE = """
a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark nobr picture q rb rp rt ruby
s samp small source span strike strong sub sup time tt u var wbr"""
INLINE = frozenset(_INLINE.split())
"""Elements that are part of a line of text."""
_OPEN = """
area base body br caption center col colgroup dd details div dt embed font head hr html img input li link meta nobr
optgroup option p param rb rp rt rtc source span tbody td tfoot th thead tr track wbr"""
_UNCLOSED = frozenset(_OPEN.split())
"""Elements without an end tag, with one that may be left out, and those of which authors forget it."""
_ELEMENTS = _UNCLOSED | INLINE | {*block_names, "audio", "button", "canvas", "object", "select", "video"}
_UNNESTED = _UNCLOSED - {"center", "details", "div", "font", "nobr", "span"}
_FORMATS = frozenset({"b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"})
"""Elements that a parser repeats in every paragraph until they are closed, if their attributes differ."""
_DEEPEST, _MOST_REPEATED = 4000, 5_000_000
"""Most tags inside one another; the time that a parser takes grows with the square of it."""
_TAG = re.compile(r"<(/?)([a-z][^\s<>/]*)(\s?)", re.IGNORECASE)
_END = re.compile(r"</([a-z][^\s<>/]*)")
_WORDS = re.compile(
    r"<!--(?s:.*?)(?:-->|\Z)|<(?:[A-Za-z][^<>\"'=]*+(?=<|\Z)|([A-Za-z][^\s<>/=\"'!?:-]*)(?:\s[^<>\"'=]*)?(?<!/)>)"
)
"""A comment; what is no tag, since it ends with another one (`0<p<1`); or a start tag without values."""
_EMPTY = re.compile(
    r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)([\w:.-]+)([^<>]*)/>"
)
"""An element of XHTML without content, which HTML has only for some names."""


def decode_html(content: bytes, charset: str = "") -> str:
    """Decodes a page as Unicode, or else with the character set that it declares, as browsers do.

    The character set that the server names counts before the page's own; without any, the likely one is used.
    """
    declared = _DECLARED.search(content[:_BEGINNING])
    name = (charset or (declared[1].decode("ascii", "replace") if declared else "")).lower().removeprefix("x-")
    try:
        codec = codecs.lookup(name).name if name else ""
    except LookupError:
        codec = ""
    if codec.startswith(("iso2022", "hz")):  # also valid UTF-8, but as other characters
        return content.decode(codec, errors="replace")
    unicode = encoding_of(content[:_BEGINNING])
    try:
        return content.decode(unicode, errors="strict" if unicode == "utf-8-sig" else "replace")
    except UnicodeDecodeError:
        codec = _CODECS.get(codec, codec) or _likely(content)
    try:
        return content.decode(codec, errors="replace")
    except LookupError:  # a codec of another kind
        return content.decode(_likely(content), errors="replace")


def _likely(content: bytes) -> str:
    """Returns the most likely encoding of a page that declares none: UTF-8 if little of it is damaged."""
    whole = len(re.findall(rb"[\xc2-\xf4][\x80-\xbf]+", content))
    if whole > 4 * content.decode("utf-8", errors="replace").count("\ufffd"):
        return "utf-8"
    sample = content[:_SAMPLE]
    return likely_encoding(sample) or "cp1252" if len(re.findall(rb"[\x80-\xff]", sample)) >= _TELLING else "cp1252"


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
    """Parses HTML or XHTML in which what only looks like a tag is text: `List<String>`, `0<p<1`, `<your name>`.

    An element has a usual name or an end tag; in texts other than whole pages, whose authors forget end tags, only the
    latter tells elements that need one.

    Raises:
        ValueError: As for `parse`.
    """
    if html[:100].lstrip().startswith("<?xml"):
        html = _EMPTY.sub(r"<\1\2></\1>", html)
    names = (_ELEMENTS if is_page else _UNCLOSED).union(_END.findall(html.lower()))
    return parse(
        _WORDS.sub(
            lambda tag: tag[0] if tag[0][:2] == "<!" or (tag[1] or "").lower() in names else f"&lt;{tag[0][1:]}", html
        )
    )


def innermost_first(nodes: Iterable[Any]) -> Iterable[Any]:
    """Returns nodes, each once, in an order to remove them: one must not be touched after its parent is removed."""
    return {node.mem_id: node for node in reversed(list(nodes))}.values()


def remove(nodes: Iterable[Any]) -> None:
    """Removes nodes and what is in them."""
    for node in innermost_first(nodes):
        node.decompose()
