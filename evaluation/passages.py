"""Sections as passages: the order in which a run would read them, and whether one contains an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

S = TypeVar("S")


def reading_order(candidates: Sequence[tuple[str, Sequence[S]]]) -> list[tuple[str, S | None]]:
    """Returns (entity, section) pairs as they rank: all sections of the best entity first, each list best first.

    An entity without sections keeps its place, with `None`: there is nothing to read there, and what comes after it
    does not move up. So the first pair is always what a run takes for evidence.

    Example:
        >>> reading_order([("a", [2, 0]), ("b", []), ("c", [1])])
        [('a', 2), ('a', 0), ('b', None), ('c', 1)]
    """
    order: list[tuple[str, S | None]] = []
    for entity, sections in candidates:
        order += [(entity, section) for section in sections] or [(entity, None)]
    return order


def contains_answer(text: str, answers: Sequence[str]) -> bool:
    """Returns whether a text contains one of the answers, in any case and also inside a longer word.

    What Pseudo Recall counts, as FLMR's and PreFLMR's evaluation computes it. Of an answer that is a list (`&&`) every
    item has to be there.

    Example:
        >>> contains_answer("The flag is red and white.", ["blue", "White"]), contains_answer("red", ["red&&white"])
        (True, False)
    """
    lowered = text.lower()
    wanted = [[item for part in answer.split("&&") if (item := part.strip().lower())] for answer in answers]
    return any(items and all(item in lowered for item in items) for items in wanted)
