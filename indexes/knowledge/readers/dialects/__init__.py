"""Dialects of Markdown: what note apps and site generators add to it, each as a plug-in of the parser in its own file.

Those that generators resolve before they read Markdown, such as template tags, rewrite the text outside of code;
others add rules. The parser's environment (`env`) has the note's `file` and `folder`, and collects `labeled` blocks,
which are no text of the note, and the `properties` in its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.utils import EnvType

from indexes.knowledge.document import Block

DRAWN = (
    "mermaid|dataview|dataviewjs|excalidraw|compressed-json|plantuml|puml|dot|graphviz|d2|tikz|query|tasks|chart|button"
    "|base|leaflet|ditaa|kanban|meta-bind"
)
"""Languages of code that note apps and sites draw or run."""
_CODE = (
    r"^[ \t>]*(?:[-*+][ \t]+)*(?P<fence>`{3,}(?![^\n]*`)|~{3,})[^\n]*\n(?s:.*?)(?:^[ \t>]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?!`+[^`\n]+`+\{=\w)(?P<ticks>`+)(?!`)(?s:(?:(?!\n[ \t]*\n).)+?)(?<!`)(?P=ticks)(?!`)"
)
"""Blocks and spans of code."""


def rewrite(
    md: MarkdownIt, pattern: str, signs: Sequence[str], replace: Callable[[re.Match[str], EnvType], str]
) -> None:
    """Adds a rule that replaces what a pattern matches outside of code, before the text is parsed.

    Args:
        md: The parser.
        pattern: A regular expression, in which `^` and `$` match at lines.
        signs: What a text with a match contains; others are not searched.
        replace: Returns the Markdown that stands for a match.
    """
    compiled = re.compile(rf"(?P<code>{_CODE})|{pattern}", re.MULTILINE)

    def rule(state: StateCore) -> None:
        if any(sign in state.src for sign in signs):
            state.src = compiled.sub(lambda match: match[0] if match["code"] else replace(match, state.env), state.src)

    md.core.ruler.before("block", pattern, rule)


def label(env: EnvType, kind: str, text: str) -> str:
    """Keeps a text as a block that is not the note's text but a `kind` of thing; returns "", which stands for it."""
    if text := " ".join(text.split()):
        env["labeled"].append(Block(text, kind=kind))
    return ""


def pipe_table(rows: Sequence[Sequence[str]], head: int) -> Iterator[str]:
    """Yields the lines of a pipe table with empty lines around it; the first `head` rows are its header."""
    width = max(map(len, rows), default=0)
    above = [" ".join(row[column] for row in rows[:head] if column < len(row)) for column in range(width)]
    yield ""
    for number, row in enumerate([above, *rows[head:]]):
        cells = (re.sub(r"(?<!\\)\|", r"\\|", " ".join(cell.split())) for cell in row)
        yield f"| {' | '.join(cells)} |"
        yield from [f"|{' --- |' * width}"] if number == 0 else []
    yield ""
