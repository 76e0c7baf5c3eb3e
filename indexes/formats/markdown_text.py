"""Converts Markdown to plain text, headings and images with markdown-it-py, including Obsidian's additions."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from textwrap import dedent

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

from indexes.formats.images import SMALLEST
from indexes.formats.superscripts import END, START, write_superscripts
from indexes.images import IMAGE_SUFFIXES

Link = tuple[str, str]
"""The target of an image, and its caption."""

_WIKI_LINK = re.compile(r"(!?)\[\[([^\[\]|\n]*)(?:\\?\|([^\[\]\n]*))?\]\]")
_COMMENT = re.compile(r"%%.*?%%", re.DOTALL)
_FOOTNOTE = re.compile(r"\[\^[^\[\]\s]+\](:?)")
_SIZE = re.compile(r"\d+(?:x\d+)?")
_SPACED = re.compile(r"!\[([^\[\]\n]*)\]\(([^()\n]* [^()\n]*\.\w{3,4})\)")
"""An image whose file name has spaces, which CommonMark does not allow but notes contain."""
_MARKED = re.compile(r"==(\S(?:[^=\n]*\S)?)==")
_CALLOUT = re.compile(r"^\[!\w+\][-+]?[ \t]*")
_ATTRIBUTES = re.compile(r"\{:?\s*(?:[#.][^{}\n]*|[\w-]+=\"[^{}\n]*\"\s*)\}|\{:[^{}\n]*\}")
_CHECKBOX = re.compile(r"^\[[ xX/-]\](?=\s)", re.MULTILINE)
_BLOCK_ID = re.compile(r"(?:^|(?<=\s))\^[\w-]+$|\(\([0-9a-f]{8}-[0-9a-f-]{27}\)\)", re.MULTILINE)
"""The id of a block at the end of a line, or a reference to a Logseq block."""
_UNDEFINED = re.compile(
    r"(?<![\w\])])\[(?=[^\[\]\n]*[A-Za-z])([^\[\]\n]*)\]\[(?:(?=[^\]]{2})[\w:/#-]*[._\d][\w.:/#-]*)?\]"
)
"""A reference link that the text does not define, such as one to a name in a program."""
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])[ \t]+\S")
_TAGS = re.compile(r"\W*(?:tags?\s*:+\s*)?(?:#[\w/-]+[\s,;]*)+", re.IGNORECASE)
"""A line with only tags."""
_EMOJI = re.compile(r"(?<![\w:/]):[a-z+][a-z0-9_+-]*:(?![\w:])")
_BOLD = re.compile(r"\*\*(?=\S)([^*\n]+)(?<=\S)\*\*")
"""Emphasis that CommonMark does not recognize without spaces around it, as in Chinese and Japanese."""
_IN_HTML = re.compile(r"\]\(|\*\*\w|`")
_TAG = re.compile(r"\s*(?:</?[A-Za-z]|<!--)")
_CONTAINER = re.compile(
    r"<(/?)(?:article|aside|center|details|div|dl|figure|main|nav|ol|section|table|ul)\b[^<>]*>", re.IGNORECASE
)
"""The start or end tag of a container element. For CommonMark, HTML ends at an empty line, and indented lines after it
are code; for browsers and authors, it is one element."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; 1 is the highest level."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A paragraph, list item, table row or code block: its text without markup, and its images."""

    text: str
    images: tuple[Link, ...] = ()


def parse(text: str, notes: frozenset[str] = frozenset()) -> list[Piece | Heading]:
    """Returns the parts of a Markdown text, in order.

    Args:
        text: The text, without front matter.
        notes: The names of notes that wiki links may lead to, by `note_name`.
    """
    pieces: list[Piece | Heading] = []
    level, row, inside = 0, -1, 0
    cells: list[str] = []
    for token in _parser().parse(text, {"notes": notes}):
        if token.type == "heading_open":
            level = int(token.tag[1])
        elif token.type == "heading_close":
            level = 0
        elif token.type == "code_block" and _ITEM.match(token.content):  # an indented list
            pieces += parse(dedent(token.content), notes)
        elif token.type == "html_block" or (token.type == "code_block" and inside > 0 and _TAG.match(token.content)):
            inside += sum(-1 if end else 1 for end in _CONTAINER.findall(token.content))
            pieces += _html_and_markdown(token.content, notes)
        elif token.type in ("fence", "code_block"):
            pieces.append(Piece(token.content.strip("\n")))
        elif token.type == "tr_open":
            cells, row = [], len(pieces)
        elif token.type == "tr_close":
            pieces.insert(row, Piece(" | ".join(filter(None, cells))))
            row = -1
        elif token.type == "inline":
            words, images = _inline(token.children or ())
            if row >= 0:
                cells.append(words)
                pieces += [Piece("", images)] if images else []
            elif level:
                pieces.append(Heading(level, " ".join(words.split())))
                pieces += [Piece("", images)] if images else []
            elif words or images:
                pieces.append(Piece(words, images))
    return [piece for piece in pieces if piece.text or (isinstance(piece, Piece) and piece.images)]


def _inline(tokens: Iterable[Token]) -> tuple[str, tuple[Link, ...]]:
    """Returns the words of a paragraph, and its images."""
    html = _Html()
    for token in tokens:
        if token.type == "image":
            html.images.append((str(token.attrs["src"]), " ".join(_words(token.children or ()).split())))
        elif token.type == "embed":
            html.images.append((token.content, token.info))
        elif token.type == "html_inline":
            html.feed(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            html.handle_data("\n" if token.type == "hardbreak" else " ")
        elif token.type == "text":
            html.handle_data(_BOLD.sub(r"\1", _EMOJI.sub("", token.content)))
        else:
            html.handle_data(token.content)
    html.end_piece()
    text = "\n".join(piece.text for piece in html.pieces)
    images = [image for piece in html.pieces if isinstance(piece, Piece) for image in piece.images]
    if (note := _FOOTNOTE.match(text)) and note[1]:  # the footnote itself
        return "", tuple(images)
    images += [(target.strip(), caption) for caption, target in _SPACED.findall(text)]
    for pattern in (_SPACED, _FOOTNOTE, _ATTRIBUTES, _CALLOUT, _CHECKBOX, _BLOCK_ID):
        text = pattern.sub("", text)
    text = _UNDEFINED.sub(r"\1", _MARKED.sub(r"\1", text))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line and not _TAGS.fullmatch(line)), tuple(images)


def _words(tokens: Iterable[Token]) -> str:
    return "".join("\n" if token.type.endswith("break") else token.content for token in tokens)


def plain_html(content: str) -> str:
    """Returns the text of HTML: a line per paragraph, and `== heading ==` for a heading."""
    pieces = _html(content)
    return "\n".join(f"== {one.text} ==" if isinstance(one, Heading) else one.text for one in pieces if one.text)


def _html_and_markdown(content: str, notes: frozenset[str]) -> Iterator[Piece | Heading]:
    """Yields the parts of an HTML block; site generators also read Markdown in it."""
    for piece in _html(content):
        if isinstance(piece, Piece) and _IN_HTML.search(piece.text):
            yield from parse(piece.text, notes)
            yield Piece("", piece.images)
        else:
            yield piece


def _html(content: str) -> list[Piece | Heading]:
    html = _Html()
    html.feed(content)
    html.close()
    html.end_piece()
    return html.pieces


class _Html(HTMLParser):
    """Collects the words and images of HTML in Markdown; tags, comments, scripts and styles are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.images: list[Link] = []
        self.pieces: list[Piece | Heading] = []
        self._hidden = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "img":
            source = given.get("src") or given.get("data-src")
            if source and not _is_icon(given.get("width") or given.get("height") or ""):
                self.images.append((source, " ".join((given.get("alt") or "").split())))
        elif tag in ("script", "style"):
            self._hidden = tag
        elif tag == "br":
            self.text.append("\n")
        elif tag == "sup":
            self.text.append(START)
        elif tag == "a" and self.text[-1:] == [START] and (given.get("href") or "").startswith("#"):  # to a footnote
            self._hidden = tag
        elif tag in _BLOCKS:
            self.end_piece()

    def handle_endtag(self, tag: str) -> None:
        if tag == self._hidden:
            self._hidden = ""
        elif tag == "sup":
            self.text.append(END)
        elif re.fullmatch("h[1-6]", tag):
            words = " ".join(self._words().split())
            self.text = []
            images, self.images = self.images, []
            self.pieces += [Heading(int(tag[1]), words)] if words else []
            self.pieces += [Piece("", tuple(images))] if images else []
        elif tag in _BLOCKS:
            self.end_piece()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text.append(data)

    def end_piece(self) -> None:
        """Ends a paragraph."""
        lines = (" ".join(line.split()) for line in self._words().splitlines())
        words = "\n".join(filter(None, lines))
        if words or self.images:
            self.pieces.append(Piece(words, tuple(self.images)))
        self.text, self.images = [], []

    def _words(self) -> str:
        return write_superscripts("".join(self.text))


