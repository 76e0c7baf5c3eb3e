"""Converts wikitext to plain text with mwparserfromhell: sections, images, and the facts of infoboxes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from indexes.extras import optional
from indexes.formats.images import ICON, SMALLEST, photos_first
from indexes.formats.superscripts import END, START, write_superscripts
from indexes.sections import DROPPED, FACTS, title_rule
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
_DROPPED_TAGS = frozenset(
    {"ref", "references", "gallery", "math", "table", "timeline", "score", "syntaxhighlight", "source", "imagemap"}
    | {"style", "templatestyles", "section", "hiero", "includeonly", "noinclude"}
)
_WORDS = frozenset(
    {"nowrap", "nobr", "small", "big", "abbr", "sc", "smallcaps", "nihongo", "as of", "em", "strong", "linktext", "url"}
    | {"center", "nbsp", "sub", "-", "plainlist", "flatlist", "hlist", "ubl", "unbulleted list", "cslist", "no wrap"}
)
"""Templates whose values are words of the text."""
_DATE = re.compile(r"(?:birth|death|start|end|film|opening)[ -]?(?:date|year).*|date|dob|bda", re.IGNORECASE)
_MAIN = frozenset({"image", "image_name", "photo", "picture", "logo", "cover", "image_file", "image_skyline", "img"})
"""Parameters of an infobox that name its image."""
_NO_FACT = re.compile(
    r"(?:image|img|photo|picture|logo|cover|map|pushpin|embed|module|child|class|name|title|website|url|flag|signature"
    r"|coord\w*|lat|long|label|caption|alt|width|size|bg|background)(?:[_ ].*|\d*)|.*(?:image|caption|alt|size|width"
    r"|map|colou?r|footnotes?|ref|style)\d*|\d+",
    re.IGNORECASE,
)
"""Parameters of an infobox that control its appearance or repeat the article."""
_LONGEST_FACT = 300
_REFERENCE = re.compile(r"<ref\b[^<>]*/>|<ref\b.*?</ref\s*>", re.IGNORECASE | re.DOTALL)
"""References; the parser misses those that are nested in other markup or malformed."""
_MARKUP = re.compile(
    r"^(?:\{\||\|\}|\||\{\{|\}\}).*$|</?(?:div|center|span|small|big|font)\b[^<>]*>"
    r"|__[A-Z]+__|[ \t]*\([\s,;:]*\)",
    re.MULTILINE,
)
"""Leftover markup: unclosed tables and templates, tags without a start, switches, and brackets around removed
templates."""
_EMPHASIS = re.compile(r"(?:'{5}|'{2,3})(?!')")
"""Emphasis marks; the first of four apostrophes is an apostrophe."""
_FOREIGN = re.compile(rf"[^\s:\[\]|{{}}/]{{2,}}:[^:/\s][^:/]*{_SUFFIX}", re.IGNORECASE)
"""A link to an image in a namespace that the wiki does not declare, such as that of another language."""
_CATEGORIES = re.compile(
    rf"^(?:[ \t]*\[\[(?!{_FOREIGN.pattern}\s*[|\]])[^\s:\[\]|{{}}/]+:[^\s\[\]:|][^\[\]]*\]\])+[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line with only links into other namespaces: categories, in any language, and other languages."""
_LISTS = title_rule(DROPPED)


class Wikitext(NamedTuple):
    """The content of a page: (title, text) of each section, images by file name, and which is the main one."""

    sections: list[tuple[str, str]]
    images: list[ArticleImage]
    main: str | None


class Namespaces(NamedTuple):
    """Names of namespaces in lower case: for files, and those whose links are not part of the text."""

    files: frozenset[str] = frozenset({"file", "image"})
    dropped: frozenset[str] = frozenset({"category"})


def read_wikitext(source: str, title: str, spaces: Namespaces, image: str | None = None) -> Wikitext:
    """Returns the article in a page's wikitext.

    Templates, references, tables and categories are left out; infoboxes become the last section, "Facts".

    Args:
        source: The wikitext.
        title: The page's title, used for the text before the first heading.
        spaces: The wiki's namespaces.
        image: The infobox parameter that names the main image, if it is an unusual one.

    Raises:
        ValueError: mwparserfromhell is not installed.
    """
    code = _parse(_CATEGORIES.sub("", _REFERENCE.sub("", source)))
    found: list[tuple[int, str, str]] = []
    images: list[ArticleImage] = []
    level, heading, parts = 1, title, list[str]()

    def add(link: str, options: str) -> None:
        if (one := _image(link, options, len(found))) is not None:
            images.append(one)

    words = _Words(spaces, add)
    for node in code.nodes:
        if type(node).__name__ == "Heading":
            found.append((level, heading, _lines("".join(parts))))
            level, heading, parts = node.level, _lines(words.of(node.title)).replace("\n", " "), []
        else:
            parts.append(words.of_node(node))
    found.append((level, heading, _lines("".join(parts))))
    sections, inside = [], 0
    for level, heading, text in found:  # subsections of a section to be dropped ("References") get no text
        below = inside and level > inside
        if not below:
            inside = level if level > 1 and _LISTS(heading) else 0
        sections.append((heading, "" if below else text))
    facts, main = _infoboxes(code, spaces, image)
    if facts:
        sections.append((FACTS, "\n".join(facts)))
    return Wikitext(sections, images, main or next(iter(photos_first(one.url for one in images)), None))


