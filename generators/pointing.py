"""How questions point at what an image shows: "this bridge", "the thing here"; those that do nothing else."""

from __future__ import annotations

import re
from dataclasses import replace

from retriever.types import GenerationRequest

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


def pointing(request: GenerationRequest) -> GenerationRequest:
    """Returns a question without an image as one that points: "it" instead of the article's title.

    The reader is trained on such questions, and takes a title's words for those of an answer.
    """
    if request.image is not None or request.evidence is None:
        return request
    title = re.sub(r"\s*\([^()]*\)$", "", request.evidence.entity_title)
    named = rf"(?<!\w)(?:(?:the|an?)\s+)?{re.escape(title)}(?:e?s)?(?!\w)"
    return replace(request, question=re.sub(named, "it", request.question, flags=re.IGNORECASE))
