"""Converts wikitext to plain text with mwparserfromhell: sections, images, and the facts of infoboxes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from indexes.extras import optional
from indexes.formats.facts import as_sections
from indexes.formats.images import ICON, SMALLEST, photos_first
from indexes.formats.losses import Losses, words_in
from indexes.formats.reading import Reading
from indexes.formats.superscripts import END, START, write_superscripts
from indexes.formats.tables import Cell, one_line, table_lines
from indexes.formats.templates import expand, kind_of
from retriever.types import ArticleImage

_SUFFIX = r"\.(?:jpe?g|png|gif|webp|tiff?|svg|bmp|avif|heic)"
_IMAGE = re.compile(rf"{_SUFFIX}$", re.IGNORECASE)
_OPTION = re.compile(
    r"(?:upright|lang|link|alt|page|class|thumb|thumbnail)\s*=.*|upright|thumb|thumbnail|frame|framed|frameless|border"
    r"|left|right|center|none|baseline|sub|super|top|text-top|middle|bottom|text-bottom|mini",
    re.IGNORECASE | re.DOTALL,
)
"""An option of an image that is not its caption."""
_SIZE = re.compile(r"(\d*)(?:x(\d+))?\s*px", re.IGNORECASE)
_FILE = re.compile(r"(?:\[\[)?(?:[^:\[\]|{}]+:)?\s*([^\[\]|<>{}\n]+\.\w{3,4})")
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
_CUT = re.compile(rf"\w[^()]*\s{_VALUE}\s*[\w°%$€£]|^{_VALUE}\s*[\w°%]|[{_HOLE}{_VALUE}]\s*{_UNIT}")
"""A sentence that a missing value cuts."""
_SENTENCES = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+")
_MAIN = frozenset({"image", "image_name", "photo", "picture", "logo", "cover", "image_file", "image_skyline", "img"})
"""Parameters of an infobox that name its image."""
_NO_FACT = re.compile(
    r"(?:image|img|photo|picture|logo|cover|map|pushpin|embed|module|child|class|name|title|website|url|flag|signature"
    r"|coord\w*|lat|long|label|caption|alt|width|size|bg|background)(?:[_ ].*|\d*)|.*(?:image|caption|alt|size|width"
    r"|map|colou?r|footnotes?|ref|style)\d*|\d+",
    re.IGNORECASE,
)
"""Parameters of an infobox that control its appearance or repeat the article."""
_REFERENCE = re.compile(r"<ref\b[^<>]*/>|<ref\b.*?</ref\s*>", re.IGNORECASE | re.DOTALL)
"""References; the parser misses those that are nested in other markup or malformed."""
_MARKUP = re.compile(
    r"^(?:\{\||\|\}|\||\{\{|\}\}).*$|</?(?:div|center|span|small|big|font)\b[^<>]*>"
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
_EMPHASIS = re.compile(r"(?:'{5}|'{2,3})(?!')")
"""Emphasis marks; the first of four apostrophes is an apostrophe."""
_FOREIGN = re.compile(rf"[^\s:\[\]|{{}}/]{{2,}}:[^:/\s][^:/]*{_SUFFIX}", re.IGNORECASE)
"""A link to an image in a namespace that the wiki does not declare, such as that of another language."""
_CATEGORIES = re.compile(
    rf"^(?:[ \t]*\[\[(?!{_FOREIGN.pattern}\s*[|\]])[^\s:\[\]|{{}}/]+:[^\s\[\]:|][^\[\]]*\]\])+[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line with only links into other namespaces: categories, in any language, and other languages."""
_LINES = ("br", "hr", "p", "div", "li", "dd", "dt", "blockquote", "center")


class Wikitext(NamedTuple):
    """The content of a page: (title, text) of each section, images by file name, and which is the main one."""

    sections: list[tuple[str, str]]
    images: list[ArticleImage]
    main: str | None


class Namespaces(NamedTuple):
    """Names of namespaces in lower case: for files, and those whose links are not part of the text."""

    files: frozenset[str] = frozenset({"file", "image"})
    dropped: frozenset[str] = frozenset({"category"})


