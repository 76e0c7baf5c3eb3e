"""Obsidian's wiki links, embedded images, comments and callouts."""

from __future__ import annotations

import posixpath
import re
from html import escape

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline

from indexes.knowledge.image_names import IMAGE_SUFFIXES
from indexes.knowledge.readers.dialects import label, rewrite
from indexes.knowledge.readers.dialects.transclusion import note_name, notes_of

_LINK = re.compile(r"(!?)\[\[([^\[\]|\n]*)(?:\\?\|([^\[\]\n]*))?\]\]")
_COMMENT = r"^[ \t]*%%(?s:.*?)%%|%%(?:(?!\n[ \t]*\n)(?s:.))*?%%"
_SIZE = re.compile(r"(\d+)(?:x(\d+))?")
_CALLOUT = re.compile(r"\A\[![\w-]+(?:\|[^\]\n]*)?\][-+]?[ \t]*")


def plugin(md: MarkdownIt) -> None:
    """Reads `[[note|words]]` as its words, `![[image.jpg|caption]]` as an image; comments are labeled."""
    rewrite(md, _COMMENT, ("%%",), lambda match, env: label(env, "comments", match[0].strip(" \t%")))
    md.inline.ruler.before("link", "wiki_link", _wiki_link)
    md.core.ruler.push("callouts", _callouts)


def _wiki_link(state: StateInline, silent: bool) -> bool:
    """Reads a link; if only the part after the bar names a note, as in GitHub wikis, it is `[[words|note]]`."""
    if (match := _LINK.match(state.src, state.pos)) is None:
        return False
    target, words = match[2].strip().rstrip("\\"), (match[3] or "").strip()
    if not silent and not match[1]:
        are_notes = ["://" in text or note_name(text) in notes_of(state.env["folder"]) for text in (target, words)]
        if words and target[:1] != "#" and are_notes == [False, True]:
            target, words = words, target
        target = posixpath.basename(target) if "://" in target else target  # a note in another vault
        state.push("text", "", 0).content = words or target.split("#")[0].strip() or target.lstrip("#")
    elif not silent:
        path = target if target.lower().endswith(IMAGE_SUFFIXES) else target.partition("#")[0].strip()
        size = _SIZE.fullmatch(words)
        sides = f'width="{size[1]}" height="{size[2] or ""}"' if size else f'alt="{escape(words)}"'
        state.push("html_inline", "", 0).content = f'<img src="{escape(path)}" {sides}>'
    state.pos = match.end()
    return True


def _callouts(state: StateCore) -> None:
    """Removes the type of a callout; its title stands on a line of its own."""
    for quotation, _, block in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        tokens = block.children or []
        if quotation.type == "blockquote_open" and tokens and (match := _CALLOUT.match(tokens[0].content)):
            tokens[0].content = tokens[0].content[match.end() :]
            for end in [token for token in tokens if token.type == "softbreak"][:1]:
                end.type, end.tag = "hardbreak", "br"
