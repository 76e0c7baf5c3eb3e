"""Images in Markdown whose links CommonMark does not allow: with spaces in the file's name, or with a size."""

from __future__ import annotations

import re
from html import escape

from markdown_it.rules_inline import StateInline

from indexes.knowledge.image_names import IMAGE_SUFFIXES

_START = re.compile(r"!\[((?:[^\[\]\\\n]|\\.|\[[^\[\]\n]*\])*)\]\(")
_LINK = re.compile(
    r"\s*(?P<target><[^<>\n]+>|[^\s\"'](?:.*?\S)??)"
    r"(?:\s+(?:\"(?P<title>[^\"\n]*)\"|'[^'\n]*'))?(?:\s+=(?P<width>\d*)x(?P<height>\d*))?\s*"
)
"""A target, perhaps with a title, and perhaps with a size, as of some note apps."""
_LONGEST = 2000


def loose_image(state: StateInline, silent: bool) -> bool:
    """Reads `![caption](a (1).png "title" =300x200)` as an image; a rule of markdown-it."""
    found = _START.match(state.src, state.pos)
    if found is None:
        return False
    end = _closing(state.src, found.end())
    link = _LINK.fullmatch(state.src[found.end() : end]) if end else None
    if link is None:
        return False
    target = link["target"].strip("<>").strip()
    sized = link["width"] is not None
    if not (sized or (" " in target and target.lower().endswith(IMAGE_SUFFIXES))):
        return False  # an image of CommonMark, or none
    if not silent:
        sizes = "".join(f' {side}="{link[side]}"' for side in ("width", "height") if link[side])
        state.push("html_inline", "", 0).content = f'<img src="{escape(target)}" alt="{escape(found[1])}"{sizes}>'
    state.pos = end + 1
    return True


def _closing(text: str, start: int) -> int:
    """Returns the position of the parenthesis that closes the one before `start`, on the same line, or 0."""
    depth = 1
    for place in range(start, min(len(text), start + _LONGEST)):
        if text[place] == "\n":
            return 0
        depth += (text[place] == "(") - (text[place] == ")")
        if not depth:
            return place
    return 0
