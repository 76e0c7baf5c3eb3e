"""The HTML report of a run: one self-contained file, images included."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evaluation.datasets import find_query_image
from evaluation.metrics import Outcome, percent, recall_at_k
from evaluation.records import RECORDS, QueryRecord, outcome_of, read_records
from evaluation.summary import counts_line
from indexes.image_source import thumbnail
from retriever.files import write_whole
from retriever.images import load_image

_CASES = 30
_THUMBNAIL_SIDE = 160
_EXCERPT = 420
_LISTED_QUERIES = 20_000  # about 5 MB
_CHART_K = 20
_COLORS = ("var(--one)", "var(--two)", "var(--three)", "var(--four)")

EntityImage = Callable[[str], Path | None]


def write_report(out: Path, query_images: Path, entity_image: EntityImage | None = None) -> Path:
    """Writes `report.html` from the `metrics.json` and `queries.jsonl` of a run.

    Args:
        out: The folder of the run.
        query_images: The folder of its query images.
        entity_image: Finds the main image of an entity by its id; without it, cases show only the query's image.

    Returns:
        The path of the report.
    """
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    outcomes = [outcome_of(record) for record in read_records(out / RECORDS)]
    chosen = _choose(outcomes)
    cases: list[dict[str, Any]] = []
    queries: list[list[str]] = []
    for record, outcome in zip(read_records(out / RECORDS), outcomes, strict=True):
        if outcome.id in chosen:
            cases.append(_case(record, outcome, query_images, entity_image))
        without_answer = outcome.failed is not None or outcome.unanswered  # listed even beyond the limit
        if len(queries) < _LISTED_QUERIES * (1 + without_answer):
            queries.append(_row(record, outcome))
    environment = Environment(loader=PackageLoader("evaluation", "."), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"percent": percent, "ms": _milliseconds, "pretty": _pretty}
    page = environment.get_template("report.html").render(
        metrics=metrics,
        counts=counts_line(metrics),
        curves=_curves(outcomes),
        breakdowns=_breakdowns(metrics),
        stages=_stages(metrics["latency_ms"]),
        cases=cases,
        queries=queries,
    )
    write_whole(out / "report.html", page.encode())
    return out / "report.html"


def is_right(outcome: Outcome) -> bool:
    """Returns whether a query's answer is right; without a generator, its section, or failing that its entity."""
    if outcome.answer_correct is not None:
        return outcome.answer_correct
    if outcome.section_correct is not None:
        return outcome.section_correct
    return outcome.ranks.get("step2", outcome.ranks.get("step1")) == 1


def verdict(outcome: Outcome) -> str:
    """Returns `failed`, `unanswered`, `right` or `wrong`; the first two count as wrong."""
    if outcome.failed is not None:
        return "failed"
    if outcome.unanswered:
        return "unanswered"
    return "right" if is_right(outcome) else "wrong"


