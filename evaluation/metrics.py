"""What a run's outcomes add up to: Recall@K, section recall, accuracy, latency. Nobody drops out of a denominator."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evaluation.judge import NOTES

CUTOFFS = (1, 5, 10, 20)
METRIC_NAMES = {
    "evqa": "evqa_exact_match",
    "infoseek": "infoseek",
    "okvqa": "vqa_accuracy",
    "dynvqa": "f1_recall",
    "plain": "exact_match",
}
"""By the style of a data set, its metric where no answer was asked for."""


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
        section_ranks: The rank (from 1) of the first right section, and under `pseudo` of the first section that
            contains an answer, in the order in which the run would read sections; `None` when there is none. `section`
            is absent where the data set names no section.
        answer_scores: What the answer is worth by each metric's name, the data set's own first; empty when no
            generator was asked.
        confidence: The generator's, where it has one.
        entity_known: The data set names the right entity; without it a query has no part in Recall@K.
    """

    id: str
    groups: Mapping[str, str]
    ranks: Mapping[str, int | None]
    section_correct: bool | None
    answer_correct: bool | None
    unanswered: bool = False
    failed: str | None = None
    gold_missing: bool = False
    section_ranks: Mapping[str, int | None] = field(default_factory=dict)
    answer_scores: Mapping[str, float] = field(default_factory=dict)
    confidence: float | None = None
    entity_known: bool = True


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
        style: Whose rules judged the answers, a key of `METRIC_NAMES`.

    Raises:
        ValueError: There are no outcomes.
    """
    if not outcomes:
        raise ValueError("no queries to summarize; the question file holds none that are kept")
    steps: dict[str, dict[str, Any]] = {step: _recalls(outcomes, step) for step in _steps(outcomes)}
    labelled = [o for o in outcomes if o.section_correct is not None]
    steps["step3"] = {
        **_section_recalls("section", labelled),
        "section_recall@1": _share([bool(o.section_correct) for o in labelled]),  # step 3 chooses a section
        "n_with_section": len(labelled),
        **_section_recalls("pseudo", outcomes),
    }
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


def metric_names(outcomes: Sequence[Outcome]) -> list[str]:
    """Returns the names of the metrics that judged the answers, the data set's own first."""
    return list(dict.fromkeys(name for outcome in outcomes for name in outcome.answer_scores))


def is_unseen_question(outcome: Outcome) -> bool:
    """Returns whether a query is of InfoSeek's half of unseen questions; all others are of unseen entities."""
    return outcome.groups.get("split", "").endswith("unseen_question")


def recall_curve(outcomes: Sequence[Outcome], step: str, k: int = 20) -> list[float]:
    """Returns Recall@1 to Recall@`k` after a step, of the queries whose right entity is known."""
    ranks = [o.ranks.get(step) for o in outcomes if o.entity_known]
    return [recall_at_k(ranks, cutoff) for cutoff in range(1, k + 1)]


def _steps(outcomes: Sequence[Outcome]) -> list[str]:
    return sorted({"step1", "step2", "step3"} | {step for o in outcomes for step in o.ranks})


def _recalls(outcomes: Sequence[Outcome], step: str) -> dict[str, Any]:
    asked = [o for o in outcomes if o.entity_known]
    ran = any(step in o.ranks for o in asked)
    ranks = [o.ranks.get(step) for o in asked]
    return {f"recall@{k}": recall_at_k(ranks, k) if ran else None for k in CUTOFFS}


def _section_recalls(name: str, outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    known = any(name in o.section_ranks for o in outcomes)
    ranks = [o.section_ranks.get(name) for o in outcomes]
    return {f"{name}_recall@{k}": recall_at_k(ranks, k) if known else None for k in CUTOFFS}


def _answers(outcomes: Sequence[Outcome], style: str) -> dict[str, Any]:
    names = metric_names(outcomes)
    metric = names[0] if names else METRIC_NAMES.get(style, style)
    figures: dict[str, Any] = {"metric": metric, "accuracy": _accuracy(outcomes)}
    figures |= {name: _mean([o.answer_scores.get(name, 0.0) for o in outcomes]) for name in names[1:]}
    if names and metric in NOTES:
        figures["note"] = NOTES[metric]
    if style != "infoseek":
        return figures
    unseen_question = [o for o in outcomes if is_unseen_question(o)]
    unseen_entity = [o for o in outcomes if not is_unseen_question(o)]
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
    """Returns the mean of the data set's own score over the queries whose answer was asked for."""
    return _mean([_score(o) for o in outcomes if o.answer_correct is not None])


def _score(outcome: Outcome) -> float:
    return next(iter(outcome.answer_scores.values()), float(bool(outcome.answer_correct)))


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None


def _mean(scores: Sequence[float]) -> float | None:
    return math.fsum(scores) / len(scores) if scores else None