_BLOCKS = frozenset(
    {"p", "div", "li", "ul", "ol", "table", "tr", "td", "th", "section", "details", "summary", "blockquote", "figure"}
    | {"figcaption", "center", "h1", "h2", "h3", "h4", "h5", "h6", "dl", "dt", "dd", "pre", "hr"}
)


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.inline.ruler.before("link", "obsidian", _obsidian)
    parser.inline.ruler.before("link", "comment", _comment)
    parser.inline.add_terminator_char("%")
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]  # targets are file names, not to be encoded
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # nothing is opened
    return parser


def _obsidian(state: StateInline, silent: bool) -> bool:
    """Reads `[[note|words]]` as its words and `![[image.jpg|caption]]` as an image; embedded notes are left out.

    If only the part after the bar names a note, as in GitHub wikis and Dendron, the link is read as `[[words|note]]`.
    """
    found = _WIKI_LINK.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        target, words = found[2].strip(), (found[3] or "").strip()
        if words and target[:1] != "#" and _is_note(words, state.env) and not _is_note(target, state.env):
            target, words = words, target
        if "://" in target and not found[1]:  # a note in another vault
            target = posixpath.basename(target)
        if not found[1]:
            state.push("text", "", 0).content = words or target.split("#")[0].strip() or target.lstrip("#")
        elif target.split("#")[0].strip().lower().endswith(IMAGE_SUFFIXES) and not _is_icon(words):
            token = state.push("embed", "", 0)
            token.content = target.split("#")[0].strip()
            token.info = "" if _SIZE.fullmatch(words) else words
    state.pos = found.end()
    return True


def _is_note(target: str, env: EnvType) -> bool:
    return "://" in target or note_name(target) in env.get("notes", ())


def note_name(target: str) -> str:
    """Returns the normalized name of a note that a link refers to, without folder and extension."""
    name = posixpath.basename(target.split("#")[0].strip()).removesuffix(".md")
    return re.sub(r"[\s_-]+", "-", name).casefold()


def _is_icon(size: str) -> bool:
    """Returns whether a size such as `20`, `20px` or `20x20` is that of an icon."""
    found = re.match(r"\d+(?=$|px|x)", size)
    return found is not None and int(found[0]) < SMALLEST


def _comment(state: StateInline, silent: bool) -> bool:
    """Skips Obsidian's `%%comments%%`."""
    found = _COMMENT.match(state.src, state.pos)
    if found is None:
        return False
    state.pos = found.end()
    return True
