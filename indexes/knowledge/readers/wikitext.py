"""Reads wikitext with mwparserfromhell: headings, text, tables, pictures, and the values of infoboxes.

Templates are not evaluated. A few have words that follow from their arguments (`wiki_templates`); the others become
blocks of their own kind. A ZIM file or the pages of a wiki in HTML have every template expanded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from indexes.extras import optional
from indexes.knowledge.document import Block, Cell, Heading, Part, Picture, Table
from indexes.knowledge.readers.wiki_templates import words_of_template
from indexes.knowledge.sections import FACTS

_IMAGE = re.compile(r"\.(?:jpe?g|png|gif|webp|tiff?|svg|bmp|avif|heic)$", re.IGNORECASE)
_FILE = re.compile(r"(?:\[\[)?(?:[^:\[\]|{}]+:)?\s*([^\[\]|<>{}\n]+\.\w{3,4})(?:\s*\|.*|\]\])?", re.DOTALL)
_OPTION = re.compile(
    r"(?:upright|lang|link|alt|page|class|thumb)\s*=.*|upright|thumb(?:nail)?|frame(?:d|less)?|border|left|right|center"
    r"|none|baseline|sub|super|(?:text-)?top|middle|(?:text-)?bottom|mini|(?P<width>\d*)(?:x(?P<height>\d+))?\s*px",
    re.IGNORECASE | re.DOTALL,
)
"""An option of an image that is not its caption."""
_BARS = re.compile(r"\|(?![^\[{]*[\]}])")  # bars outside of links and templates
_MAIN = frozenset({"image", "image_name", "photo", "picture", "logo", "cover", "image_file", "image_skyline", "img"})
"""Parameters of an infobox that name its image."""
_NO_FACT = re.compile(
    r"(?:image|img|photo|picture|logo|cover|map|pushpin|embed|module|child|class|name|title|website|url|flag|signature"
    r"|coord\w*|lat|long|label|caption|alt|width|size|bg|background)(?:[_ ].*|\d*)|.*(?:image|caption|alt|size|width"
    r"|map|colou?r|footnotes?|ref|style)\d*|\d+",
    re.IGNORECASE,
)
"""Parameters of an infobox that control its appearance or repeat the article."""
_LONGEST_FACT = 250  # most characters in a fact; a longer value has its label as a heading
_REFERENCES = "footnote marks and references"
_REFERENCE = re.compile(r"<ref\b[^<>]*/>|<ref\b.*?</ref\s*>", re.IGNORECASE | re.DOTALL)
"""References; the parser misses those that are nested in other markup or malformed."""
_NAVIGATION = re.compile(
    r".*(?:navbox|sidebar|\btoc\b|metadata|noprint|mbox|authority control|portal|commons cat|stub$)"
)
_KINDS = (
    (_REFERENCES, re.compile(r"(?:efn|refn?|sfnp?|harv\w*|rp?|note|cn|reflist|notelist|webarchive|isbn|doi|cite .*)$")),
    ("navigation", _NAVIGATION),
    ("coordinates", re.compile("coord")),
    ("notices", re.compile(r"short description|use .* (?:dates|english)|about$|other uses|distinguish|redirect|main$")),
)
"""Templates without words of the article, by what they are."""
_FUNCTIONS = frozenset({"formatnum", "lc", "uc", "displaytitle", "defaultsort"})  # parser functions without `#`
_UNSEEN = frozenset({"style", "templatestyles", "section", "includeonly", "noinclude", "references"})
_LINES = frozenset({"br", "hr", "p", "div", "li", "dd", "dt", "blockquote", "center"})
_EMPHASIS = re.compile(r"(?:'{5}|'{2,3})(?!')")  # emphasis marks; the first of four apostrophes is an apostrophe
_POWER = re.compile(r"[+-]?\d.*|[i-nx-z](?:[+-].+)?|[+-].+")  # a superscript that is no ending (1st) and no mark
_LEFTOVER = re.compile(
    r"</?(?:div|center|span|small|font)\b[^<>]*>|__[A-Z]+__|^(?:\{\||\|\}).*$|[ \t]*\([\s,;:]*\)|(?<=\()[\s,;:]+"
    r"|[,;]\s*(?=[,;)])",
    re.MULTILINE,
)
"""Tags without a start, switches, unclosed tables, and signs around templates without words."""


class Namespaces(NamedTuple):
    """Names of namespaces in lower case: for files, and those whose links are not part of the text."""

    files: frozenset[str] = frozenset({"file", "image"})
    dropped: frozenset[str] = frozenset({"category"})


def read_wikitext(
    source: str, title: str, spaces: Namespaces, address: Callable[[str], str]
) -> tuple[list[Part], dict[str, str]]:
    """Returns the parts of a page, the facts of its infoboxes last, and the images that these name, by parameter.

    Args:
        source: The wikitext.
        title: The title of the page, which becomes its first heading.
        spaces: The namespaces of the wiki.
        address: Returns the address of an image by its name.

    Raises:
        ValueError: mwparserfromhell is not installed, or cannot parse it.
    """
    page = _Page(spaces, address)
    page.parts.append(Heading(1, title))
    page.others += [(_REFERENCES, re.sub(r"<[^<>]*>|[\[\]{}|=]", " ", ref)) for ref in _REFERENCE.findall(source)]
    page.read(_parsed(_REFERENCE.sub("", source)))
    page.end()
    return page.parts, page.images


class _Page:
    """Collects the parts of a page."""

    def __init__(self, spaces: Namespaces, address: Callable[[str], str]) -> None:
        self.parts: list[Part] = []
        self.images: dict[str, str] = {}
        self.others: list[tuple[str, str]] = []  # what is no text, with its kind
        self._spaces, self._address = spaces, address
        self._text, self._pictures, self._facts = "", list[Picture](), list[tuple[str, str]]()

    def read(self, code: Any) -> None:
        """Adds headings, tables and text."""
        for node in code.nodes:
            tag = _tag_of(node)
            if type(node).__name__ == "Heading":
                self._flush()
                self.parts.append(Heading(node.level, self._line(node.title)))
            elif tag == "table":
                self._flush()
                self._table(node)
            elif tag in ("div", "center", "onlyinclude") and node.contents is not None:
                self._text += "\n"
                self.read(node.contents)
                self._text += "\n"
            else:
                self._text += self._of_node(node, self._text[-1:])

    def end(self) -> None:
        """Adds the facts of infoboxes: each long value under its label, and the others as lines."""
        self._flush()
        for label, value in self._facts:
            self.parts += [Heading(1, label), Block(value)] if len(value) > _LONGEST_FACT else []
        lines = [f"{label}: {value}" for label, value in self._facts if len(value) <= _LONGEST_FACT]
        self.parts += [Heading(1, FACTS), Block("\n".join(lines))] if lines else []

    def _flush(self) -> None:
        """Adds the text and the pictures so far as a block, and what is no text after it."""
        text, pictures = _lines(self._text), tuple(self._pictures)
        self.parts += [Block(text, pictures)] if text or pictures else []
        self.parts += [Block(words, kind=kind) for kind, text in self.others if (words := " ".join(text.split()))]
        self._text, self._pictures, self.others = "", [], []

    def _line(self, code: Any) -> str:
        """Returns the words of some wikitext on one line."""
        return ", ".join(filter(None, (line.strip(" ,") for line in _lines(self._of(code)).splitlines())))

    def _of(self, code: Any) -> str:
        text = ""
        for node in code.nodes if code is not None else ():
            text += self._of_node(node, text[-1:])
        return text

    def _of_node(self, node: Any, before: str) -> str:
        """Returns the words of a node, "" for comments and the like; `before` is the character before it."""
        match type(node).__name__:
            case "Text":
                return _EMPHASIS.sub("", str(node.value))
            case "HTMLEntity":
                return str(node.normalize())
            case "Wikilink":
                return self._link(node)
            case "ExternalLink":
                return self._of(node.title) if node.title or node.brackets else str(node.url)
            case "Template":
                return self._template(node, before)
            case "Tag":
                return self._tag(_tag_of(node), node, before)
        return ""

    def _link(self, node: Any) -> str:
        target = str(node.title).strip()
        space, colon, name = target.partition(":")
        space = space.strip().lower()
        if space in self._spaces.files or (colon and _IMAGE.search(target)):
            self._add_file(name, "" if node.text is None else str(node.text))
            return ""
        if colon and (space in self._spaces.dropped or (node.text is None and re.fullmatch("[a-z]{2,3}", space))):
            self.others.append(("categories and languages", target))
            return ""
        return self._of(node.text) if node.text is not None else target.removeprefix(":")

    def _add_file(self, name: str, options: str) -> None:
        matches = [(text.strip(), _OPTION.fullmatch(text.strip())) for text in _BARS.split(options)]
        captions = [text for text, option in matches if text and option is None]
        caption = self._line(_parsed(captions[-1])) if captions else ""
        if not _IMAGE.search(name.strip()):
            self.others.append(("captions of other files", caption))
            return
        sides = [int(side) for _, option in matches if option for side in option.group("width", "height") if side]
        self._pictures.append(Picture(self._address(name), caption=caption, sides=tuple(sides)))

    def _template(self, node: Any, before: str) -> str:
        name = " ".join(re.sub(r"<!--.*?-->", "", str(node.name)).replace("_", " ").split()).lower()
        if "infobox" in name or name in ("taxobox", "speciesbox", "automatic taxobox", "chembox"):
            self._infobox(node)
            return ""
        function, colon, _ = name.partition(":")
        values, named = list[str](), dict[str, str]()
        if colon and (function.startswith("#") or function in _FUNCTIONS):
            name = f"{function}:"
            values.append(self._of(_parsed(str(node.name).partition(":")[2])).strip())
        for parameter in node.params:
            key, value = str(parameter.name).strip().lower(), self._of(parameter.value).strip()
            if not parameter.showkey or key == str(len(values) + 1):
                values.append(value)
            else:
                named[key] = value
        if name == "sup":
            return _raised("".join(values), before)
        words = words_of_template(name, values, named)
        if words is None:
            kind = next((kind for kind, pattern in _KINDS if pattern.match(name)), "templates")
            self.others.append((kind, " ".join((*values, *named.values()))))
        return words or ""

    def _infobox(self, box: Any) -> None:
        for parameter in box.params:
            label, value = str(parameter.name).strip(), parameter.value
            file = _FILE.fullmatch(str(value).strip())
            if file is not None and _IMAGE.search(file[1]):
                is_main = label.lower() in _MAIN or ("image" in label.lower() and "map" not in label.lower())
                address = self._address(file[1])
                self.images = ({"image": address} if is_main else {}) | {label: address} | self.images
            elif (text := self._line(value)) and not _NO_FACT.fullmatch(label):
                self._facts.append((label.replace("_", " ").capitalize(), text))
            else:
                self.others.append(("settings of infoboxes", text))

    def _tag(self, name: str, node: Any, before: str) -> str:
        if name == "gallery":
            for line in str(node.contents or "").splitlines():
                file, _, caption = line.partition("|")
                space, _, rest = file.partition(":")
                self._add_file(rest if rest and " " not in space.strip() else file, caption)
            return ""
        if name in _UNSEEN or node.wiki_markup in ("*", "#", ";", ":"):
            return ""
        if name == "table":
            return "\n".join(("", *(", ".join(cell.text for cell in row) for row in self._rows(node)), ""))
        if name == "sup":
            return _raised(self._of(node.contents), before)
        start = "\n" if name in _LINES else ""
        return f"{start}{self._of(node.contents)}{start}"

    def _table(self, node: Any) -> None:
        is_navigation = node.has("class") and _NAVIGATION.match(str(node.get("class").value))
        rows = tuple(tuple(row) for row in self._rows(node))
        captions = [cell.text[1:].strip() for row in rows for cell in row if cell.text.startswith("+")]
        rows = tuple(tuple(cell for cell in row if not cell.text.startswith("+")) for row in rows)
        self.parts += map(Block, captions)
        self.parts.append(Table(rows, tuple(self._pictures), "navigation" if is_navigation else ""))
        self._pictures = []

    def _rows(self, node: Any) -> Iterator[list[Cell]]:
        code = node.contents if node.wiki_markup or node.contents is None else _parsed(str(node.contents))
        for row in _rows_in(code):
            yield [Cell(self._line(cell.contents), _tag_of(cell) == "th", *_spans(cell)) for cell in row]


def _tag_of(node: Any) -> str:
    return str(node.tag).strip().lower() if type(node).__name__ == "Tag" else ""


def _lines(text: str) -> str:
    """Returns text without leftover markup, one line per paragraph."""
    lines = (" ".join(line.split()) for line in _LEFTOVER.sub("", text).splitlines())
    return "\n".join(line for line in lines if line.strip(" .,;:-\u2013|"))


def _rows_in(code: Any) -> Iterator[list[Any]]:
    """Yields the cells of the rows of a table; those before its first row are one, too."""
    first: list[Any] = []
    for node in code.nodes if code is not None else ():
        tag = _tag_of(node)
        if tag in ("td", "th"):
            first.append(node)
        elif tag in ("tr", "thead", "tbody", "tfoot"):
            yield from [first] if first else []
            first = []
            yield from _rows_in(node.contents)
    yield from [first] if first else []


def _spans(node: Any) -> list[int]:
    texts = [str(node.get(name).value).strip() if node.has(name) else "" for name in ("rowspan", "colspan")]
    return [int(text) if text.isdecimal() else 1 for text in texts]


def _raised(text: str, before: str) -> str:
    """Returns a superscript as plain text: m^2, 10^(n+1), 1st; no footnote marks."""
    text = text.strip().replace("\N{MINUS SIGN}", "-")
    if re.fullmatch(r"\[.*\]", text) or (text.isdecimal() and before in tuple('.,;:!?"')):
        return ""
    if before and (before.isalnum() or before in ")]") and _POWER.fullmatch(text):
        return f"^{text}" if re.fullmatch(r"[+-]?[\w.]+[+-]?", text) else f"^({text})"
    return text


def _parsed(source: str) -> Any:
    parser = optional("mwparserfromhell", "mediawiki")
    try:
        return parser.parse(source, skip_style_tags=True)  # unclosed emphasis would turn a whole infobox into text
    except parser.parser.ParserError as error:
        raise ValueError(f"its wikitext cannot be parsed: {error}") from error
