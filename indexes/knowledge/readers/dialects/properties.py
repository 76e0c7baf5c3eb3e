"""Properties of notes, as in Logseq and Obsidian's Dataview: lines `key:: value`, and `(key:: value)` in a text."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.utils import EnvType

from indexes.knowledge.readers.dialects import label, rewrite

_LINE = (
    r"^(?P<lead>[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+(?:\[[ xX]\][ \t]+)?)?)(?P<bold>[*_]{0,3})"
    r"(?P<key>[^\W\d_](?:(?:[\w /°%-]|\.(?! )|\([^()\n]*\)){0,40}(?<! ))?)"
    r"(?:(?P=bold)::|::(?P=bold))(?:[ \t]+(?P<value>[^\n]*))?$"
)
_FIELD = (
    r"(?<![\w)\]])[(\[](?P<name>[*_]*[^\W\d_][\w /.°%*-]*)::[ \t]*(?P<said>(?:[^()\[\]\n]|\[\[?[^\[\]\n]*\]?\])*)[)\]]"
)
_SETTINGS = re.compile(
    r"id|collapsed|heading|title|alias(?:es)?|tags|icon|public|template.*|exclude-.*|filters|query-.*|logseq\..*"
    r"|background-color|hl-.*|ls-.*|card-.*|cssclass(?:es)?|created|updated",
    re.IGNORECASE,
)


def plugin(md: MarkdownIt) -> None:
    """Takes the properties at the top of a note; others become lines `Key: value`, or `(key: value)` within a text."""
    rewrite(md, f"{_LINE}|{_FIELD}", ("::",), _property)


def _property(match: re.Match[str], env: EnvType) -> str:
    if match["name"]:
        return f"({match['name'].strip(' *_')}: {match['said'].strip()})"
    key, value, top = match["key"], (match["value"] or "").strip(), env.get("top", 0)
    if "is_inner" not in env and not match.string[top : match.start()].strip(" \t\n-*+") and top <= match.start():
        env["top"] = match.end()  # only properties precede it
        if value:
            values = env["properties"]
            values[key] = (
                [*([values[key]] if isinstance(values[key], str) else values[key]), value] if key in values else value
            )
        return ""
    if not value or _SETTINGS.fullmatch(key):
        return label(env, "settings of notes", value) + str(match["lead"])
    name = key.replace("-", " ").replace("_", " ")
    return f"{match['lead']}<br>{name[:1].upper()}{name[1:]}: {value}  "  # a line of its own
