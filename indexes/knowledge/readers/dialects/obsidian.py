"""Obsidian's and Logseq's wiki links, embedded images, comments, callouts and properties."""

from __future__ import annotations

import posixpath
import re
from html import escape

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.utils import EnvType

from indexes.image_paths import IMAGE_SUFFIXES
from indexes.knowledge.readers.dialects import label, rewrite
from indexes.knowledge.readers.dialects.embeds import note_name, notes_of

_LINK = re.compile(r"(!?)\[\[([^\[\]|\n]*)(?:\\?\|([^\[\]\n]*))?\]\]")
_REWRITTEN = (  # a comment; the type and title of a callout; a property on a line of its own
    r"^[ \t]*%%(?s:.*?)%%|%%(?:(?!\n[ \t]*\n)(?s:.))*?%%"
    r"|^(?P<quote>[ \t>]*>[ \t]*)\[![\w-]+(?:\|[^\]\n]*)?\][-+]?[ \t]*(?P<title>[^\n]*)$"
    r"|^(?P<lead>[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+(?:\[[ xX]\][ \t]+)?)?)(?P<bold>[*_]{0,3})"
    r"(?P<key>[^\W\d_](?:[\w /°%().-]{0,40}[\w)])?)(?:(?P=bold)::|::(?P=bold))(?:[ \t]+(?P<value>[^\n]*))?$"
)
_SETTINGS = re.compile(
    r"id|collapsed|heading|icon|public|template.*|exclude-.*|filters|query-.*|logseq\..*|background-color|hl-.*|ls-.*"
    r"|card-.*|cssclass(?:es)?|created.*|updated.*",
    re.IGNORECASE,
)


def plugin(md: MarkdownIt) -> None:
    """Reads `[[note|words]]` as its words, `![[a.jpg|caption]]` as an image, and properties as lines `Key: value`."""
    rewrite(md, _REWRITTEN, ("%%", "::", "[!"), _rewritten)
    md.inline.ruler.before("link", "wiki_link", _wiki_link)


def _rewritten(match: re.Match[str], env: EnvType) -> str:
    key, value = match["key"], (match["value"] or "").strip()
    if match["quote"]:
        return f"{match['quote']}{match['title']}{'<br>' if match['title'] else ''}"
    if not key:
        return label(env, "comments", match[0].strip(" \t%"))
    if not value or _SETTINGS.fullmatch(key):
        return label(env, "settings of notes", value) + str(match["lead"])
    if key.lower() in ("title", "alias", "aliases") and not match["lead"]:
        env["properties"][key.lower()] = value
        return ""
    return f"{match['lead']}<br>{key[:1].upper()}{key[1:].replace('-', ' ').replace('_', ' ')}: {value}  "


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
        size = re.fullmatch(r"(\d+)(?:x(\d+))?", words)
        sides = f'width="{size[1]}" height="{size[2] or ""}"' if size else f'alt="{escape(words)}"'
        state.push("html_inline", "", 0).content = f'<img src="{escape(path)}" {sides}>'
    state.pos = match.end()
    return True
