"""Reads wikitext with mwparserfromhell as HTML, which is read like that of pages, and the values of infoboxes.

Templates are not evaluated. A few have words that follow from their arguments: quantities, lists, quotations, marked-up
words. The others become blocks of their own kind. A ZIM file or a wiki's pages in HTML have every template expanded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from html import escape, unescape
from typing import Any

from indexes.extras import optional
from indexes.knowledge.document import Block, Heading, Part
from indexes.knowledge.readers.html import parts_of_html
from indexes.knowledge.readers.html_parts import line_of

_IMAGE = re.compile(r"\.(?:jpe?g|png|gif|webp|tiff?|svg|bmp|avif|heic)$", re.IGNORECASE)
_FILE = re.compile(r"(?:\[\[)?(?:[^:\[\]|{}]+:)?\s*([^\[\]|<>{}\n]+\.\w{3,4})(?:\s*\|.*|\]\])?", re.DOTALL)
_OPTION = re.compile(
    r"(?:upright|lang|link|alt|page|class|thumb)\s*=.*|upright|thumb(?:nail)?|frame(?:d|less)?|border|left|right|center"
    r"|none|baseline|sub|super|(?:text-)?top|middle|(?:text-)?bottom|mini|(?P<width>\d*)(?:x(?P<height>\d+))?\s*px",
    re.IGNORECASE | re.DOTALL,
)
"""An option of an image that is not its caption."""
_NO_FACT = re.compile(
    r"(?:image|img|photo|picture|logo|cover|map|pushpin|embed|module|child|class|name|title|website|url|flag|signature"
    r"|coord\w*|lat|long|label|caption|alt|width|size|bg|background)(?:[_ ].*|\d*)|.*(?:image|caption|alt|size|width"
    r"|map|colou?r|footnotes?|ref|style)\d*|\d+",
    re.IGNORECASE,
)
"""Parameters of an infobox that control its appearance or repeat the article."""
_REFERENCES = "footnote marks and references"
_REFERENCE = re.compile(r"<ref\b[^<>]*/>|<ref\b.*?</ref\s*>", re.IGNORECASE | re.DOTALL)
"""References; the parser misses those that are nested in other markup or malformed."""
_NAVIGATION = re.compile(r".*(?:navbox|sidebar|\btoc\b|metadata|noprint|mbox)")
_KEPT = frozenset({"table", "caption", "tr", "td", "th", "thead", "tbody", "ul", "ol", "li", "dl", "dt", "dd", "pre"})
_KEPT |= {"sup", "sub", "div", "center", "p", "blockquote", "br", "hr"}
"""Tags that are not the same as their content."""
_UNSEEN = frozenset({"style", "templatestyles", "section", "includeonly", "noinclude", "references"})
_EMPHASIS = re.compile(r"(?:'{5}|'{2,3})(?!')")  # emphasis marks; the first of four apostrophes is an apostrophe
_OPEN = re.compile(r"\s*</?(?:div|center|span|small|font|d[ltd]|[ou]l|li)\b[^<>]*>", re.IGNORECASE)  # unclosed
_EMPTY = re.compile(r"[ \t]*\([\s,;:]*\)|(?<=\()[\s,;:]+|[,;]\s*(?=[,;)])|__[A-Z]+__")
"""Signs around templates without words, and switches."""

_SIGNS = {"snd": " \u2013 ", "spaced ndash": " \u2013 ", "ndash": "\u2013", "mdash": "\u2014", "nbsp": " ", "!": "|"}
_SIGNS |= {"=": "=", "·": " · ", "dot": " · "}
_BEFORE = {"circa": "c. ", "c.": "c. ", "as of": "As of ", "usd": "US$", "us$": "US$", "€": "€", "£": "£"}
_FIRST = re.compile(r"nowrap|nobr|small(?:er)?|big|abbr|tooltip|flag(?:u|country)?|ill|interlanguage link|marriage")
_LAST = re.compile(r"lang|langx|lang-[a-z-]+|transl\w*|script|font ?color|colou?r")
_LISTS = re.compile(
    r"ubl|(?:unbulleted|bulleted|br|plain|flat|collapsible|ordered) list|(?:plain|flat|h)list"
    r"|(?:block|c)?quote|quotation|quote box"
)
_DATES = re.compile(r"(?:birth|death|start|end|film|release|founding)[ -]?(?:date|year)\b.*|date|dts")
_NUMBER = r"[+\-\u2212\u2013]?(?:\d[\d,.\s\u00a0]*|\.\d+)(?:[+/]\d+(?:/\d+)?)?"
_BETWEEN = {"-": "\u2013", "\u2013": "\u2013", "x": " \u00d7 ", "by": " \u00d7 ", "to": " to ", "and": " and "}
"""What stands between the values of a range, and how it is written."""
_MEASURE = re.compile(rf"({_NUMBER}(?:\|(?:{'|'.join(_BETWEEN)})\|{_NUMBER})*)\|([^|\d][^|]*)(?:\||$)")
"""A quantity and its unit, in arguments that are joined by bars."""
_UNITS = {"c": "°C", "f": "°F", "sqkm": "km^2", "sqmi": "sq mi", "sqft": "sq ft", "sqm": "m^2", "ftin": "ft"}
_UNITS |= {"lbs": "lb", "kn": "knots", "foot": "ft", "inch": "in", "mile": "mi"}
"""Units that are not written as their codes."""


def read_wikitext(
    source: str, title: str, files: Set[str], hidden: Set[str], address: Callable[[str], str]
) -> tuple[list[Part], dict[str, str]]:
    """Returns the parts of a page below its title, and the values of its infoboxes.

    Args:
        source: The wikitext.
        title: The title of the page.
        files: The names of the namespaces of files, in lower case.
        hidden: Those whose links are not part of the text.
        address: Returns the address of an image by its name.

    Raises:
        ValueError: mwparserfromhell is not installed, or cannot parse it.
    """
    page = _Page(files, hidden, address)
    page.others = [(_REFERENCES, re.sub(r"[\[\]{}|=]", " ", reference)) for reference in _REFERENCE.findall(source)]
    parts = parts_of_html(_EMPTY.sub("", page.html(_parsed(_REFERENCE.sub("", source)))))
    others = ((kind, unescape(re.sub(r"<[^<>]*>", " ", html))) for kind, html in page.others)
    return [
        *(Heading(1, title), *parts),
        *(Block(" ".join(text.split()), kind=kind) for kind, text in others if text.strip()),
    ], page.values


class _Page:
    """Writes a page as HTML, and collects the values of its infoboxes and what is no text, with its kind."""

    def __init__(self, files: Set[str], hidden: Set[str], address: Callable[[str], str]) -> None:
        self.values: dict[str, str] = {}
        self.others: list[tuple[str, str]] = []
        self._files, self._hidden, self._address = files, hidden, address

    def html(self, code: Any) -> str:
        """Returns some wikitext as HTML."""
        return "" if code is None else "".join(map(self._node, code.nodes))

    def _line(self, code: Any, separator: str = ", ") -> str:
        html = _EMPTY.sub("", self.html(code)).strip()
        return line_of(parts_of_html(html), separator=separator) if html else ""

    def _node(self, node: Any) -> str:
        match type(node).__name__:
            case "Text":
                text = escape(_OPEN.sub(" ", _EMPHASIS.sub("", str(node.value))), quote=False)
                return text.replace("\n", "<br>") if text.strip() else text
            case "HTMLEntity":
                return escape(str(node.normalize()), quote=False)
            case "Heading":
                return f"<h{node.level}>{self.html(node.title)}</h{node.level}>"
            case "Wikilink":
                return self._link(node)
            case "ExternalLink":
                return self.html(node.title) if node.title or node.brackets else escape(str(node.url))
            case "Template":
                return self._template(node)
            case "Tag":
                return self._tag(str(node.tag).strip().lower(), node)
        return ""  # comments and the like

    def _link(self, node: Any) -> str:
        target = str(node.title).strip()
        space, colon, name = target.partition(":")
        space = space.strip().lower()
        if space in self._files or (name[:1].strip() and _IMAGE.search(name)):
            return self._file(name, node.text)
        if colon and (space in self._hidden or (node.text is None and re.fullmatch("[a-z]{2,3}", space))):
            self.others.append(("categories and languages", target))
            return ""
        return self.html(node.text) if node.text is not None else escape(target.removeprefix(":"), quote=False)

    def _file(self, name: str, options: Any) -> str:
        texts = [text.strip() for text in _divided(options)]
        matches = list(map(_OPTION.fullmatch, texts))
        captions = [text for text, option in zip(texts, matches, strict=True) if text and option is None]
        caption = self._line(_parsed(captions[-1]), " ") if captions else ""
        if not _IMAGE.search(name.strip()):
            self.others.append(("captions of other files", caption))
            return ""
        sides = {side: option[side] for option in matches if option for side in ("width", "height") if option[side]}
        size = "".join(f' {side}="{pixels}"' for side, pixels in sides.items())
        image = f'<img src="{escape(self._address(name))}"{size}>'
        return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>" if caption else image

    def _template(self, node: Any) -> str:
        """Returns the words of a template; those of unknown ones are no text."""
        name = " ".join(re.sub(r"<!--.*?-->", "", str(node.name)).replace("_", " ").split()).lower()
        if "infobox" in name or name in ("taxobox", "speciesbox", "automatic taxobox", "chembox"):
            self._infobox(node)
            return ""
        function, colon, _ = name.partition(":")
        values, named = list[str](), dict[str, str]()
        if colon:
            name = f"{function}:"
            values.append(self.html(_parsed(str(node.name).partition(":")[2])).strip())
        for parameter in node.params:
            key, value = str(parameter.name).strip().lower(), self.html(parameter.value).strip()
            if not parameter.showkey or key == str(len(values) + 1):
                values.append(value)
            else:
                named[key] = value
        words = words_of_template(name, values, named)
        if words is None:
            self.others.append(("templates", " ".join((*values, *named.values()))))
        return (words or "").replace("\n", "<br>")

    def _infobox(self, box: Any) -> None:
        for parameter in box.params:
            label, value = str(parameter.name).strip(), parameter.value
            file = _FILE.fullmatch(str(value).strip())
            if file is not None and _IMAGE.search(file[1]):
                is_main = re.search("image|photo|picture|logo|cover|img", label.lower()) and "map" not in label.lower()
                address = self._address(file[1])
                self.values = ({"image": address} if is_main else {}) | {label: address} | self.values
            elif (text := self._line(value)) and not _NO_FACT.fullmatch(label):
                self.values[label] = "; ".join(filter(None, (self.values.get(label), text)))  # of infoboxes within
            else:
                self.others.append(("settings of infoboxes", text))

    def _tag(self, name: str, node: Any) -> str:
        if name == "gallery":
            images = []
            for line in str(node.contents or "").splitlines():
                file, _, caption = line.partition("|")
                inner = file.partition(":")[2]
                images.append(self._file(inner if inner[:1].strip() else file, _parsed(caption)))
            return "".join(images)
        if name in _UNSEEN or node.wiki_markup in ("*", "#", ";", ":"):
            return ""
        if name == "img" and node.has("src"):
            return self._file(str(node.get("src").value), None)
        words = self.html(node.contents)
        if node.has("class") and _NAVIGATION.match(str(node.get("class").value)):
            self.others.append(("navigation", words))
            return ""
        if name == "td" and words.startswith("+"):
            name, words = "caption", words[1:]
        spans = {key: str(node.get(key).value).strip() for key in ("rowspan", "colspan") if node.has(key)}
        attributes = "".join(f' {key}="{escape(value)}"' for key, value in spans.items())
        return f"<{name}{attributes}>{words}</{name}>" if name in _KEPT else words


def _divided(code: Any) -> Iterator[str]:
    """Yields the wikitext between the bars that are outside of links and templates."""
    part = ""
    for node in code.nodes if code is not None else ():
        first, *others = str(node).split("|") if type(node).__name__ == "Text" else [str(node)]
        part += first
        for other in others:
            yield part
            part = other
    yield part


def words_of_template(name: str, values: Sequence[str], named: Mapping[str, str]) -> str | None:
    """Returns the words of a template, `None` if they are unknown: `6 ft` for `convert` with `6`, `ft` and `m`.

    The name is in lower case and has spaces, that of a parser function ends with a colon; values are words.
    """
    if name in ("convert", "cvt", "height", "weight"):
        measure = " ".join(f"{named[unit]} {unit}" for unit in ("m", "cm", "ft", "in", "kg", "lb") if named.get(unit))
        return measure or _quantity("|".join(values))
    if _LISTS.fullmatch(name):
        texts = (named.get(key, "") for key in ("title", "text", "quote", "author", "sign", "source"))
        return "\n".join(("", *values, *filter(None, texts), "")) if "quot" in name else "\n".join(values)
    if not values or name in _SIGNS:
        return _SIGNS.get(name)
    if name in ("sub", "sup"):
        return f"<{name}>{values[0]}</{name}>"
    if name == "val":
        power = f"\u00d710^{named['e']}" if named.get("e") else ""
        return f"{values[0]}{power} {_unit(named.get('u', ''))}".strip()
    if name in ("frac", "fraction", "sfrac"):
        return f"{' '.join(values[:-2])} {'/'.join(values[-2:])}".strip()
    if _DATES.fullmatch(name):
        return "-".join(value.zfill(2) for value in values[:3] if value.isdecimal()) or " ".join(values)
    if name.startswith("nihongo") and values[1:]:
        return f"{values[0]} ({', '.join(filter(None, values[1:3]))})"
    if name in ("formatnum:", "number"):
        return f"{int(values[0]):,}" if values[0].isdecimal() else values[0]
    if name in _BEFORE:
        return _BEFORE[name] + values[0]
    return values[0] if _FIRST.fullmatch(name) else values[-1] if _LAST.fullmatch(name) else None


def _quantity(text: str) -> str | None:
    """Returns the quantity to convert, without its conversion: ranges, compounds such as 6 ft 2 in, and fractions."""
    parts, place = list[str](), 0
    while match := _MEASURE.match(text, place):
        amount = re.sub(r"\|(.+?)\|", lambda sign: _BETWEEN[sign[1]], match[1])
        parts.append(f"{amount.replace('+', ' ') if '/' in amount else amount} {_unit(match[2])}")
        place = match.end()
    return " ".join(parts) or None


def _unit(code: str) -> str:
    return _UNITS.get(code.lower()) or re.sub(r"(?<=[A-Za-z])([23])(?!\d)", r"^\1", code)


def _parsed(source: str) -> Any:
    parser = optional("mwparserfromhell", "mediawiki")
    try:
        return parser.parse(source, skip_style_tags=True)  # unclosed emphasis would turn a whole infobox into text
    except parser.parser.ParserError as error:
        raise ValueError(f"its wikitext cannot be parsed: {error}") from error
