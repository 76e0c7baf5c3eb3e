"""Dialects of Markdown: what note apps and site generators add to it, as plug-ins of the parser.

Some rewrite the text outside of code before it is parsed, as generators do; others add rules. The parser's environment
(`env`) has the note's `file` and `folder`, and collects `labeled` blocks, which are no text of the note.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.utils import EnvType

from indexes.knowledge.document import Block

CODE = (
    r"^[ \t>]*(?:[-*+][ \t]+)*(?P<fence>`{3,}(?![^\n]*`)|~{3,})[^\n]*\n(?s:.*?)(?:^[ \t>]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<ticks>`+)(?!`)(?s:(?:(?!\n[ \t]*\n).)+?)(?<!`)(?P=ticks)(?!`)"
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
    compiled = re.compile(rf"(?P<code>{CODE})|{pattern}", re.MULTILINE)

    def rule(state: StateCore) -> None:
        if any(sign in state.src for sign in signs):
            state.src = compiled.sub(lambda match: match[0] if match["code"] else replace(match, state.env), state.src)

    md.core.ruler.before("block", pattern, rule)


def label(env: EnvType, kind: str, text: str) -> str:
    """Keeps a text as a block that is not the note's text but a `kind` of thing; returns "", which stands for it."""
    if text := " ".join(text.split()):
        env["labeled"].append(Block(text, kind=kind))
    return ""
