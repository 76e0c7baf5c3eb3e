"""The report of a run: one HTML file that holds everything it shows, pictures included."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evaluation.datasets import find_query_image
from evaluation.metrics import Outcome, recall_curve
from evaluation.records import Line, outcome_of, read_lines
from indexes.files import write_whole
from indexes.images import load_image, thumbnail

_CASES = 30
_THUMBNAIL_SIDE = 160
_EXCERPT = 420
_LISTED_FAILURES = 200
_CHART_K = 20


def write_report(out: Path, query_images: Path) -> Path:
    """Returns the path of `report.html`, written from the `metrics.json` and `queries.jsonl` of a run.

    Args:
        out: The folder of the run.
        query_images: The folder of its query pictures.
    """
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    outcomes = [outcome_of(line) for line in read_lines(out / "queries.jsonl")]
    shown = _choose(outcomes)
    cases = [_case(line, query_images) for line in read_lines(out / "queries.jsonl") if line["id"] in shown]
    environment = Environment(loader=PackageLoader("evaluation", "."), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"share": _share, "ms": _milliseconds, "pretty": _pretty}
    page = environment.get_template("report.html").render(
        metrics=metrics,
        curves=[_curve(outcomes, step) for step in ("step1", "step2") if any(step in o.ranks for o in outcomes)],
        breakdowns=_breakdowns(metrics),
        stages=_stages(metrics["latency_ms"]),
        cases=cases,
        failures=metrics["failed"][:_LISTED_FAILURES],
    )
    write_whole(out / "report.html", page.encode())
    return out / "report.html"


def is_right(outcome: Outcome) -> bool:
    """Returns whether a query went right: its answer, or without a generator its section, or else its entity."""
    if outcome.answer_correct is not None:
        return outcome.answer_correct
    if outcome.section_correct is not None:
        return outcome.section_correct
    return outcome.ranks.get("step2", outcome.ranks.get("step1")) == 1


def _choose(outcomes: Sequence[Outcome]) -> set[str]:
    """Returns ids of right and of wrong queries, evenly spread over the run."""
    chosen: set[str] = set()
    for wanted in (True, False):
        group = [o.id for o in outcomes if is_right(o) is wanted and o.failed is None]
        chosen |= {group[i * len(group) // _CASES] for i in range(_CASES) if group}
    return chosen


def _case(line: Line, query_images: Path) -> dict[str, Any]:
    outcome, evidence = outcome_of(line), line["evidence"]
    top = line["candidates"][0]["entity"] if line["candidates"] else None
    answered = outcome.answer_correct
    marks = [("entity", top in line["gold"]["entities"]), ("section", outcome.section_correct), ("answer", answered)]
    return {
        "line": line,
        "right": is_right(outcome),
        "marks": [(name, right) for name, right in marks if right is not None],
        "picture": _picture(line["image_id"], query_images),
        "gold": " or ".join(answer.replace("&&", ", ") for answer in line["gold"]["answers"]),
        "excerpt": [] if evidence is None else list(_excerpt(evidence["text"], line["span"])),
        "candidates": line["candidates"][:5],
    }


def _picture(image_id: str, query_images: Path) -> str | None:
    path = find_query_image(query_images, image_id)
    if path is None:
        return None
    return "data:image/jpeg;base64," + base64.b64encode(thumbnail(load_image(path), _THUMBNAIL_SIDE)).decode()


def _excerpt(text: str, span: Sequence[int] | None) -> Iterator[tuple[str, bool]]:
    """Yields pieces of the evidence around the answer, each with whether it is the answer."""
    start, end = span or (0, 0)
    first = max(0, min(start - _EXCERPT // 2, len(text) - _EXCERPT))
    last = max(first + _EXCERPT, end)
    yield ("… " if first else "") + text[first:start], False
    yield text[start:end], True
    yield text[max(first, end) : last] + (" …" if last < len(text) else ""), False


def _curve(outcomes: Sequence[Outcome], step: str) -> dict[str, Any]:
    values = recall_curve(outcomes, step, _CHART_K)
    points = " ".join(f"{chart_x(k):.1f},{chart_y(value):.1f}" for k, value in enumerate(values, start=1))
    return {
        "step": step,
        "points": points,
        "end_y": chart_y(values[-1]),
        "start_y": chart_y(values[0]),
        "values": values,
    }


def chart_x(k: float) -> float:
    """Returns where cutoff `k` lies in the recall chart, 640 units wide."""
    return 48 + (k - 1) * 500 / (_CHART_K - 1)


def chart_y(share: float) -> float:
    """Returns where a share lies in the recall chart, 260 units high."""
    return 220 - share * 200


def _breakdowns(metrics: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    names = {"by_question_type": "Question type", "by_split": "Split", "by_category": "Category"}
    return [(title, metrics[key]) for key, title in names.items() if metrics[key]]


def _stages(latency: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Returns (stage, median milliseconds, share of the longest) of the stages that were timed."""
    stages = [(name, value) for name, value in latency["stages_p50"].items() if value is not None]
    longest = max((value for _, value in stages), default=0.0) or 1.0
    return [(name, value, value / longest) for name, value in sorted(stages, key=lambda stage: stage[0] == "generate")]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