def read_wikitext(source: str, title: str, spaces: Namespaces, reading: Reading) -> Wikitext:
    """Returns the article in a page's wikitext.

    References and categories are left out, and so are templates whose words are unknown; infoboxes become the last
    sections: "Facts", and long values under their names.

    Args:
        source: The wikitext.
        title: The page's title, used for the text before the first heading.
        spaces: The wiki's namespaces.
        reading: How to read it; `names` may have the parameter of infoboxes that names the main image.

    Raises:
        ValueError: mwparserfromhell is not installed.
    """
    losses = reading.losses
    for reason, pattern in (("footnote marks and references", _REFERENCE), ("categories and languages", _CATEGORIES)):
        for found in pattern.finditer(source):
            losses.leave_out(reason, found[0])
        source = pattern.sub("", source)
    code = _parse(source)
    parts_found: list[tuple[int, str, str]] = []
    images: list[ArticleImage] = []
    level, heading, parts = 1, title, list[str]()

    def add(link: str, options: str) -> None:
        caption = _caption(options)
        if (one := _image(link, options, caption, len(parts_found))) is not None:
            images.append(one)
            losses.keep(one.caption)
        elif caption:
            losses.leave_out("captions of icons and other files", caption)

    words = _Words(title, spaces, losses, add)
    for node in code.nodes:
        if type(node).__name__ == "Heading":
            parts_found.append((level, heading, words.lines("".join(parts))))
            level, heading, parts = node.level, words.lines(words.of(node.title)).replace("\n", " "), []
        else:
            parts.append(words.of_node(node))
    parts_found.append((level, heading, words.lines("".join(parts))))
    sections, inside = list[tuple[str, str]](), 0
    for level, heading, text in parts_found:
        if inside and level > inside:
            losses.leave_out("sections below others that are left out", f"{heading}\n{text}")
            heading, text = "", ""
        else:
            inside = level if level > 1 and reading.dropped(heading) else 0
        sections.append((heading, text))
    box = _Infobox(reading.names.get("image"))
    for template in code.ifilter_templates(recursive=False):
        box.read(template, words)
    sections += as_sections(box.facts, losses) if box.facts else []
    main = box.main or box.other or next(iter(photos_first(one.url for one in images)), None)
    return Wikitext(sections, images, main)


class _Words:
    """Extracts the words of wikitext.

    Args:
        title: The page's title.
        spaces: The wiki's namespaces.
        losses: Counts what is left out.
        add: Called with the name and the options of each image.
    """

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
            return "" if _is_infobox(node) else self._template(node)
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
        return ""

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
        if colon and (space in self._spaces.files or _FOREIGN.fullmatch(target)):
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
            given.append(self.of(_parse(first)).strip())
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
                inside = space.strip().lower() in self._spaces.files or _FOREIGN.fullmatch(file.strip())
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
        content = node.contents if node.wiki_markup or node.contents is None else _parse(str(node.contents))
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


def _is_infobox(node: Any) -> bool:
    name = str(node.name).strip().lower()
    return "infobox" in name or name in ("taxobox", "speciesbox", "automatic taxobox", "chembox")


class _Infobox:
    """The facts and the image of a page's infoboxes.

    Args:
        image: The parameter that names the main image, if it is an unusual one.
    """

    def __init__(self, image: str | None) -> None:
        self.facts: list[tuple[str, str]] = []
        self.main: str | None = None
        self.other: str | None = None
        self._image = image

    def read(self, box: Any, words: _Words) -> None:
        """Adds an infobox, and those inside it; other templates are ignored."""
        if not _is_infobox(box):
            return
        for parameter in box.params:
            label = str(parameter.name).strip()
            file = _FILE.fullmatch(str(parameter.value).strip().partition("|")[0].rstrip("]"))
            shown = file[1].strip() if file and _IMAGE.search(file[1].strip()) else None
            inner = [one for one in parameter.value.ifilter_templates(recursive=False) if _is_infobox(one)]
            for one in inner:
                self.read(one, words)
            if label.lower() == self._image or (self._image is None and label.lower() in _MAIN):
                self.main = self.main or shown
            elif shown:  # a map or a flag, or the main image under an unusual name
                unusual = "image" in label.lower() and "map" not in label.lower() and self._image is None
                self.other = self.other or (shown if unusual else None)
            elif value := words.value(parameter.value):
                if inner or not _NO_FACT.fullmatch(label):
                    self.facts.append((label.replace("_", " ").capitalize(), value))
                else:
                    words.losses.leave_out("settings of infoboxes", value)


def _caption(options: str) -> str:
    """Returns the caption among the options of an image."""
    texts = [one.strip() for one in _split(options)]
    captions = [one for one in texts if not _OPTION.fullmatch(one) and not _SIZE.fullmatch(one)]
    words = _Words("", Namespaces(), Losses())
    return words.lines(words.of(_parse(captions[-1]))).replace("\n", " ") if captions and captions[-1] else ""


def _image(name: str, options: str, caption: str, section: int) -> ArticleImage | None:
    """Returns an image in the text, or `None` if it is an icon or not an image."""
    name = " ".join(name.replace("_", " ").split())
    if not _IMAGE.search(name) or ICON.search(name):
        return None
    sizes = filter(None, (_SIZE.fullmatch(option.strip()) for option in _split(options)))
    if any(max(int(side or 0) for side in size.groups()) < SMALLEST for size in sizes):
        return None
    return ArticleImage(name, section, caption)


def _split(options: str) -> Iterator[str]:
    """Yields the options of an image, which are separated by `|` outside of links and templates."""
    depth, part = 0, ""
    for token in re.split(r"(\[\[|\]\]|\{\{|\}\}|\|)", options):
        depth += (token in ("[[", "{{")) - (token in ("]]", "}}"))
        if token == "|" and depth == 0:
            yield part
            part = ""
        else:
            part += token
    yield part


def _parse(source: str) -> Any:
    parser = optional("mwparserfromhell", "mediawiki")
    try:
        return parser.parse(source, skip_style_tags=True)  # unclosed emphasis would turn a whole infobox into text
    except parser.parser.ParserError as error:
        raise ValueError(f"its wikitext cannot be parsed: {error}") from error
