"""What CommonMark would cut: Markdown within HTML, rows wider than their header, and images with spaces in a path."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import dedent
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.utils import EnvType

from indexes.image_paths import IMAGE_SUFFIXES
from indexes.knowledge.readers.dialects import rewrite

_CUT = (
    r"!\[(?P<caption>(?:[^\[\]\\\n]|\\.|\[[^\[\]\n]*\])*)\]\((?P<path>[^<>()\n\"']*? (?:[^<>()\n\"']|\([^()\n]*\))*?(?:"
    + "|".join(map(re.escape, IMAGE_SUFFIXES))
    + r"))(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?[ \t]*\)"
    r"|^(?P<head>(?P<lead>[ \t>]*)(?=[^\n]*\|)[^\n]*)\n"
    r"(?P<rule>[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:[|+][ \t]*:?-+:?[ \t]*)*\|?[ \t]*)\n"
    r"(?P<rows>(?:(?=[^\n]*\|)[^\n]+(?:\n|\Z))+)"
)
_TAG = re.compile(r"(<!--.*?-->|</?[A-Za-z](?:[^<>\"']|\"[^\"]*\"|'[^']*')*>)", re.DOTALL)
_MARKDOWN = re.compile(r"\]\(|\*\*\w|`")


def plugin(md: MarkdownIt) -> None:
    """Reads Markdown within HTML, and all cells of a table."""

    def rendered(text: str, env: EnvType) -> str:
        if text.startswith("<") or not _MARKDOWN.search(text):
            return text
        render = md.render if "\n" in text.strip() else md.renderInline
        return str(render(dedent(text).strip("\n"), env))

    def html_block(_: Any, tokens: Sequence[Token], index: int, options: Any, env: EnvType) -> str:
        html = tokens[index].content
        return "".join(rendered(part, env) for part in _TAG.split(html)) if _MARKDOWN.search(html) else html

    rewrite(md, _CUT, ("|", "]("), _uncut)
    md.add_render_rule("html_block", html_block)


def _uncut(match: re.Match[str], env: EnvType) -> str:
    if match["path"]:
        return f"![{match['caption']}](<{match['path'].strip()}>)"
    head, widest = match["head"].rstrip(), max(map(_width, [match["head"], *match["rows"].splitlines()]))
    more = widest - _width(head)
    if not more and "+" not in match["rule"]:
        return f"{match[0]}\n"  # the empty line ends the table, or the next line would be a row
    head += ("" if head.endswith("|") else " |") + "  |" * more
    return f"{head}\n{match['lead']}|{' --- |' * widest}\n{match['rows']}\n"


def _width(row: str) -> int:
    row = row.strip(" \t>").removeprefix("|")
    return len(re.split(r"(?<!\\)\|", row if row.endswith("\\|") else row.removesuffix("|")))
