"""What Pandoc and others write within texts: footnotes, definitions, attributes; and marks that are no text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.subscript import sub_plugin
from mdit_py_plugins.superscript import superscript_plugin

from indexes.knowledge.readers.dialects import rewrite

_SIZED = r"(?P<image>!\[[^\[\]\n]*\]\([^\s()]+)[ \t]+=\d*%?x?\d*%?(?=\))"
"""An image with its size behind the path: `![](fox.png =300x200)`."""
_ATTRIBUTE = r"[\w-]+=(?:\"[^\"{}\n]*\"|'[^'{}\n]*'|[^\s\"{}]+)"
_REMOVED = re.compile(
    r"(?:^|(?<=\s))\^[\w-]+$"  # the id of a block at the end of a line, as in Obsidian
    r"|\(\([0-9a-f]{8}-[0-9a-f-]{27}\)\)"  # a reference to a block, as in Logseq
    rf"|\{{:?\s*(?:[#.][\w-][^{{}}\n]*|{_ATTRIBUTE}(?:\s+(?:{_ATTRIBUTE}|[#.][\w-]+))*\s*|-)\}}|\{{:[^{{}}\n]*\}}"
    r"|(?<![\w:/]):[a-z+][a-z0-9_+-]*:(?![\w:])"  # the code of an icon
    r"|^\([\w-]+\)=$|\{[a-z]+(?::[a-z]+)*\}$|^\[[ xX]\]\s"  # a target and a role, as in MyST; a box to tick
)
_KEPT = re.compile(r"==(\S(?:[^=\n]*\S)?)==|\*\*(?=\S)([^*\n]+)(?<=\S)\*\*")
"""A highlight; emphasis that CommonMark does not recognize without spaces around it, as in Chinese and Japanese."""


def plugin(md: MarkdownIt) -> None:
    """Adds what these pages show; footnotes stand where they are defined, those within a text in it."""
    md.use(footnote_plugin, move_to_end=False).use(deflist_plugin).use(attrs_plugin, spans=True)
    md.use(sub_plugin).use(superscript_plugin)
    md.core.ruler.push("marks", _without_marks)
    rewrite(md, _SIZED, (" =",), lambda match, env: match["image"])

    def footnote(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
        note = env["footnotes"]["list"][tokens[index].meta["id"]]
        return f" ({md.renderInline(note['content'], env)})" if "tokens" in note else ""

    md.add_render_rule("footnote_ref", footnote)
    for edge in ("footnote_reference_open", "footnote_reference_close"):
        md.add_render_rule(edge, lambda *_: "")


def _without_marks(state: StateCore) -> None:
    for token in (token for block in state.tokens for token in block.children or []):
        if token.type == "image" and (alt := str(token.attrs.pop("fig-alt", ""))):  # of Quarto
            text = f". {alt}" if token.content else alt
            token.children = [*(token.children or []), Token("text", "", 0, content=text)]
        elif token.type == "text":
            token.content = _REMOVED.sub("", _KEPT.sub(lambda match: match[1] or match[2], token.content))
