"""Blocks with a title: `:::` of Pandoc, VitePress and Docusaurus, `!!!` admonitions and `===` tabs of MkDocs."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.utils import EnvType
from mdit_py_plugins.admon import admon_plugin

from indexes.knowledge.readers.dialects import DRAWN, rewrite

_DIRECTIVE = (  # which is left to `directives`
    r"(?P<directive>^(?P<pad>[ \t]*)(?P<colons>:{3,})[ \t]*"
    rf"(?:\{{(?:\.(?=list-table))?[A-Za-z][\w:+.-]*(?![\w:+.-]|\s*=)[^{{}}\n]*\}}|(?:{DRAWN})\b)"
    r"[^\n]*\n(?s:.*?)(?:^(?P=pad)(?P=colons)[ \t]*$|\Z))"
)
_COLONS = (
    r"^(?P<lead>[ \t>]*)(?P<items>(?:[-*+][ \t]+)*):{3,}[ \t]*(?:\{(?P<settings>[^{}\n]*)\}"
    r"|[\w-]+(?:\[(?P<label>[^\]\n]*)\])?(?:\{[^{}\n]*\})?)?[ \t]*(?P<title>[^\n{}:]*):*[ \t]*$"
)
_INDENTED = r"^(?P<indent>[ \t]*)(?:!!!|\?\?\?\+?|===[+!]?)[ \t]+(?P<name>[\w -]*?)[ \t]*(?P<quoted>\"[^\n]*\")?[ \t]*$"
_SIGNS = (":::", "!!!", "???", '=== "', '===+ "', '===! "')


def plugin(md: MarkdownIt) -> None:
    """Reads blocks as their titles and contents."""
    rewrite(md, f"{_DIRECTIVE}|{_COLONS}|{_INDENTED}", _SIGNS, _titled)
    admon_plugin(md)


def _titled(match: re.Match[str], env: EnvType) -> str:
    if match["directive"]:
        return match[0]
    if match["indent"] is not None:  # without a title, the library would invent one
        return f"{match['indent']}!!! {match['name'] or 'tab'} {match['quoted'] or chr(34) * 2}"
    named = re.search(r"title=[\"']([^\"']*)", match["settings"] or "")
    text = match["lead"] + match["items"] + (match["label"] or match["title"] or (named[1] if named else ""))
    return text if match["items"] else f"\n{text}\n{match['lead']}"
