"""Sections as passages: the reading order of a run, and whether a section contains an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

S = TypeVar("S")


def reading_order(candidates: Sequence[tuple[str, Sequence[S]]]) -> list[tuple[str, S | None]]:
    """Returns (entity, section) pairs by rank: all sections of the best entity, best first, then the next entity's.

    An entity without sections keeps its rank, with `None`; thus the first pair is always the evidence of the run.

    Example:
        >>> reading_order([("a", [2, 0]), ("b", []), ("c", [1])])
        [('a', 2), ('a', 0), ('b', None), ('c', 1)]
    """
    order: list[tuple[str, S | None]] = []
    for entity, sections in candidates:
        order += [(entity, section) for section in sections] or [(entity, None)]
    return order


def contains_answer(text: str, answers: Sequence[str]) -> bool:
    """Returns whether a text contains one of the answers, ignoring case, even inside a longer word.

    Pseudo Recall, as evaluated by FLMR and PreFLMR, counts this. For an answer that is a list (`&&`), the text must
    contain every item.

    Example:
        >>> contains_answer("The flag is red and white.", ["blue", "White"]), contains_answer("red", ["red&&white"])
        (True, False)
    """
    lowered = text.lower()
    wanted = [[item for part in answer.split("&&") if (item := part.strip().lower())] for answer in answers]
    return any(items and all(item in lowered for item in items) for items in wanted)
