"""How questions point at what an image shows: "this bridge", "the thing here"; those that do nothing else."""

from __future__ import annotations

import re

THIS = r"(?:this|that|it|these|those|they|here)"
THING = r"(?:(?:\w+[ -]){0,2}\w+)"
PLACE = r"(?: (?:here|(?:in|on) (?:the|this|my) (?:photo(?:graph)?|picture|image|pic)))?"
_FOLLOWING = re.compile(
    r"(?:(?:and |now |or )?(?:what|how) about|and|now|(?:the )?same (?:question )?(?:for|with|about)),? "
    rf"(?:{THIS}|the (?:next|other|second|new))(?: {THING})?{PLACE}",
    re.IGNORECASE,
)


def points_on(question: str) -> bool:
    """Returns whether a question only points at another image, and asks what was asked before: "And this one?"."""
    return _FOLLOWING.fullmatch(" ".join(question.split()).rstrip(" ?.!")) is not None
