"""Converts Markdown to plain text, headings and images with markdown-it-py, including Obsidian's additions."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
from textwrap import dedent

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

from indexes.knowledge.formats.html_text import Heading, Piece, read_html
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.markdown_blocks import DRAWN
from indexes.knowledge.formats.page_images import SMALLEST
from indexes.knowledge.formats.tables import END, START
from indexes.knowledge.image_names import IMAGE_SUFFIXES

_WIKI_LINK = re.compile(r"(!?)\[\[([^\[\]|\n]*)(?:\\?\|([^\[\]\n]*))?\]\]")
_COMMENT = re.compile(r"%%.*?%%", re.DOTALL)
_SIZE = re.compile(r"\d+(?:x\d+)?")
_ATTRIBUTE = r"[\w-]+=(?:\"[^\"{}\n]*\"|[^\s\"{}]+)"
_ATTRIBUTES = (
    r"\{:?\s*(?:[#.][\w-][^{}\n]*" + rf"|{_ATTRIBUTE}(?:\s+(?:{_ATTRIBUTE}|[#.][\w-]+))*\s*)" + r"\}|\{:[^{}\n]*\}"
)
_SUB = re.compile(r"(?<=[\w)\]])~(?!~)((?:[^\s~\\]|\\ ){1,20})~(?!~)")
_SUP = re.compile(r"(?<=[\w)\]])\^(?![\[\^])((?:[^\s^\\]|\\ ){1,20})\^(?!\^)")
"""Subscripts and superscripts, as in Pandoc: H~2~O, x^2^."""
_FORMAT = re.compile(r"\{=(\w+)\}")  # the format of code that is shown only in pages of that format, as in Pandoc
_LANGUAGE = re.compile(r"\A(?:#!|:::)[\w+-]+ ")  # of code within a line, as in MkDocs
_QUERY = re.compile(r"\$?=\s*[\w(]")  # a query of Dataview within a line
_RAW = re.compile(r"<(/?)(script|style|title|textarea|xmp|iframe|noembed|noframes|plaintext)\b[^<>]*>", re.IGNORECASE)
_CLOSED = re.compile(
    r"<(script|style|title|textarea|xmp|iframe|noembed|noframes)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL
)
"""Elements whose content is not HTML."""
_HTML_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
_ANY_TAG = re.compile(r"(<[^<>]*>)")
_CALLOUT = re.compile(r"\A\[![\w-]+\][-+]?[ \t]*")
_MARKS = {
    "footnote": r"\[\^[^\[\]\s]+\]",
    "callout": _CALLOUT.pattern,
    "checkbox": r"^\[[ xX/-]\](?=\s)",
    "id of a block at the end of a line, or a reference to a Logseq block": (
        r"(?:^|(?<=\s))\^[\w-]+$|\(\([0-9a-f]{8}-[0-9a-f-]{27}\)\)"
    ),
    "span with attributes, as in Pandoc": rf"\[([^\[\]\n]+)\](?={_ATTRIBUTES})",
    "attributes": _ATTRIBUTES,
    "highlight": r"==(\S(?:[^=\n]*\S)?)==",
    "reference link that the text does not define, such as one to a name in a program": (
        r"(?<![\w\])])\[(?=[^\[\]\n]*[A-Za-z])([^\[\]\n]*)\]\[(?:(?=[^\]]{2})[\w:/#-]*[._\d][\w.:/#-]*)?\]"
    ),
}
"""Marks that CommonMark does not know, removed in this order; the words in the first group of a pattern are kept."""
_MARK_PATTERNS = tuple(re.compile(pattern, re.MULTILINE) for pattern in _MARKS.values())
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])[ \t]+\S")
_TAGS = re.compile(r"\W*(?:tags?\s*:+\s*)?(?:#[\w/-]+[\s,;]*)+", re.IGNORECASE)  # a line with only tags
_EMOJI = re.compile(r"(?<![\w:/]):[a-z+][a-z0-9_+-]*:(?![\w:])")
_BOLD = re.compile(r"\*\*(?=\S)([^*\n]+)(?<=\S)\*\*")
"""Emphasis that CommonMark does not recognize without spaces around it, as in Chinese and Japanese."""
_IN_HTML = re.compile(r"\]\(|\*\*\w|`")
_NESTED = re.compile(r"#([\w/-]+)/([\w-]+)")  # a tag that says what it is: `#place/lisbon`
_TAG = re.compile(r"\s*(?:</?[A-Za-z]|<!--)")
_CONTAINER = re.compile(
    r"<(/?)(?:article|aside|center|details|div|dl|figure|main|nav|ol|section|table|ul)\b[^<>]*>", re.IGNORECASE
)
"""The start or end tag of a container element. For CommonMark, HTML ends at an empty line, and indented lines after it
are code; for browsers and authors, it is one element."""


def parse(
    text: str, losses: Losses, notes: frozenset[str] = frozenset(), indented_code: bool = True
) -> list[Heading | Piece]:
    """Returns the parts of a Markdown text, in order. Wiki links may lead to `notes`, by `note_name`.

    Without `indented_code`, as in MDX, indented lines are text.
    """
    parser, env = _parser(indented_code), {"notes": notes, "losses": losses}
    tokens = list(_as_pages_show(parser.parse(text, env), env, losses))
    pieces = read_html(parser.renderer.render(tokens, parser.options, env), losses)
    return [
        one
        for one in (_cleaned(piece, losses) for piece in pieces)
        if isinstance(one, Heading) or one.text or one.images
    ]


def _as_pages_show(tokens: Iterable[Token], env: EnvType, losses: Losses) -> Iterator[Token]:
    """Yields the tokens with HTML and lists where CommonMark sees code, without code of drawings and queries."""
    inside = 0
    for token in tokens:
        is_html = token.type == "html_block"
        if token.type == "code_block" and _ITEM.match(token.content):  # an indented list
            yield from _as_pages_show(_parser().parse(dedent(token.content), env), env, losses)
        elif is_html or (token.type == "code_block" and inside > 0 and _TAG.match(token.content)):
            inside += sum(-1 if end else 1 for end in _CONTAINER.findall(token.content))
            _count_comments(token.content, losses)
            token.type, token.content = "html_block", _with_markdown(token.content, env)
            yield token
        elif token.type == "fence" and (raw := _FORMAT.fullmatch(token.info.strip())) is not None:
            is_html = raw[1].startswith("html")
            losses.leave_out("code that pages hide", "" if is_html else token.content)
            token.type, token.content = "html_block", token.content if is_html else ""
            yield token
        elif token.type == "fence" and token.info.strip("{} ").split(" ")[0].lower() in DRAWN:
            losses.leave_out("code of drawings and queries", token.content)
        else:
            token.children = _words_of(token.children or [], losses)
            yield token


def _words_of(tokens: list[Token], losses: Losses) -> list[Token]:
    """Returns the tokens of a paragraph as pages show them."""
    found, hidden = [], ""
    raw = (_RAW.match(token.content) for token in tokens if token.type == "html_inline")
    ends = {tag[2].lower() for tag in raw if tag is not None and tag[1]}
    is_titled = bool(tokens) and _CALLOUT.match(tokens[0].content) is not None
    for token in tokens:
        if is_titled and token.type == "softbreak":  # the title stands on a line of its own
            token.type, token.tag, is_titled = "hardbreak", "br", False
        if token.type == "html_inline":
            _count_comments(token.content, losses)
            if (tag := _RAW.match(token.content)) is not None and (hidden or tag[2].lower() in ends):
                hidden = "" if tag[1] else tag[2]
                continue
        elif token.type == "text":
            token.content = _SUB.sub(_unescaped, _BOLD.sub(r"\1", _EMOJI.sub("", token.content)))
            token.content = _SUP.sub(lambda found: f"{START}{_unescaped(found)}{END}", token.content)
        elif token.type == "code_inline" and _QUERY.match(token.content):
            losses.leave_out("code of drawings and queries", token.content)
            continue
        elif token.type == "code_inline":
            token.content = _LANGUAGE.sub("", token.content)
        if not hidden:
            found.append(token)
    return found


def _unescaped(found: re.Match[str]) -> str:
    return found[1].replace("\\ ", " ")


def _count_comments(html: str, losses: Losses) -> None:
    for comment in _HTML_COMMENT.findall(html):
        losses.leave_out("comments", comment)


def _with_markdown(html: str, env: EnvType) -> str:
    """Returns an HTML block with the Markdown in it as HTML, as site generators read it."""
    if _RAW.search(html) and not _CLOSED.search(html):
        # or the rest of the page would be part of it
        html = _RAW.sub(lambda tag: "" if tag[1] or "=" in tag[0] else escape(tag[0]), html)
    if not _IN_HTML.search(html):
        return html
    parts = _ANY_TAG.split(html)
    return "".join(
        _as_html(part, env) if n % 2 == 0 and _IN_HTML.search(part) else part for n, part in enumerate(parts)
    )


def _as_html(text: str, env: EnvType) -> str:
    text = dedent(text)
    return str(_parser().render(text, env) if "\n" in text.strip() else _parser().renderInline(text.strip(), env))


def _cleaned(piece: Heading | Piece, losses: Losses) -> Heading | Piece:
    """Returns a part without markup that CommonMark does not know."""
    if isinstance(piece, Heading):
        return Heading(piece.level, " ".join(_without_marks(piece.text).split()).removesuffix("{-}").rstrip())
    if piece.is_code:
        return piece
    lines = (" ".join(line.split()) for line in _without_marks(piece.text).splitlines())
    kept = list[str]()
    for line in filter(None, lines):
        if not _TAGS.fullmatch(line):
            kept.append(line)
            continue
        if _NESTED.sub("", line).count("#"):
            losses.leave_out("lines of tags", line)
        else:
            kept.append("; ".join(f"{tag[1].replace('/', ': ')}: {tag[2]}" for tag in _NESTED.finditer(line)))
    return Piece("\n".join(kept), piece.images, piece.is_links)


def _without_marks(text: str) -> str:
    for pattern in _MARK_PATTERNS:
        text = pattern.sub(r"\1" if pattern.groups else "", text)
    return text


@cache
def _parser(indented_code: bool = True) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    if not indented_code:
        parser.disable("code")
    parser.inline.ruler.before("link", "obsidian", _obsidian)
    parser.inline.ruler.before("link", "loose_image", loose_image)
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
        elif (source := _image_in(target)) and not is_icon(words):
            caption = "" if _SIZE.fullmatch(words) else words
            state.push("html_inline", "", 0).content = f'<img src="{escape(source)}" alt="{escape(caption)}">'
    state.pos = found.end()
    return True


def _image_in(target: str) -> str:
    """Returns the image that a wiki link embeds, which may have `#` in its name, "" if it embeds a note."""
    paths = (target, target.partition("#")[0].strip())
    return next((path for path in paths if path.lower().endswith(IMAGE_SUFFIXES)), "")


def _is_note(target: str, env: EnvType) -> bool:
    return "://" in target or note_name(target) in env.get("notes", ())


def note_name(target: str) -> str:
    """Returns the normalized name of a note that a link refers to, without folder and extension."""
    name = posixpath.basename(target.split("#")[0].strip()).removesuffix(".md")
    return re.sub(r"[\s_-]+", "-", name).casefold()


def is_icon(size: str) -> bool:
    """Returns whether a size such as `20`, `20px` or `20x20` is that of an icon."""
    found = re.match(r"\d+(?=$|px|x)", size)
    return found is not None and int(found[0]) < SMALLEST


def _comment(state: StateInline, silent: bool) -> bool:
    """Skips Obsidian's `%%comments%%`."""
    found = _COMMENT.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.env["losses"].leave_out("comments", found[0].strip("%"))
    state.pos = found.end()
    return True


