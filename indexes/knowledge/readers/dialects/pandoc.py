"""What Pandoc and MyST write within texts: footnotes, definitions, citations, roles, math, raw HTML and targets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.myst_role import myst_role_plugin
from mdit_py_plugins.subscript import sub_plugin
from mdit_py_plugins.superscript import superscript_plugin

from indexes.knowledge.readers.dialects import label, rewrite

_UNSEEN = (
    r"(?P<citation>\[-?@[\w:.#$%&+?~/-]+[^\[\]\n]*\](?![\[(:]))|^[ \t]*(?P<word>\*\[[^\]\n]+\]:[^\n]*)$"
    r"|(?P<raw>(?P<quotes>`+)(?P<content>[^`\n]+)(?P=quotes)\{=(?P<format>\w+)\})|(?P<comment>\{/\*(?s:.*?)\*/\})"
    r"|(?<![^\n]\n)^%[ \t][^\n]*$|^(?P<target>\([\w:./ -]+\)=[ \t]*$(?:\n%[ \t][^\n]*)*)"
)
_KINDS = {"citation": "citations", "word": "abbreviations", "raw": "code that pages hide", "target": "targets of links"}
_MATH = ("math_inline", "math_inline_double", "math_block", "math_block_label")
_ROLE_TARGET = re.compile(r"\s*<[^<>]*>$|^[~!]")  # {ref}`The fox <fox>`


def plugin(md: MarkdownIt) -> None:
    """Adds what pages of Pandoc and MyST show; footnotes stand where they are defined, those within a text in it."""
    rewrite(md, _UNSEEN, ("[@", "[-@", "{=", "{/*", "%", ")=", "*["), _unseen)
    md.use(footnote_plugin, move_to_end=False).use(deflist_plugin).use(myst_role_plugin)
    md.use(dollarmath_plugin, allow_space=False, allow_digits=False).use(sub_plugin).use(superscript_plugin)

    def footnote(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
        note = env["footnotes"]["list"][tokens[index].meta["id"]]
        return f" ({md.renderInline(note['content'], env)})" if "tokens" in note else ""

    marks = {"footnote_reference_open": _shown, "footnote_reference_close": _shown, "footnote_ref": footnote}
    for name, rule in (marks | {"myst_role": _role} | dict.fromkeys(_MATH, _shown)).items():
        md.add_render_rule(name, rule)


def _unseen(match: re.Match[str], env: EnvType) -> str:
    if match["raw"] and match["format"].startswith("html"):
        return str(match["content"])
    return label(env, _KINDS.get(str(match.lastgroup), "comments"), match[0])


def _shown(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
    mark = "" if not tokens[index].content else "$" if tokens[index].type == "math_inline" else "$$"
    return escape(f"{mark}{tokens[index].content}{mark}")


def _role(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
    text, is_citation = tokens[index].content.strip("`"), "cite" in tokens[index].meta["name"]
    return label(env, "citations", text) if is_citation else escape(_ROLE_TARGET.sub("", text))
