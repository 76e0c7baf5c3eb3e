"""Marks within lines that CommonMark does not know, removed from text but not from code: attributes, tags, ids."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.attrs import attrs_plugin
from mdit_py_plugins.tasklists import tasklists_plugin

from indexes.knowledge.image_names import IMAGE_SUFFIXES
from indexes.knowledge.readers.dialects import label, rewrite

_ATTRIBUTE = r"[\w-]+=(?:\"[^\"{}\n]*\"|'[^'{}\n]*'|[^\s\"{}]+)"
_REMOVED = re.compile(
    r"(?:^|(?<=\s))\^[\w-]+$"  # the id of a block at the end of a line, as in Obsidian
    r"|\(\([0-9a-f]{8}-[0-9a-f-]{27}\)\)"  # a reference to a block, as in Logseq
    rf"|\{{:?\s*(?:[#.][\w-][^{{}}\n]*|{_ATTRIBUTE}(?:\s+(?:{_ATTRIBUTE}|[#.][\w-]+))*\s*|-)\}}|\{{:[^{{}}\n]*\}}"
    r"|(?<![\w:/]):[a-z+][a-z0-9_+-]*:(?![\w:])"  # the code of an icon
)
_KEPT = re.compile(r"==(\S(?:[^=\n]*\S)?)==|\*\*(?=\S)([^*\n]+)(?<=\S)\*\*")
"""A highlight; emphasis that CommonMark does not recognize without spaces around it, as in Chinese and Japanese."""
_TAGS = re.compile(r"\W*(?:tags?\s*:+\s*)?(?:#[\w/-]+[\s,;]*)+", re.IGNORECASE)  # a line with only tags
_NESTED = re.compile(r"#([\w/-]+)/([\w-]+)")  # a tag that says what it is: `#place/lisbon`
_IMAGE = (  # with spaces in its target, or a size: `![caption](a (1).png "title" =300x200)`
    r"!\[(?P<caption>(?:[^\[\]\\\n]|\\.|\[[^\[\]\n]*\])*)\]\((?P<path>[^<>\n\"']{0,500}?(?:"
    + "|".join(map(re.escape, IMAGE_SUFFIXES))
    + r"))(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?(?P<size>\s+=\d*x\d*)?[ \t]*\)"
)


def plugin(md: MarkdownIt) -> None:
    """Removes marks, and labels lines of tags; those that say what they are become `place: lisbon`."""
    rewrite(md, _IMAGE, ("](",), _bracketed)
    md.use(attrs_plugin, spans=True).use(tasklists_plugin)
    md.core.ruler.push("marks", _without_marks)


def _bracketed(match: re.Match[str], env: EnvType) -> str:
    path = match["path"].strip()
    return f"![{match['caption']}](<{path}>)" if " " in path or match["size"] else match[0]


def _without_marks(state: StateCore) -> None:
    for tokens in (block.children or [] for block in state.tokens):
        for number, token in enumerate(tokens):
            if token.type == "image" and (alt := str(token.attrs.pop("fig-alt", ""))):  # of Quarto
                text = f". {alt}" if token.content else alt
                token.children = [*(token.children or []), Token("text", "", 0, content=text)]
            elif token.type == "text":
                text = _KEPT.sub(lambda match: match[1] or match[2], token.content)
                token.content = _REMOVED.sub("", text)
                beside = (*tokens[max(number - 1, 0) : number], *tokens[number + 1 : number + 2])
                if "#" in text and _TAGS.fullmatch(text) and all(other.type.endswith("break") for other in beside):
                    nested = [f"{tag[1].replace('/', ': ')}: {tag[2]}" for tag in _NESTED.finditer(text)]
                    is_said = bool(nested) and "#" not in _NESTED.sub("", text)
                    token.content = "; ".join(nested) if is_said else label(state.env, "lines of tags", text)
