"""Blocks of MyST, Quarto and R Markdown between fences, ```` ```{figure} a.png ````; and code that apps draw."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.colon_fence import colon_fence_plugin

from indexes.knowledge.readers.dialects import DRAWN, label, pipe_table
from indexes.knowledge.readers.dialects.tables import listed_rows

_NAMED = re.compile(r"\{(?:\.(?=list-table))?([A-Za-z][\w:+.-]*)(?![\w:+.-]|\s*=)([^{}\n]*)\}[ \t]*(.*)")
_OPTIONS = re.compile(r"(?:[ \t]*(?::[\w-]+:|#\|)[^\n]*(?:\n|\Z))*")
_LANGUAGES = re.compile(r"(code|source|parsed)[\w-]*|prompt|doctest|math|r|python|julia|bash|sh|sql|ojs")
_HIDDEN = re.compile(r"\b(?:echo|include)\s*[=:]\s*false\b", re.IGNORECASE)
_ELSEWHERE = re.compile(r"toctree|contents|tableofcontents|bibliography|\w*include|index|raw|eval-rst|auto\w+|glue")
_DRAWING = re.compile(r"include_graphics\(\s*[\"']([^\"'\n]+)[\"']")  # by R


def plugin(md: MarkdownIt) -> None:
    """Replaces directives by what they show: an image, a table, a text with its title, code."""

    def fence(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
        info, content = tokens[index].info.strip(), tokens[index].content
        if re.fullmatch(DRAWN, re.sub(r"^\W+|[\s}].*", "", info), re.IGNORECASE):
            return label(env, "code of drawings and queries", content)
        if info.startswith("{="):  # raw HTML, as in Pandoc, or another format
            return content if info.startswith("{=html") else label(env, "code that pages hide", content)
        if (match := _NAMED.fullmatch(info)) is None:
            return f"<pre><code>{escape(content)}</code></pre>\n"
        (name, settings, argument), body = match.groups(), _OPTIONS.sub("", content, count=1)
        options = settings + content.removesuffix(body)
        if _ELSEWHERE.fullmatch(name.lower()):
            return label(env, "directives without text", content)
        if _LANGUAGES.fullmatch(name.lower()) or (settings.strip() and name != "list-table"):
            images = "".join(f'<p><img src="{escape(path)}"></p>' for path in _DRAWING.findall(body))
            code = "" if _HIDDEN.search(options) else f"<pre><code>{escape(body)}</code></pre>"
            return (code or label(env, "code that pages hide", body)) + images
        label(env, "settings of directives", options)
        return str(md.render("\n".join(_shown(name.lower(), argument, options, body)), {**env, "is_inner": True}))

    colon_fence_plugin(md)
    md.add_render_rule("fence", fence)
    md.add_render_rule("colon_fence", fence)


def _shown(name: str, argument: str, options: str, body: str) -> list[str]:
    if name in ("figure", "image"):
        alt = re.search(r":(?:fig-)?alt:[ \t]*(.*)", options)
        caption = alt[1] if alt else body.strip().split("\n")[0]
        return [f"![{re.sub(r'[][`]', '', caption)}](<{argument}>)", "", body]
    if name == "list-table":
        return [argument, *pipe_table(listed_rows(body), int(not re.search(r"header-rows:\s*0", options)))]
    return [argument if any(map(str.isalpha, argument)) else "", "", body]  # that of a grid is its number of columns
