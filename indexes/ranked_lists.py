"""Rankings of entities by another system: put in order, and compared with the index.

`indexes.rankings` reads them from files of many forms.
"""

from __future__ import annotations

import itertools
import logging
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from indexes.ids import meant
from indexes.labeled_values import kind
from retriever.wording import counted

logger = logging.getLogger(__name__)

Ranking = Sequence[tuple[str, float | None]]  # ids, best first, with their scores (higher is better) if known
Order = Literal["list", "scores", "distances"]
"""What puts candidates in order: their place, their scores (higher is better), or distances (lower is better)."""
LEAST = 0.5  # the smallest share of candidates, and of questions, that a file must cover
_ROUNDING = 1e-6  # relative difference of scores that is no contradiction, as of scores rounded to single precision
_NO_CHANCE = 5  # pairs of neighbors that all rise in lists without a stated order if that is no chance


@dataclass(frozen=True, slots=True)
class RankedList:
    """The candidates of one question as a file has them."""

    ids: Sequence[str]
    scores: Sequence[float] = ()  # their scores or distances; empty if the file has none
    distances: bool = False  # whether the file calls them distances
    ordered: bool = True  # whether the candidates are in an order that the file states, best first

    @classmethod
    def of(cls, ids: Sequence[str], scores: Sequence[object], distances: bool = False) -> Self:
        """Returns candidates with their scores as a file has them, where `None` is none.

        Raises:
            ValueError: Some have scores, others none, or a score is not a finite number.
        """
        known = [score for score in scores if score is not None]
        if len(known) not in (0, len(ids)):
            raise ValueError(f"{len(ids) - len(known)} of {len(ids)} candidates have no score")
        return cls(ids, [finite(score) for score in known], distances)


def finite(value: object) -> float:
    """Returns a number, also one that is written as text.

    Raises:
        ValueError: It is not a number, or not a finite one.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"a score must be a number, got {kind(value)}")
    try:
        number = float(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"a score must be a number, got {str(value)[:40]!r}") from error
    if not math.isfinite(number):
        raise ValueError(f"a score must be a finite number, got {value}")
    return number


def check_order(path: Path, lists: Mapping[str, RankedList], flag: str = "") -> None:
    """Checks that the order of the candidates is that of their scores.

    Candidates without a stated order contradict their scores if every list rises, as lists that are sorted by distance.

    Raises:
        ValueError: It is not; the message shows both readings.
    """
    scored = {id: one for id, one in lists.items() if len(set(one.scores)) > 1}
    wrong = [id for id, one in scored.items() if not _falls(one)]
    if not all(one.ordered for one in scored.values()):
        pairs = sum(len(one.ids) - 1 for one in scored.values())
        rising = pairs >= _NO_CHANCE and all(_falls(one, -1) for one in scored.values())
        wrong = wrong if rising else [id for id in wrong if scored[id].ordered]
    if not wrong:
        return
    one = scored[wrong[0]]
    by_score = sorted(zip(one.scores, one.ids, strict=True), key=lambda pair: pair[0])
    low, high = (f"{id!r} ({score:g})" for score, id in (by_score[0], by_score[-1]))
    choose = f"{flag} list, {flag} scores or {flag} distances" if flag else "sort it, or remove the scores"
    raise ValueError(
        f"{path}: in {len(wrong):,} of {counted(len(lists), 'list')}, such as that of {wrong[0]!r}, the order "
        f"contradicts the scores: first in the list is {one.ids[0]!r} ({one.scores[0]:g}), the highest score has "
        f"{high}, the lowest {low}. Say what is right: the list's order without its scores, scores (higher is better), "
        f"or distances (lower is better): {choose}"
    )


def in_order(lists: Mapping[str, RankedList], order: Order | None = None) -> dict[str, Ranking]:
    """Returns the candidates of each question, best first; scores that are all the same say nothing and are dropped."""
    several = [one for one in lists.values() if len(one.ids) > 1]
    if order == "list" or (several and all(len(set(one.scores)) < 2 for one in several)):
        return {id: [(sys.intern(entity), None) for entity in one.ids] for id, one in lists.items()}
    return {id: list(_sorted(one, order)) for id, one in lists.items()}


def _sorted(one: RankedList, order: Order | None) -> Iterator[tuple[str, float | None]]:
    if not one.scores:
        yield from ((sys.intern(entity), None) for entity in one.ids)
        return
    lower = order == "distances" or (order is None and one.distances)
    scores = [-score if lower else score for score in one.scores]
    for place in sorted(range(len(scores)), key=lambda place: -scores[place]):
        yield sys.intern(one.ids[place]), scores[place]


def _falls(one: RankedList, sign: int = 1) -> bool:
    sign = -sign if one.distances else sign
    return all(
        sign * (first - second) >= -_ROUNDING * max(abs(first), abs(second))
        for first, second in itertools.pairwise(one.scores)
    )


def check_coverage(
    path: Path,
    found: Mapping[str, Sequence[str]],
    n_questions: int,
    known: Callable[[str], bool],
    *,
    partial_flag: str = "",
    training: bool = False,
) -> dict[str, int]:
    """Counts what of a file can be used, and logs what cannot.

    The option `partial_flag` accepts less than half; it is "" if it is set. A training leaves out questions without
    candidates, an evaluation counts them as wrong.

    Returns:
        `candidates` and `candidates_in_index`, `questions` and `questions_with_candidates` (those with any that is
        known).

    Raises:
        ValueError: Less than half of the candidates are known, or less than half of the questions have any.
    """
    ids = dict.fromkeys(id for candidates in found.values() for id in candidates)
    there = {id for id in ids if known(meant(id, known))}
    total = sum(map(len, found.values()))
    usable = sum(id in there for candidates in found.values() for id in candidates)
    answered = sum(not there.isdisjoint(candidates) for candidates in found.values())
    unknown = next((id for id in ids if id not in there), "")
    lacking = f"{counted(total - usable, 'candidate')} of {total:,} are not in the index, such as {unknown!r}"
    silent = f"{counted(n_questions - answered, 'question')} of {n_questions:,} have no candidate in the index"
    if partial_flag and usable < LEAST * total:
        raise ValueError(
            f"{path}: {lacking}; are its ids those of this index? Name an index of the same knowledge base, or accept "
            f"it: {partial_flag}"
        )
    if partial_flag and answered < LEAST * n_questions:
        options = "--queries" if training else "--queries, --only-split, --limit"
        raise ValueError(
            f"{path}: {silent}; name the questions that the file is for ({options}), or accept it: {partial_flag}"
        )
    if usable < total:
        logger.warning("%s: %s; they are left out", path, lacking)
    if answered < n_questions:
        logger.warning("%s: %s and %s", path, silent, "are left out" if training else "count as wrong")
    return {
        "candidates": total,
        "candidates_in_index": usable,
        "questions": n_questions,
        "questions_with_candidates": answered,
    }
