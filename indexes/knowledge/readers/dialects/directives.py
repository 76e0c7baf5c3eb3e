"""Blocks with a name: fences and `:::` of MyST, Quarto and VitePress, `!!!` and `===` of MkDocs; and drawn code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.admon import admon_plugin

from indexes.knowledge.readers.dialects import label, rewrite
from indexes.knowledge.readers.dialects.embeds import included

_DRAWN = re.compile(
    r"\W*(?:mermaid|dataview(?:js)?|excalidraw|compressed-json|plantuml|puml|dot|graphviz|d2|tikz|query|tasks|chart|button"
    r"|base|leaflet|ditaa|kanban|meta-bind)\b.*"
)
"""Languages of code that note apps and sites draw or run."""
_BLOCKS = (
    r"^(?P<lead>[ \t>]*)(?P<items>(?:[-*+][ \t]+)*):{3,}[ \t]*(?:\{(?P<settings>[^{}\n]*)\}"
    r"|[\w-]+(?:\[(?P<label>[^\]\n]*)\])?(?:\{[^{}\n]*\})?)?[ \t]*(?P<title>[^\n{}]*?)[ \t:]*"
    r"(?P<options>(?:\n[ \t]*:[\w-]+:[^\n]*)*)$"
    r"|^(?P<indent>[ \t]*)(?:!!!|\?\?\?\+?|===[+!]?)[ \t]+(?P<name>[\w -]*?)[ \t]*(?P<quoted>\"[^\n]*\")?[ \t]*$"
)
_NAMED = re.compile(r"\{([A-Za-z][\w:+.-]*)(?![\w:+.-]|\s*=)([^{}\n]*)\}[ \t]*(.*)")
_OPTIONS = re.compile(r"(?:[ \t]*(?::[\w-]+:|#\|)[^\n]*(?:\n|\Z))*")
_CODE = re.compile(r"(code|source|parsed)[\w-]*|prompt|doctest|math|r|python|julia|bash|sh|sql|ojs|eval-rst|raw")
_ELSEWHERE = re.compile(r"toctree|contents|tableofcontents|bibliography|index|auto\w+|glue")


def plugin(md: MarkdownIt) -> None:
    """Replaces directives by what they show: their titles and texts, an image, code."""

    def fence(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
        info, content = tokens[index].info.strip(), tokens[index].content
        if _DRAWN.fullmatch(info.lower()):
            return label(env, "code of drawings and queries", content)
        if info.startswith("{="):  # raw HTML, as in Pandoc, or another format
            return content if info.startswith("{=html") else label(env, "code that pages hide", content)
        if (match := _NAMED.fullmatch(info)) is None:
            return f"<pre><code>{escape(content)}</code></pre>\n"
        (name, settings, argument), body = match.groups(), _OPTIONS.sub("", content, count=1)
        given = settings + content.removesuffix(body)
        if _ELSEWHERE.fullmatch(name.lower()):
            return label(env, "directives without text", content)
        if _CODE.fullmatch(name.lower()) or settings.strip():
            paths, alt = re.findall(r"include_graphics\(\s*[\"']([^\"'\n]+)[\"']", body), _alt(given)  # by R
            is_hidden = re.search(r"\b(?:echo|include)\s*[=:]\s*false\b", given, re.IGNORECASE)
            code = label(env, "code that pages hide", body) if is_hidden else f"<pre><code>{escape(body)}</code></pre>"
            images = "".join(f'<p><img src="{escape(path)}" alt="{alt}"></p>' for path in paths)
            return code + (images or f"<p>{alt}</p>")
        text = included(env, argument) if "include" in name else body
        return str(md.render(f"{_title(name, argument, given, body, env)}\n\n{text}", env))

    rewrite(md, _BLOCKS, (":::", "!!!", "???", '=== "', '===+ "', '===! "'), _titled)
    admon_plugin(md)
    md.add_render_rule("fence", fence)


def _alt(options: str) -> str:
    text = re.sub(r"^[ \t]*#\|", "", options, flags=re.MULTILINE)
    texts = re.findall(r"fig[.-](?:cap|alt)[ \t]*[:=][ \t|>-]*(.*(?:\n[ \t]{2,}.*)*)", text)
    return escape(" ".join(" ".join(texts).replace('"', "").split()))


def _titled(match: re.Match[str], env: EnvType) -> str:
    if match["indent"] is not None:  # without a title, the library would invent one
        return f"{match['indent']}!!! {match['name'] or 'tab'} {match['quoted'] or chr(34) * 2}"
    settings = match["settings"] or ""
    named = re.search(r"title=[\"']([^\"']*)", settings)
    title = match["label"] or _title(settings, match["title"], match["options"], "", env) or (named[1] if named else "")
    text = match["lead"] + match["items"] + title
    return text if match["items"] else f"\n{text}\n{match['lead']}"


def _title(name: str, argument: str, options: str, body: str, env: EnvType) -> str:
    if name.lower() in ("figure", "image"):
        alt = re.search(r":(?:fig-)?alt:[ \t]*(.*)", options)
        caption = re.sub(r"[][`]", "", alt[1] if alt else body.strip().split("\n")[0])
        return f"![{caption}](<{argument.strip()}>)"
    label(env, "settings of directives", options)
    return argument if any(map(str.isalpha, argument)) and "include" not in name else ""  # or a number of columns
