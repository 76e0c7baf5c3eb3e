"""The metrics of a run: Recall@K, section recall, accuracy, latency. Every query stays in the denominator."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evaluation.datasets.dataset import Dataset, dataset_named
from retriever.types import Ending

CUTOFFS = (1, 5, 10, 20)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The part of a query's record that the metrics need.

    Attributes:
        id: The question's id.
        groups: The query's group in each breakdown, such as `{"question_type": "templated"}`.
        ranks: The rank of the right entity after each step, from 1; `None` if it is not among the candidates.
        section_correct: Whether the evidence is the right section; `None` if the data set names no section.
        answer_correct: Whether the answer is right; `None` without a generator.
        unanswered: Whether the generator abstained.
        failed: Why the query failed, if it did.
        gold_missing: Whether the index lacks all right entities.
        section_missing: Whether it has one of them, but not the right section.
        shallow: Whether step 1 returned fewer candidates than the largest K of Recall@K, of more entities.
        section_ranks: In reading order, the rank (from 1) of the right section (`section`; absent if the data set names
            none) and of the first section that contains an answer (`pseudo`); `None` if not among the candidates.
        answer_scores: The answer's score by each metric, the data set's own first; empty without a generator.
        confidence: The generator's confidence, if it has one.
        entity_known: Whether the data set names the right entity; otherwise the query does not count in Recall@K.
        ending: How the generator's reply ended.
        without_reference: Whether the data set has no right answer, so that none can be right.
        nearly: Whether a wrong answer has all words of a reference, or a reference all of its, such as one with a unit.
    """

    id: str
    groups: Mapping[str, str]
    ranks: Mapping[str, int | None]
    section_correct: bool | None
    answer_correct: bool | None
    unanswered: bool = False
    failed: str | None = None
    gold_missing: bool = False
    section_missing: bool = False
    shallow: bool = False
    section_ranks: Mapping[str, int | None] = field(default_factory=dict)
    answer_scores: Mapping[str, float] = field(default_factory=dict)
    confidence: float | None = None
    entity_known: bool = True
    ending: Ending = "complete"
    without_reference: bool = False
    nearly: bool = False


