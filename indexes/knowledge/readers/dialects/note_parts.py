"""Finds the part of a note that a link means: the text below a heading, or a block by its id."""

from __future__ import annotations

import re

_FENCES = re.compile(r"^[ \t]*(`{3,}|~{3,})(?s:.*?)(?:^[ \t]*\1|\Z)", re.MULTILINE)


def part_of(text: str, part: str) -> str:
    """Returns a part of a note: all of it for "", the text of a heading, or the block with an id, `^id`; else ""."""
    if part.startswith("^"):  # at the end of a paragraph or an item, or below its block
        mark = rf"(?:[ \t]|\n\n?)\^{re.escape(part[1:])}[ \t]*$"
        match = re.search(rf"(?:^[ \t]*(?:[-*+]|\d+[.)])[ \t][^\n]*?|(?:^[^\n]+\n)*^[^\n]+?){mark}", text, re.MULTILINE)
        return re.sub(mark, "", match[0], flags=re.MULTILINE) if match else ""
    if not part:
        return text
    plain = _FENCES.sub(lambda code: " " * len(code[0]), text)
    title = r"\W+".join(map(re.escape, re.findall(r"\w+", part.rpartition("#")[2])))
    head = re.search(rf"^(#{{1,6}})[ \t]+\W*{title}\W*$", plain, re.MULTILINE | re.IGNORECASE)
    if head is None:
        return ""
    end = re.compile(rf"^#{{1,{len(head[1])}}}[ \t]", re.MULTILINE).search(plain, head.end())
    return text[head.start() : end.start() if end else None].strip("\n")