class _Words:
    """Extracts the words of wikitext.

    Args:
        spaces: The wiki's namespaces.
        add: Called with the name and the options of each image.
        facts: Whether the wikitext is a value of an infobox, in which dates and lists are templates.
    """

    def __init__(self, spaces: Namespaces, add: Callable[[str, str], None] | None = None, facts: bool = False) -> None:
        self._spaces, self._add, self._facts = spaces, add, facts

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
            return self._template(str(node.name).strip().lower(), node)
        return self._tag(str(node.tag).strip().lower(), node) if kind == "Tag" else ""

    def _link(self, node: Any) -> str:
        target = str(node.title).strip()
        space, colon, name = target.partition(":")
        space = space.strip().lower()
        if colon and (space in self._spaces.files or _FOREIGN.fullmatch(target)):
            if self._add is not None:
                self._add(name, "" if node.text is None else str(node.text))
            return ""
        if colon and (space in self._spaces.dropped or (node.text is None and _LANGUAGE.fullmatch(space))):
            return ""
        return self.of(node.text) if node.text is not None else target.removeprefix(":")

    def _template(self, name: str, node: Any) -> str:
        given = [one.value for one in node.params if not one.showkey]
        if name in ("convert", "cvt"):
            return " ".join(" ".join(self.of(one).split()) for one in given[:2])
        if name == "sup":
            return f"{START}{''.join(map(self.of, given))}{END}"
        if name == "lang":  # {{lang|de|Text}}
            return self.of(given[1]) if len(given) > 1 else ""
        if name.startswith("lang-"):  # {{lang-de|Text}}
            return self.of(given[0]) if given else ""
        if self._facts and _DATE.fullmatch(name):
            numbers = [text for one in given if (text := self.of(one).strip())]
            digits = [number.zfill(2) for number in numbers[:3] if number.isdigit()]
            return "-".join(digits) or " ".join(numbers[:1])
        if name in _WORDS:
            return ("\n" if self._facts else " ").join(map(self.of, given))
        return ""

    def _tag(self, name: str, node: Any) -> str:
        if name == "gallery" and self._add is not None:
            for line in str(node.contents or "").splitlines():
                file, _, caption = line.partition("|")
                space, _, rest = file.partition(":")
                inside = space.strip().lower() in self._spaces.files or _FOREIGN.fullmatch(file.strip())
                self._add(rest if inside else file, caption)
        if name in _DROPPED_TAGS:
            return ""
        if node.wiki_markup in ("*", "#", ";", ":"):
            return ""
        if name == "sup":
            return f"{START}{self.of(node.contents)}{END}"
        start = "\n" if name in ("br", "hr", "p", "div", "li", "dd", "dt", "blockquote") else ""
        return f"{start}{self.of(node.contents)}{start}"


def _infoboxes(code: Any, spaces: Namespaces, image: str | None) -> tuple[list[str], str | None]:
    """Returns lines `label: value` of a page's infoboxes, and the image file that they show."""
    facts: list[str] = []
    main = other = None
    words = _Words(spaces, facts=True)
    for box in code.ifilter_templates(recursive=False):
        name = str(box.name).strip().lower()
        if "infobox" not in name and name not in ("taxobox", "speciesbox", "automatic taxobox", "chembox"):
            continue
        for parameter in box.params:
            label = str(parameter.name).strip()
            file = _FILE.fullmatch(str(parameter.value).strip().partition("|")[0].rstrip("]"))
            shown = file[1].strip() if file and _IMAGE.search(file[1].strip()) else None
            if label.lower() == image or (image is None and label.lower() in _MAIN):
                main = main or shown
            elif shown:  # a map or a flag, or the main image under an unusual name
                unusual = "image" in label.lower() and "map" not in label.lower() and image is None
                other = other or (shown if unusual else None)
            elif not _NO_FACT.fullmatch(label):
                lines = _lines(words.of(parameter.value)).splitlines()
                value = ", ".join(line.strip(" ,") for line in lines)
                if value and len(value) <= _LONGEST_FACT:
                    facts.append(f"{label.replace('_', ' ').capitalize()}: {value}")
    return facts, main or other


def _image(name: str, options: str, section: int) -> ArticleImage | None:
    """Returns an image in the text, or `None` if it is an icon or not an image."""
    name = " ".join(name.replace("_", " ").split())
    if not _IMAGE.search(name) or ICON.search(name):
        return None
    caption = ""
    for option in map(str.strip, _split(options)):
        if (size := _SIZE.fullmatch(option)) is not None:
            if max(int(side or 0) for side in size.groups()) < SMALLEST:
                return None
        elif not _OPTION.fullmatch(option):
            caption = option
    return ArticleImage(name, section, _lines(_Words(Namespaces()).of(_parse(caption))).replace("\n", " "))


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


def _lines(text: str) -> str:
    """Returns text without leftover markup, one line per paragraph."""
    lines = (" ".join(line.split()) for line in _MARKUP.sub("", write_superscripts(text)).splitlines())
    return "\n".join(line for line in lines if line.strip(" .,;:-\u2013|"))


def _parse(source: str) -> Any:
    parser = optional("mwparserfromhell", "mediawiki")
    try:
        return parser.parse(source, skip_style_tags=True)  # unclosed emphasis would turn a whole infobox into text
    except parser.parser.ParserError as error:
        raise ValueError(f"its wikitext cannot be parsed: {error}") from error
