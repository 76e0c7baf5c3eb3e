"""Converts wikitext to plain text with mwparserfromhell: sections, images, and the facts of infoboxes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from indexes.knowledge.formats.facts import as_sections
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.outline import without_below
from indexes.knowledge.formats.page_images import ICON, SMALLEST, photos_first
from indexes.knowledge.formats.reading import Reading
from indexes.knowledge.formats.wiki_words import FOREIGN, SUFFIX, Namespaces, WikiWords, is_infobox, parse_wikitext
from retriever.types import ArticleImage

_IMAGE = re.compile(rf"{SUFFIX}$", re.IGNORECASE)
_OPTION = re.compile(
    r"(?:upright|lang|link|alt|page|class|thumb|thumbnail)\s*=.*|upright|thumb|thumbnail|frame|framed|frameless|border"
    r"|left|right|center|none|baseline|sub|super|top|text-top|middle|bottom|text-bottom|mini",
    re.IGNORECASE | re.DOTALL,
)
"""An option of an image that is not its caption."""
_SIZE = re.compile(r"(\d*)(?:x(\d+))?\s*px", re.IGNORECASE)
_FILE = re.compile(r"(?:\[\[)?(?:[^:\[\]|{}]+:)?\s*([^\[\]|<>{}\n]+\.\w{3,4})")
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
_CATEGORIES = re.compile(
    rf"^(?:[ \t]*\[\[(?!{FOREIGN.pattern}\s*[|\]])[^\s:\[\]|{{}}/]+:[^\s\[\]:|][^\[\]]*\]\])+[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A line with only links into other namespaces: categories, in any language, and other languages."""


class Wikitext(NamedTuple):
    """The content of a page: (title, text) of each section, images by file name, and which is the main one."""

    sections: list[tuple[str, str]]
    images: list[ArticleImage]
    main: str | None


def read_wikitext(source: str, title: str, spaces: Namespaces, reading: Reading) -> Wikitext:
    """Returns the article in a page's wikitext.

    References and categories are left out, and so are templates whose words are unknown; infoboxes become the last
    sections: "Facts", and long values under their names. The names in `reading` may have the parameter of infoboxes
    that names the main image.

    Raises:
        ValueError: mwparserfromhell is not installed.
    """
    losses = reading.losses
    for reason, pattern in (("footnote marks and references", _REFERENCE), ("categories and languages", _CATEGORIES)):
        for found in pattern.finditer(source):
            losses.leave_out(reason, found[0])
        source = pattern.sub("", source)
    code = parse_wikitext(source)
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

    words = WikiWords(title, spaces, losses, add)
    for node in code.nodes:
        if type(node).__name__ == "Heading":
            parts_found.append((level, heading, words.lines("".join(parts))))
            level, heading, parts = node.level, words.lines(words.of(node.title)).replace("\n", " "), []
        else:
            parts.append(words.of_node(node))
    parts_found.append((level, heading, words.lines("".join(parts))))
    sections = list(without_below(parts_found, reading.dropped, losses))
    box = _Infobox(reading.names.get("image"))
    for template in code.ifilter_templates(recursive=False):
        box.read(template, words)
    sections += as_sections(box.facts, losses) if box.facts else []
    main = box.main or box.other or next(iter(photos_first(one.url for one in images)), None)
    return Wikitext(sections, images, main)


class _Infobox:
    """The facts and the image of a page's infoboxes.

    An unusual parameter that names the main image is given as `image`.
    """

    def __init__(self, image: str | None) -> None:
        self.facts: list[tuple[str, str]] = []
        self.main: str | None = None
        self.other: str | None = None
        self._image = image

    def read(self, box: Any, words: WikiWords) -> None:
        """Adds an infobox, and those inside it; other templates are ignored."""
        if not is_infobox(box):
            return
        for parameter in box.params:
            label = str(parameter.name).strip()
            file = _FILE.fullmatch(str(parameter.value).strip().partition("|")[0].rstrip("]"))
            shown = file[1].strip() if file and _IMAGE.search(file[1].strip()) else None
            inner = [one for one in parameter.value.ifilter_templates(recursive=False) if is_infobox(one)]
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
    words = WikiWords("", Namespaces(), Losses())
    return words.lines(words.of(parse_wikitext(captions[-1]))).replace("\n", " ") if captions and captions[-1] else ""


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