_START = re.compile(r"!\[((?:[^\[\]\\\n]|\\.|\[[^\[\]\n]*\])*)\]\(")
_LINK = re.compile(
    r"\s*(?P<target><[^<>\n]+>|[^\s\"'](?:.*?\S)??)"
    r"(?:\s+(?:\"(?P<title>[^\"\n]*)\"|'[^'\n]*'))?(?:\s+=(?P<width>\d*)x(?P<height>\d*))?\s*"
)
"""A target, perhaps with a title, and perhaps with a size, as of some note apps."""
_LONGEST = 2000


def loose_image(state: StateInline, silent: bool) -> bool:
    """Reads `![caption](a (1).png "title" =300x200)` as an image; a rule of markdown-it."""
    found = _START.match(state.src, state.pos)
    if found is None:
        return False
    end = _closing(state.src, found.end())
    link = _LINK.fullmatch(state.src[found.end() : end]) if end else None
    if link is None:
        return False
    target = link["target"].strip("<>").strip()
    sized = link["width"] is not None
    if not (sized or (" " in target and target.lower().endswith(IMAGE_SUFFIXES))):
        return False  # an image of CommonMark, or none
    if not silent:
        sizes = "".join(f' {side}="{link[side]}"' for side in ("width", "height") if link[side])
        state.push("html_inline", "", 0).content = f'<img src="{escape(target)}" alt="{escape(found[1])}"{sizes}>'
    state.pos = end + 1
    return True


def _closing(text: str, start: int) -> int:
    """Returns the position of the parenthesis that closes the one before `start`, on the same line, or 0."""
    depth = 1
    for place in range(start, min(len(text), start + _LONGEST)):
        if text[place] == "\n":
            return 0
        depth += (text[place] == "(") - (text[place] == ")")
        if not depth:
            return place
    return 0
