"""What Pandoc and MyST write within texts: footnotes, definitions, roles, math; and marks that are no text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.myst_role import myst_role_plugin
from mdit_py_plugins.subscript import sub_plugin
from mdit_py_plugins.superscript import superscript_plugin

_MATH = ("math_inline", "math_inline_double", "math_block", "math_block_label")
_ROLE_TARGET = re.compile(r"\s*<[^<>]*>$|^[~!]")  # {ref}`The fox <fox>`
_ATTRIBUTE = r"[\w-]+=(?:\"[^\"{}\n]*\"|'[^'{}\n]*'|[^\s\"{}]+)"
_REMOVED = re.compile(
    r"(?:^|(?<=\s))\^[\w-]+$"  # the id of a block at the end of a line, as in Obsidian
    r"|\(\([0-9a-f]{8}-[0-9a-f-]{27}\)\)"  # a reference to a block, as in Logseq
    rf"|\{{:?\s*(?:[#.][\w-][^{{}}\n]*|{_ATTRIBUTE}(?:\s+(?:{_ATTRIBUTE}|[#.][\w-]+))*\s*|-)\}}|\{{:[^{{}}\n]*\}}"
    r"|(?<![\w:/]):[a-z+][a-z0-9_+-]*:(?![\w:])"  # the code of an icon
    r"|^\([\w-]+\)=$|^\[[ xX]\]\s"  # the target of a link, as in MyST; a box to tick
)
_KEPT = re.compile(r"==(\S(?:[^=\n]*\S)?)==|\*\*(?=\S)([^*\n]+)(?<=\S)\*\*")
"""A highlight; emphasis that CommonMark does not recognize without spaces around it, as in Chinese and Japanese."""


def plugin(md: MarkdownIt) -> None:
    """Adds what pages of Pandoc and MyST show; footnotes stand where they are defined, those within a text in it."""
    md.use(footnote_plugin, move_to_end=False).use(deflist_plugin).use(myst_role_plugin).use(attrs_plugin, spans=True)
    md.use(dollarmath_plugin, allow_space=False, allow_digits=False).use(sub_plugin).use(superscript_plugin)
    md.core.ruler.push("marks", _without_marks)

    def footnote(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
        note = env["footnotes"]["list"][tokens[index].meta["id"]]
        return f" ({md.renderInline(note['content'], env)})" if "tokens" in note else ""

    marks = {"footnote_reference_open": _shown, "footnote_reference_close": _shown, "footnote_ref": footnote}
    for name, rule in (marks | {"myst_role": _role} | dict.fromkeys(_MATH, _shown)).items():
        md.add_render_rule(name, rule)


def _shown(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
    mark = "" if not tokens[index].content else "$" if tokens[index].type == "math_inline" else "$$"
    return escape(f"{mark}{tokens[index].content}{mark}")


def _role(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
    return escape(_ROLE_TARGET.sub("", tokens[index].content.strip("`")))


def _without_marks(state: StateCore) -> None:
    for token in (token for block in state.tokens for token in block.children or []):
        if token.type == "image" and (alt := str(token.attrs.pop("fig-alt", ""))):  # of Quarto
            text = f". {alt}" if token.content else alt
            token.children = [*(token.children or []), Token("text", "", 0, content=text)]
        elif token.type == "text":
            token.content = _REMOVED.sub("", _KEPT.sub(lambda match: match[1] or match[2], token.content))