def _choose(outcomes: Sequence[Outcome]) -> set[str]:
    """Returns ids of right and of wrong queries, evenly spread over the run."""
    chosen: set[str] = set()
    for wanted in (True, False):
        group = [o.id for o in outcomes if is_right(o) is wanted and o.failed is None]
        chosen |= {group[i * len(group) // _CASES] for i in range(_CASES) if group}
    return chosen


def _case(
    record: QueryRecord, outcome: Outcome, query_images: Path, entity_image: EntityImage | None
) -> dict[str, Any]:
    top = record.candidates[0] if record.candidates else None
    marks = [
        ("entity", None if top is None or not outcome.entity_known else top.entity in record.gold.entities),
        ("section", outcome.section_correct),
        ("answer", outcome.answer_correct),
    ]
    return {
        "record": record,
        "verdict": verdict(outcome),
        "marks": [(name, right) for name, right in marks if right is not None],
        "image": _data_uri(find_query_image(query_images, record.image_id)),
        "entity_image": None if top is None or entity_image is None else _data_uri(entity_image(top.entity)),
        "entity_title": "" if top is None else top.title,
        "gold": _gold(record),
        "scores": list(outcome.answer_scores.items())[:6],
        "excerpt": [] if record.evidence is None else list(_excerpt(record.evidence.text, record.span)),
        "candidates": record.candidates[:5],
    }


def _row(record: QueryRecord, outcome: Outcome) -> list[str]:
    """Returns verdict, id, question, answer (or why it failed), gold answers, evidence and groups."""
    evidence = record.evidence
    section = "" if evidence is None else f"{evidence.entity_title}: {evidence.section_title}"
    answer = outcome.failed if outcome.failed is not None else record.answer or ""
    groups = " · ".join(group for group in outcome.groups.values() if group)
    return [verdict(outcome), outcome.id, record.question, answer, _gold(record), section, groups]


def _gold(record: QueryRecord) -> str:
    answers = dict.fromkeys(answer.replace("&&", ", ") for answer in record.gold.answers)
    return " or ".join(answers)


def _data_uri(path: Path | None) -> str | None:
    if path is None:
        return None
    return "data:image/jpeg;base64," + base64.b64encode(thumbnail(load_image(path), _THUMBNAIL_SIDE)).decode()


def _excerpt(text: str, span: tuple[int, int] | None) -> Iterator[tuple[str, bool]]:
    """Yields the evidence around the answer in pieces, each with a flag for the answer itself."""
    start, end = span or (0, 0)
    first = max(0, min(start - _EXCERPT // 2, len(text) - _EXCERPT))
    last = max(first + _EXCERPT, end)
    yield ("… " if first else "") + text[first:start], False
    yield text[start:end], True
    yield text[max(first, end) : last] + (" …" if last < len(text) else ""), False


def _curves(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Returns entity Recall@K after every step that changed it, and section Recall@K if the right ones are known."""
    named: list[tuple[str, list[float]]] = []
    for step in sorted({step for outcome in outcomes for step in outcome.ranks}):
        values = recall_curve(outcomes, step, _CHART_K)
        if not named or step != "step3" or values != named[-1][1]:  # step 3 usually does not reorder entities
            named.append((step.replace("step", "step "), values))
    labeled = [o.section_ranks.get("section") for o in outcomes if o.section_correct is not None]
    if labeled:
        named.append(("section", [recall_at_k(labeled, k) for k in range(1, _CHART_K + 1)]))
    return [
        {
            "name": name,
            "values": values,
            "color": _COLORS[min(number, len(_COLORS) - 1)] if name != "section" else "var(--right)",
            "points": " ".join(f"{_chart_x(k):.1f},{_chart_y(v):.1f}" for k, v in enumerate(values, start=1)),
        }
        for number, (name, values) in enumerate(named)
    ]


def recall_curve(outcomes: Sequence[Outcome], step: str, k: int) -> list[float]:
    """Returns Recall@1 to Recall@`k` after a step, over the queries whose right entity is known."""
    ranks = [o.ranks.get(step) for o in outcomes if o.entity_known]
    return [recall_at_k(ranks, cutoff) for cutoff in range(1, k + 1)]


def _chart_x(k: float) -> float:
    return 48 + (k - 1) * 500 / (_CHART_K - 1)


def _chart_y(share: float) -> float:
    return 220 - share * 200


def _breakdowns(metrics: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    names = {"by_question_type": "Question type", "by_split": "Split", "by_category": "Category"}
    return [(title, metrics[key]) for key, title in names.items() if metrics[key]]


def _stages(latency: Mapping[str, Any]) -> list[tuple[str, float, float, float]]:
    """Returns (stage, median ms, 95th percentile, median as a share of the slowest stage's) of every timed stage."""
    p50, p95 = latency["stages_p50"], latency["stages_p95"]
    longest = max(p50.values(), default=0.0) or 1.0
    order = sorted(p50, key=lambda stage: (stage == "generate", stage))
    return [(stage, p50[stage], p95[stage], p50[stage] / longest) for stage in order]


def _milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
