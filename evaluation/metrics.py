"""What a run's outcomes add up to: Recall@K, section recall, accuracy, latency. Nobody drops out of a denominator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CUTOFFS = (1, 5, 10, 20)
METRIC_NAMES = {"evqa": "evqa_exact_match", "infoseek": "infoseek"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What counts of one query.

    Attributes:
        id: The question's id.
        groups: Breakdown and group, such as `{"question_type": "templated"}`.
        ranks: Per step the rank of the right entity, from 1; `None` when it is not among the candidates.
        section_correct: Whether the evidence is the right section, `None` where the data set names none.
        answer_correct: Whether the answer is right, `None` when no generator was asked.
        unanswered: The generator abstained.
        failed: Why the query failed, if it did.
        gold_missing: The index has none of the right entities.
    """

    id: str
    groups: Mapping[str, str]
    ranks: Mapping[str, int | None]
    section_correct: bool | None
    answer_correct: bool | None
    unanswered: bool = False
    failed: str | None = None
    gold_missing: bool = False


def ranked(scores: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Returns (entity, score) pairs best first, equal scores by entity: the one order of metrics and run files."""
    return sorted(scores, key=lambda pair: (-pair[1], pair[0]))


def rank_of(gold: Collection[str], scores: Sequence[tuple[str, float]]) -> int | None:
    """Returns the rank (from 1) of the first right entity, `None` when there is none.

    Example:
        >>> rank_of({"b"}, [("b", 0.5), ("a", 0.5)])
        2
    """
    return next((rank for rank, (entity, _) in enumerate(ranked(scores), start=1) if entity in gold), None)


def recall_at_k(ranks: Sequence[int | None], k: int) -> float:
    """Returns the share of queries that have a right entity among their first `k`.

    This is what the field's papers call Recall@K and what TREC calls Success@K. TREC's recall is the share of all
    relevant documents that were found; the two agree where a query has one right entity.

    Example:
        >>> recall_at_k([1, 3, None, 20], k=3)
        0.5
    """
    return _share([rank is not None and rank <= k for rank in ranks]) or 0.0


def harmonic_mean(first: float, second: float) -> float:
    """Returns the harmonic mean of two shares, 0 when either is 0."""
    return 2 * first * second / (first + second) if first and second else 0.0


def percentile(milliseconds: Sequence[float], q: float) -> float | None:
    """Returns the `q`-th percentile (0 to 100) with linear interpolation, `None` of nothing."""
    return round(float(np.percentile(milliseconds, q)), 3) if milliseconds else None


def summarize(outcomes: Sequence[Outcome], style: str) -> dict[str, Any]:
    """Returns the figures of a run: `step1`, `step2`, `step3`, `answer`, the counts and the breakdowns.

    A failed query, an unanswered one and one whose entity the index lacks count as wrong. A share of nothing is `None`.

    Args:
        outcomes: One a query.
        style: Whose rules judged the answers, `evqa` or `infoseek`.

    Raises:
        ValueError: There are no outcomes.
    """
    if not outcomes:
        raise ValueError("no queries to summarize; the question file holds none that are kept")
    steps: dict[str, dict[str, Any]] = {step: _recalls(outcomes, step) for step in _steps(outcomes)}
    labelled = [o.section_correct for o in outcomes if o.section_correct is not None]
    steps["step3"] = {"section_recall@1": _share(labelled), "n_with_section": len(labelled)}  # it chooses a section
    return {
        "n_queries": len(outcomes),
        "n_failed": sum(o.failed is not None for o in outcomes),
        "n_unanswered": sum(o.unanswered for o in outcomes),
        "n_gold_missing": sum(o.gold_missing for o in outcomes),
        **steps,
        "answer": _answers(outcomes, style),
        **{f"by_{name}": _breakdown(outcomes, name) for name in ("question_type", "split", "category")},
        "failed": [{"id": o.id, "reason": o.failed} for o in outcomes if o.failed is not None],
        "unanswered": [o.id for o in outcomes if o.unanswered],
    }


def recall_curve(outcomes: Sequence[Outcome], step: str, k: int = 20) -> list[float]:
    """Returns Recall@1 to Recall@`k` after a step."""
    return [recall_at_k([o.ranks.get(step) for o in outcomes], cutoff) for cutoff in range(1, k + 1)]


def _steps(outcomes: Sequence[Outcome]) -> list[str]:
    return sorted({"step1", "step2", "step3"} | {step for o in outcomes for step in o.ranks})


def _recalls(outcomes: Sequence[Outcome], step: str) -> dict[str, Any]:
    ran = any(step in o.ranks for o in outcomes)
    ranks = [o.ranks.get(step) for o in outcomes]
    return {f"recall@{k}": recall_at_k(ranks, k) if ran else None for k in CUTOFFS}


def _answers(outcomes: Sequence[Outcome], style: str) -> dict[str, Any]:
    figures: dict[str, Any] = {"metric": METRIC_NAMES.get(style, style), "accuracy": _accuracy(outcomes)}
    if style != "infoseek":
        return figures
    unseen_question = [o for o in outcomes if o.groups.get("split", "").endswith("unseen_question")]
    unseen_entity = [o for o in outcomes if not o.groups.get("split", "").endswith("unseen_question")]
    parts = _accuracy(unseen_question), _accuracy(unseen_entity)
    both = None if parts[0] is None or parts[1] is None else harmonic_mean(parts[0], parts[1])
    return figures | {"unseen_question": parts[0], "unseen_entity": parts[1], "harmonic_mean": both}


def _breakdown(outcomes: Sequence[Outcome], name: str) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.groups.get(name):
            groups[outcome.groups[name]].append(outcome)
    return {group: _figures(members) for group, members in sorted(groups.items())}


def _figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "n": len(outcomes),
        "step1_recall@1": _recalls(outcomes, "step1")["recall@1"],
        "step1_recall@20": _recalls(outcomes, "step1")["recall@20"],
        "step2_recall@1": _recalls(outcomes, "step2")["recall@1"],
        "section_recall@1": _share([o.section_correct for o in outcomes if o.section_correct is not None]),
        "accuracy": _accuracy(outcomes),
    }


def _accuracy(outcomes: Sequence[Outcome]) -> float | None:
    return _share([o.answer_correct for o in outcomes if o.answer_correct is not None])


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None
