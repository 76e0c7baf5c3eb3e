"""The evidence: the best section of the best candidate, from which the answer is read, and the answer's span in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from retriever.protocols import EntityIndex
from retriever.types import Candidate, Evidence, Generation
from retriever.unspaced import UNSPACED

_INSIDE = rf"[^\W{UNSPACED}]"
"""A letter or figure of a word that spaces separate; in scripts without spaces, a word may end anywhere."""
_ALONE = re.compile(f"[{UNSPACED}]")


def best_evidence(index: EntityIndex, candidates: Sequence[Candidate]) -> Evidence | None:
    """Returns the first section of the first candidate, or `None` without candidates or sections.

    Args:
        index: Holds the candidates' articles.
        candidates: The result of a pipeline, best first.
    """
    if not candidates or not candidates[0].sections:
        return None
    entity = index.entity(candidates[0].row)
    section = entity.sections[candidates[0].sections[0].position]
    return Evidence(entity.id, entity.title, section.title, section.text, section.index)


def answer_span(generation: Generation, text: str) -> tuple[int, int] | None:
    """Returns the character span (start, end) of an answer in its section, or `None` if the section lacks it.

    A chat model's answer is matched word by word: case, white space and a final period may differ, but the match may
    not begin or end inside a word or a number.

    Args:
        generation: The answer; if it has a `span`, that is returned.
        text: The section's text.
    """
    words = (generation.answer or "").rstrip(".\u3002 \n").split()
    if generation.span is not None or not words:
        return generation.span
    quoted = r"\s+".join(re.escape(word) for word in words)
    before = "" if _ALONE.match(words[0]) else f"(?<!{_INSIDE})"
    after = "" if _ALONE.match(words[-1][-1]) else f"(?!{_INSIDE})"
    found = re.search(rf"{before}(?<!\d[.,]){quoted}{after}(?![.,]\d)", text, re.IGNORECASE)
    return found.span() if found else None