def ranked(scores: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Returns (entity, score) pairs, best first, ties broken by entity id: the order of metrics and run files."""
    return sorted(scores, key=lambda pair: (-pair[1], pair[0]))


def rank_of(gold: Collection[str], scores: Sequence[tuple[str, float]]) -> int | None:
    """Returns the rank (from 1) of the first right entity, or `None`.

    Example:
        >>> rank_of({"b"}, [("b", 0.5), ("a", 0.5)])
        2
    """
    return next((rank for rank, (entity, _) in enumerate(ranked(scores), start=1) if entity in gold), None)


def recall_at_k(ranks: Sequence[int | None], k: int) -> float:
    """Returns the share of queries with a right entity among their first `k`.

    This field's papers call it Recall@K; TREC calls it Success@K. TREC's recall is the share of all relevant documents
    that were found; the two are equal for queries with a single right entity.

    Example:
        >>> recall_at_k([1, 3, None, 20], k=3)
        0.5
    """
    return mean([rank is not None and rank <= k for rank in ranks]) or 0.0


def mean(values: Sequence[float]) -> float | None:
    """Returns the mean of scores or flags, `None` without any."""
    return math.fsum(values) / len(values) if values else None


def harmonic_mean(first: float, second: float) -> float:
    """Returns the harmonic mean of two shares, 0 if either is 0."""
    return 2 * first * second / (first + second) if first and second else 0.0


def percentile(milliseconds: Sequence[float], q: float) -> float | None:
    """Returns the `q`-th percentile (0 to 100) with linear interpolation, `None` without values."""
    return round(float(np.percentile(milliseconds, q)), 3) if milliseconds else None


def percent(share: float | None) -> str:
    """Formats a share in percent, the unit of everything printed; `metrics.json` keeps fractions.

    Example:
        >>> percent(0.9694), percent(None)
        ('96.9', '-')
    """
    return "-" if share is None else f"{100 * share:.1f}"


def latency_of(timings: Sequence[Mapping[str, float]], *, answered: bool) -> dict[str, Any]:
    """Returns percentiles in milliseconds from the `timings_ms` of single queries.

    Args:
        timings: One mapping per query.
        answered: Whether the run has a generator.
    """
    retrieve = [t["retrieve"] for t in timings]
    both = [t["retrieve"] + t["generate"] for t in timings] if answered else []
    stages = sorted({stage for t in timings for stage in t} - {"batch", "retrieve"})
    return {
        "retrieve_p50": percentile(retrieve, 50),
        "retrieve_p95": percentile(retrieve, 95),
        "answer_p50": percentile(both, 50),
        "answer_p95": percentile(both, 95),
        "n": len(timings),
        "stages_p50": {stage: percentile([t[stage] for t in timings if stage in t], 50) for stage in stages},
        "stages_p95": {stage: percentile([t[stage] for t in timings if stage in t], 95) for stage in stages},
    }


def counts_of(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Returns the counts of a run's questions."""
    return {
        "n_failed": sum(o.failed is not None for o in outcomes),
        "n_images_missing": sum(o.failed is not None and o.failed.startswith("image:") for o in outcomes),
        "n_gold_missing": sum(o.gold_missing for o in outcomes),
        "n_section_missing": sum(o.section_missing for o in outcomes),
        "n_shallow": sum(o.shallow for o in outcomes),
        "n_without_reference": sum(o.without_reference for o in outcomes),
        "n_without_entity": 0
        if all(not o.entity_known for o in outcomes)
        else sum(not o.entity_known for o in outcomes),
        "n_unanswered": sum(o.unanswered for o in outcomes),
        "n_nearly": sum(o.nearly for o in outcomes),
        "n_cut": sum(o.ending == "cut" for o in outcomes),
        "n_refused": sum(o.ending == "refused" for o in outcomes),
        "n_filtered": sum(o.ending == "filtered" for o in outcomes),
    }


def summarize(outcomes: Sequence[Outcome], style: str) -> dict[str, Any]:
    """Computes the metrics of a run: `step1`, `step2`, `step3`, `answer`, counts and breakdowns.

    Queries count as wrong if they failed, were not answered, or ask about an entity that the index lacks. A share of
    zero queries is `None`.

    Args:
        outcomes: One per query.
        style: The name of the data set whose rules judged the answers.

    Raises:
        ValueError: There are no outcomes, or no such data set.
    """
    if not outcomes:
        raise ValueError("no queries to summarize: the question file has no usable question")
    names = sorted({"step1", "step2", "step3"} | {step for o in outcomes for step in o.ranks})
    steps: dict[str, dict[str, Any]] = {step: _recalls(outcomes, step) for step in names}
    labeled = [o for o in outcomes if o.section_correct is not None]
    steps["step3"] = {
        **_section_recalls("section", labeled),
        "section_recall@1": mean([bool(o.section_correct) for o in labeled]),  # step 3 chooses a section
        "n_with_section": len(labeled),
        **_section_recalls("pseudo", outcomes),
    }
    return {
        "n_queries": len(outcomes),
        **counts_of(outcomes),
        **steps,
        "answer": _answers(outcomes, dataset_named(style)),
        **{f"by_{name}": _breakdown(outcomes, name) for name in ("question_type", "split", "category")},
        "failed": [{"id": o.id, "reason": o.failed} for o in outcomes if o.failed is not None],
        "unanswered": [o.id for o in outcomes if o.unanswered],
    }


def metric_names(outcomes: Sequence[Outcome]) -> list[str]:
    """Returns the names of the answer metrics, the data set's own first."""
    return list(dict.fromkeys(name for outcome in outcomes for name in outcome.answer_scores))


def is_unseen_question(outcome: Outcome) -> bool | None:
    """Returns whether a query is in InfoSeek's split of unseen questions or in that of entities; `None` if neither."""
    split = re.sub(r"[\W_]+", "_", outcome.groups.get("split", "").lower())
    return split.endswith("unseen_question") if split.endswith(("unseen_question", "unseen_entity")) else None


def _recalls(outcomes: Sequence[Outcome], step: str) -> dict[str, Any]:
    known = [o for o in outcomes if o.entity_known]
    ran = any(step in o.ranks for o in known)
    ranks = [o.ranks.get(step) for o in known]
    return {f"recall@{k}": recall_at_k(ranks, k) if ran else None for k in CUTOFFS}


def _section_recalls(name: str, outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    known = any(name in o.section_ranks for o in outcomes)
    ranks = [o.section_ranks.get(name) for o in outcomes]
    return {f"{name}_recall@{k}": recall_at_k(ranks, k) if known else None for k in CUTOFFS}


def _answers(outcomes: Sequence[Outcome], dataset: Dataset) -> dict[str, Any]:
    names = metric_names(outcomes)
    metric = names[0] if names else dataset.metric
    figures: dict[str, Any] = {"metric": metric, "accuracy": _accuracy(outcomes)}
    judged = [] if figures["accuracy"] is None else outcomes
    figures |= {name: mean([o.answer_scores.get(name, 0.0) for o in judged]) for name in names[1:]}
    if names and (note := dataset.note(metric)):
        figures["note"] = note
    shown = [o for o in outcomes if not (o.failed or "").startswith("image:")]
    if names and len(shown) < len(outcomes):
        figures["with_image"] = {"n": len(shown), "accuracy": _accuracy(shown)}
    if not dataset.unseen:
        return figures
    unseen_question = [o for o in outcomes if is_unseen_question(o)]
    unseen_entity = [o for o in outcomes if is_unseen_question(o) is False]
    parts = _accuracy(unseen_question), _accuracy(unseen_entity)
    both = None if parts[0] is None or parts[1] is None else harmonic_mean(parts[0], parts[1])
    return figures | {"unseen_question": parts[0], "unseen_entity": parts[1], "harmonic_mean": both}


def _breakdown(outcomes: Sequence[Outcome], name: str) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.groups.get(name):
            groups[outcome.groups[name]].append(outcome)
    return {group: figures_of(members) for group, members in sorted(groups.items())}


def figures_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Returns the main figures of some of the queries."""
    return {
        "n": len(outcomes),
        "step1_recall@1": _recalls(outcomes, "step1")["recall@1"],
        "step1_recall@20": _recalls(outcomes, "step1")["recall@20"],
        "step2_recall@1": _recalls(outcomes, "step2")["recall@1"],
        "section_recall@1": mean([o.section_correct for o in outcomes if o.section_correct is not None]),
        "accuracy": _accuracy(outcomes),
    }


def _accuracy(outcomes: Sequence[Outcome]) -> float | None:
    """Returns the mean of the data set's own score over the queries put to a generator, if any has a reference."""
    judged = [o for o in outcomes if o.answer_correct is not None]
    scores = [next(iter(o.answer_scores.values()), float(bool(o.answer_correct))) for o in judged]
    return None if all(o.without_reference for o in judged) else mean(scores)
