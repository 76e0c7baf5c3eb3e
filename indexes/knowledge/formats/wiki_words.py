"""Extracts the words of wikitext with mwparserfromhell: links, templates, tags and tables as a reader sees them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from indexes.extras import optional
from indexes.knowledge.formats.losses import Losses, words_in
from indexes.knowledge.formats.tables import END, START, Cell, one_line, table_lines, write_superscripts
from indexes.knowledge.formats.templates import expand, kind_of

SUFFIX = r"\.(?:jpe?g|png|gif|webp|tiff?|svg|bmp|avif|heic)"
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z-]+)?|simple")
_NO_TEXT = {
    "footnote marks and references": {"ref", "references"},
    "formulas and code": {
        "math",
        "chem",
        "timeline",
        "score",
        "syntaxhighlight",
        "source",
        "hiero",
        "imagemap",
        "graph",
    },
    "": {"gallery", "style", "templatestyles", "section", "includeonly", "noinclude"},
}
"""Tags without words, by what they are."""
_HOLE, _VALUE = "\ue002", "\ue003"
"""Stand for a template whose words are unknown, and for one that may be a value: with digits, or next to a unit."""
_UNIT = r"(?:°|%|(?:[kcm]?m|mi|ft|[km]?g|ha|mph|km/h|[kMG]?W|t|ml)(?:\^|\b))"
_LEADS = r"(?:aged?|about|and|are|around|at|between|by|costs?|for|from|ha[ds]|have|in|is|of|or|over|since|than|to|under"
_LEADS += r"|until|was|weighs?|were|with)"
"""Words after which a value comes."""
_CUT = re.compile(
    rf"\w[^()]*\s{_VALUE}\s*[\w°%$€£]|^{_VALUE}\s*[\w°%]|[{_HOLE}{_VALUE}]\s*{_UNIT}|\b{_LEADS}\s+[{_HOLE}{_VALUE}]\W*$"
)
"""A sentence that a missing value cuts."""
_SENTENCES = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+")
_MARKUP = re.compile(
    r"^(?:\{\||\|\}|\||\{\{|\}\}).*$|(?i:</?(?:div|center|span|small|big|font|(?P<item>[dou]l|d[dt]|li))\b[^<>]*>)"
    r"|__[A-Z]+__|[ \t]*\([\s,;:]*\)",
    re.MULTILINE,
)
"""Leftover markup: unclosed tables and templates, tags without a start, switches, and brackets around removed
templates."""
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FUNCTIONS = frozenset(
    {"formatnum", "lc", "uc", "lcfirst", "ucfirst", "displaytitle", "defaultsort", "pagename", "plural"}
)
"""Parser functions without `#`."""
_NAVIGATION = re.compile(r"navbox|sidebar|toc\b|metadata|noprint|mbox")
_LONGEST_NAME = 60
_EMPTY = re.compile(r"(?<=\()\s*(?:[,;:]\s*)+|(?<=[,;])(?:\s*[,;])+(?=\s)|\s*[,;](?=\s*\))")
"""Signs beside templates without words, in brackets and lists."""
_EMPHASIS = re.compile(r"(?:'{5}|'{2,3})(?!')")  # emphasis marks; the first of four apostrophes is an apostrophe
FOREIGN = re.compile(rf"[^\s:\[\]|{{}}/]{{2,}}:[^:/\s][^:/]*{SUFFIX}", re.IGNORECASE)
"""A link to an image in a namespace that the wiki does not declare, such as that of another language."""
_LINES = ("br", "hr", "p", "div", "li", "dd", "dt", "blockquote", "center")


class Namespaces(NamedTuple):
    """Names of namespaces in lower case: for files, and those whose links are not part of the text."""

    files: frozenset[str] = frozenset({"file", "image"})
    dropped: frozenset[str] = frozenset({"category"})


class WikiWords:
    """Extracts the words of wikitext. The name and the options of each image are passed to `add`."""

    def __init__(
        self, title: str, spaces: Namespaces, losses: Losses, add: Callable[[str, str], None] | None = None
    ) -> None:
        self.losses = losses
        self._title, self._spaces, self._add = title, spaces, add

    def of(self, code: Any) -> str:
        """Returns the words of some wikitext."""
        return "" if code is None else "".join(map(self.of_node, code.nodes))

    def of_node(self, node: Any) -> str:
        """Returns the words of a node, "" for comments and the like."""
        kind = type(node).__name__
        if kind == "Text":
            return _EMPHASIS.sub("", str(node.value))
        if kind == "HTMLEntity":
            return str(node.normalize())
        if kind == "Wikilink":
            return self._link(node)
        if kind == "ExternalLink":
            return self.of(node.title) if node.title or node.brackets else str(node.url)
        if kind == "Template":
            return "" if is_infobox(node) else self._template(node)
        return self._tag(str(node.tag).strip().lower(), node) if kind == "Tag" else ""

    def lines(self, text: str) -> str:
        """Returns text without leftover markup and without sentences that lack a value, one line per paragraph."""
        text = _MARKUP.sub(self._leftover, write_superscripts(text))
        lines = (_EMPTY.sub("", " ".join(line.split())) for line in text.splitlines())
        kept = (self._without_holes(line) if _HOLE in line or _VALUE in line else line for line in lines)
        return "\n".join(line for line in kept if line.strip(" .,;:-\u2013|"))

    def value(self, code: Any) -> str:
        """Returns the words of a value on one line, "" if a part of it is unknown."""
        text = write_superscripts(self.of(code))
        lines = (" ".join(line.split()) for line in _MARKUP.sub(self._leftover, text).splitlines())
        value = one_line(lines)
        if _HOLE in value or _VALUE in value:
            self.losses.leave_out("values with unknown templates", _without_marks(value))
            return ""
        return value

    def _leftover(self, found: re.Match[str]) -> str:
        self.losses.leave_out("unclosed tables and templates", found[0] if found[0][0] in "{|}" else "")
        return "\n" if found["item"] else ""

    def _without_holes(self, line: str) -> str:
        kept = []
        for sentence in _SENTENCES.split(line):
            if _CUT.search(sentence):
                self.losses.leave_out("sentences that lack a value", _without_marks(sentence))
            else:
                kept.append(sentence)
        return _without_marks(" ".join(kept))

    def _link(self, node: Any) -> str:
        target = str(node.title).strip()
        space, colon, name = target.partition(":")
        space = space.strip().lower()
        if colon and (space in self._spaces.files or FOREIGN.fullmatch(target)):
            if self._add is not None:
                self._add(name, "" if node.text is None else str(node.text))
            return ""
        if colon and (space in self._spaces.dropped or (node.text is None and _LANGUAGE.fullmatch(space))):
            self.losses.leave_out("categories and languages", target)
            return ""
        return self.of(node.text) if node.text is not None else target.removeprefix(":")

    def _template(self, node: Any) -> str:
        name, given, named = self._call(node)
        if name == "sup":
            return f"{START}{''.join(given)}{END}"
        if name in ("pagename", "fullpagename", "pagename:", "basepagename"):
            return self._title
        text = expand(name, given, named)
        if text is not None and _HOLE not in text and _VALUE not in text:
            return text
        said = _without_marks(" ".join((*given, *named.values())))
        if kind := kind_of(name):
            self.losses.leave_out(kind, said)
            return ""
        shown = f"{{{{{' '.join(str(node.name).split())[:_LONGEST_NAME]}}}}}"
        self.losses.leave_out(f"template {shown}", said or shown, max(1, words_in([said])))
        return _VALUE if any(map(str.isdigit, said)) else _HOLE

    def _call(self, node: Any) -> tuple[str, list[str], dict[str, str]]:
        """Returns the name of a template, and its values without and with names."""
        given, named = list[str](), dict[str, str]()
        function, colon, first = str(node.name).partition(":")
        if colon and (function.strip().startswith("#") or function.strip().lower() in _FUNCTIONS):
            given.append(self.of(parse_wikitext(first)).strip())
            name = f"{function.strip().lower()}:"
        else:
            name = " ".join(_COMMENT.sub("", str(node.name)).replace("_", " ").split()).lower()
            name = name.removeprefix("template:").strip()
        for one in node.params:
            key, value = str(one.name).strip().lower(), self.of(one.value)
            if not one.showkey or key == str(len(given) + 1):
                given.append(value)
            else:
                named[key] = value.strip()
        return name, given, named

    def _tag(self, name: str, node: Any) -> str:
        if name == "gallery" and self._add is not None:
            for line in str(node.contents or "").splitlines():
                file, _, caption = line.partition("|")
                space, _, rest = file.partition(":")
                inside = space.strip().lower() in self._spaces.files or FOREIGN.fullmatch(file.strip())
                self._add(rest if inside else file, caption)
        for reason, names in _NO_TEXT.items():
            if name in names:
                self.losses.leave_out(reason, str(node.contents or "") if reason else "")
                return ""
        if name == "table":
            return self._table(node)
        if node.wiki_markup in ("*", "#", ";", ":"):
            return ""
        if name == "sup":
            return f"{START}{self.of(node.contents)}{END}"
        start = "\n" if name in _LINES else ""
        return f"{start}{self.of(node.contents)}{start}"

    def _table(self, node: Any) -> str:
        if _NAVIGATION.search(str(node.get("class").value) if node.has("class") else ""):
            self.losses.leave_out("navigation", self.of(node.contents))
            return ""
        content = node.contents if node.wiki_markup or node.contents is None else parse_wikitext(str(node.contents))
        captions, rows = list[str](), list[list[Cell]]()
        for row in _rows(content):
            cells = [self._cell(cell) for cell in row]
            captions += [cell.text[1:].strip() for cell in cells if cell.text.startswith("+")]
            rows.append([cell for cell in cells if not cell.text.startswith("+")])
        return "\n".join(("", *captions, *table_lines(rows, self.losses), ""))

    def _cell(self, node: Any) -> Cell:
        text = self.value(node.contents)
        return Cell(text, str(node.tag).strip().lower() == "th", _span(node, "rowspan"), _span(node, "colspan"))


def _rows(code: Any) -> Iterator[list[Any]]:
    """Yields the cells of the rows of a table; those before its first row are one, too."""
    first: list[Any] = []
    for node in code.nodes if code is not None else ():
        tag = str(node.tag).strip().lower() if type(node).__name__ == "Tag" else ""
        if tag in ("td", "th"):
            first.append(node)
        elif tag in ("tr", "thead", "tbody", "tfoot"):
            yield from [first] if first else []
            first = []
            yield from _rows(node.contents)
    yield from [first] if first else []


def _span(node: Any, name: str) -> int:
    number = str(node.get(name).value).strip() if node.has(name) else ""
    return int(number) if number.isdecimal() else 1


def _without_marks(text: str) -> str:
    """Returns a text without marks of unknown templates, and without the brackets and spaces around them."""
    if _HOLE not in text and _VALUE not in text:
        return text
    text = re.sub(rf"\(\s*[{_HOLE}{_VALUE}][\s,;:{_HOLE}{_VALUE}]*\)", "", text)
    text = re.sub(rf"(?<=\()[{_HOLE}{_VALUE}][\s,;:]*|[{_HOLE}{_VALUE}]", "", text)
    return re.sub(r"\s+([.,;:!?)])", r"\1", " ".join(text.split()))


def is_infobox(node: Any) -> bool:
    """Returns whether a template is an infobox."""
    name = str(node.name).strip().lower()
    return "infobox" in name or name in ("taxobox", "speciesbox", "automatic taxobox", "chembox")


def parse_wikitext(source: str) -> Any:
    """Returns the tree of some wikitext.

    Raises:
        ValueError: mwparserfromhell is not installed, or cannot parse it.
    """
    parser = optional("mwparserfromhell", "mediawiki")
    try:
        return parser.parse(source, skip_style_tags=True)  # unclosed emphasis would turn a whole infobox into text
    except parser.parser.ParserError as error:
        raise ValueError(f"its wikitext cannot be parsed: {error}") from error
