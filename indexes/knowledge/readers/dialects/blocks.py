"""Blocks with a name (MyST, Quarto, VitePress, MkDocs), footnotes, definitions and attributes, and Markdown in HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from textwrap import dedent
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.subscript import sub_plugin
from mdit_py_plugins.superscript import superscript_plugin

from indexes.image_paths import IMAGE_SUFFIXES
from indexes.knowledge.readers.dialects import label, rewrite
from indexes.knowledge.readers.dialects.notes import included

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
_IMAGE = (  # with its size behind the path, `![](fox.png =300x200)`, or with spaces in it
    r"(?P<image>!\[(?:[^\[\]\\\n]|\\.|\[[^\[\]\n]*\])*\]\()(?P<path>[^\s()<>]+(?=[ \t]+=\d*%?x?\d*%?\))"
    r"|[^<>()\n\"']*? (?:[^<>()\n\"']|\([^()\n]*\))*?(?:" + "|".join(map(re.escape, IMAGE_SUFFIXES)) + r"))"
    r"(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'|=[\dx%]*))?[ \t]*\)"
)
_TABLE = (
    r"^(?P<head>(?P<lead>[ \t>]*)(?=[^\n]*\|)[^\n]*)\n"
    r"(?P<rule>[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:[|+][ \t]*:?-+:?[ \t]*)*\|?[ \t]*)\n"
    r"(?P<rows>(?:(?=[^\n]*\|)[^\n]+(?:\n|\Z))+)"
)
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
_TAG = re.compile(r"(<!--.*?-->|</?[A-Za-z](?:[^<>\"']|\"[^\"]*\"|'[^']*')*>)", re.DOTALL)
_MARKDOWN = re.compile(r"\]\(|\*\*\w|`")


def plugin(md: MarkdownIt) -> None:
    """Replaces blocks by what they show: their titles and texts, an image, code; footnotes stand where they are."""
    rewrite(md, _IMAGE, ("](",), lambda match, env: f"{match['image']}<{match['path'].strip()}>)")
    rewrite(md, _TABLE, ("|",), _whole_table)
    rewrite(md, _BLOCKS, (":::", "!!!", "???", '=== "', '===+ "', '===! "'), _titled)
    md.use(admon_plugin).use(deflist_plugin).use(attrs_plugin, spans=True).use(sub_plugin).use(superscript_plugin)
    md.use(footnote_plugin, move_to_end=False)
    md.core.ruler.push("marks", _without_marks)

    def footnote(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
        note = env["footnotes"]["list"][tokens[index].meta["id"]]
        return f" ({md.renderInline(note['content'], env)})" if "tokens" in note else ""

    def rendered(text: str, env: EnvType) -> str:
        if text.startswith("<") or not _MARKDOWN.search(text):
            return text
        render = md.render if "\n" in text.strip() else md.renderInline
        return str(render(dedent(text).strip("\n"), env))

    def html_block(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
        html = tokens[index].content
        return "".join(rendered(part, env) for part in _TAG.split(html)) if _MARKDOWN.search(html) else html

    def fence(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
        return _fence(md, tokens[index].info.strip(), tokens[index].content, env)

    for name, rule in {"footnote_ref": footnote, "html_block": html_block, "fence": fence}.items():
        md.add_render_rule(name, rule)
    for edge in ("footnote_reference_open", "footnote_reference_close"):
        md.add_render_rule(edge, lambda *_: "")


def _whole_table(match: re.Match[str], env: EnvType) -> str:
    """Returns a table as wide as its widest row, since cells beyond the header are lost, and an empty line below it.

    Without the empty line, text that follows would be a row.
    """
    head, widest = match["head"].rstrip(), max(map(_width, [match["head"], *match["rows"].splitlines()]))
    more = widest - _width(head)
    if not more and "+" not in match["rule"]:
        return f"{match[0]}\n"
    head += ("" if head.endswith("|") else " |") + "  |" * more
    return f"{head}\n{match['lead']}|{' --- |' * widest}\n{match['rows']}\n"


def _width(row: str) -> int:
    row = row.strip(" \t>").removeprefix("|")
    return len(re.split(r"(?<!\\)\|", row if row.endswith("\\|") else row.removesuffix("|")))


def _fence(md: MarkdownIt, info: str, content: str, env: EnvType) -> str:
    if _DRAWN.fullmatch(info.lower()):
        return label(env, "code of drawings and queries", content)
    if info.startswith("{="):  # raw HTML, as in Pandoc, or another format
        return content if info.startswith("{=html") else label(env, "code that pages hide", content)
    if (match := _NAMED.fullmatch(info)) is None:
        return f"<pre><code>{escape(content)}</code></pre>\n"
    (name, settings, argument), body = match.groups(), _OPTIONS.sub("", content, count=1)
    options = settings + content.removesuffix(body)
    if _ELSEWHERE.fullmatch(name.lower()):
        return label(env, "directives without text", content)
    if _CODE.fullmatch(name.lower()) or settings.strip():
        paths, alt = re.findall(r"include_graphics\(\s*[\"']([^\"'\n]+)[\"']", body), _alt(options)  # by R
        is_hidden = re.search(r"\b(?:echo|include)\s*[=:]\s*false\b", options, re.IGNORECASE)
        code = label(env, "code that pages hide", body) if is_hidden else f"<pre><code>{escape(body)}</code></pre>"
        images = "".join(f'<p><img src="{escape(path)}" alt="{alt}"></p>' for path in paths)
        return code + (images or f"<p>{alt}</p>")
    text = included(env, argument) if "include" in name else body
    return str(md.render(f"{_title(name, argument, options, body, env)}\n\n{text}", env))


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


def _without_marks(state: StateCore) -> None:
    for token in (token for block in state.tokens for token in block.children or []):
        if token.type == "image" and (alt := str(token.attrs.pop("fig-alt", ""))):  # of Quarto
            text = f". {alt}" if token.content else alt
            token.children = [*(token.children or []), Token("text", "", 0, content=text)]
        elif token.type == "text":
            token.content = _REMOVED.sub("", _KEPT.sub(lambda match: match[1] or match[2], token.content))
