"""The HTML report of an agent's evaluation: one file with its metrics and some of its runs, round by round."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evaluation.metrics import percent
from evaluation.summary import COUNTS
from retriever.files import write_whole

_ALWAYS = ("n_unanswered", "n_failed")
_CASES = 50  # number of right answers shown, and of wrong ones

Record = Mapping[str, Any]


def write_report(out: Path, metrics: Mapping[str, Any], records: Sequence[Record], scores: Sequence[float]) -> Path:
    """Writes `report.html` of a run and returns its path.

    Args:
        out: The folder of the run.
        metrics: Its metrics, as in `metrics.json`.
        records: Its questions, as in `queries.jsonl`.
        scores: The score of each, 0 to 1.
    """
    environment = Environment(loader=PackageLoader("evaluation", "search"), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"percent": percent, "pretty": _pretty}
    known = {"profile": "", "models": {}, "commit": None, "mmsearch": {}, "protocol": "", **metrics}
    known["answer"] = {"note": "", **metrics["answer"]}
    page = environment.get_template("report.html").render(
        metrics=known,
        paths=metrics["trajectories"],
        tiles=_tiles(metrics),
        groups=[(name.removeprefix("by_"), metrics[name]) for name in sorted(metrics) if name.startswith("by_")],
        cases=[_case(records[at], scores[at]) for at in _chosen(scores)],
    )
    write_whole(out / "report.html", page.encode())
    return out / "report.html"


def _tiles(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    answer, paths, p50 = metrics["answer"], metrics["trajectories"], metrics["latency_ms"]["answer_p50"]
    scores = [(name, value) for name, value in answer.items() if isinstance(value, float) and name != "accuracy"]
    tiles = [(answer["metric"], percent(answer["accuracy"])), *((name, percent(value)) for name, value in scores)]
    tiles += [("unanswered", str(metrics["n_unanswered"])), ("failed", str(metrics["n_failed"]))]
    tiles += [(words, f"{metrics[key]:,}") for key, words in COUNTS.items() if key not in _ALWAYS and metrics.get(key)]
    for name, key, digits in (("rounds", "rounds_mean", 1), ("calls", "calls_mean", 1), ("tokens", "tokens_mean", 0)):
        tiles.append((f"{name} per question", "-" if paths[key] is None else f"{paths[key]:,.{digits}f}"))
    tiles.append(("seconds per question, median", "-" if p50 is None else f"{p50 / 1000:.1f}"))
    return [*tiles, ("money", f"{paths['money']:.4g}")] if paths["money"] else tiles


def _chosen(scores: Sequence[float]) -> list[int]:
    """Returns positions of right and of wrong questions, evenly spread over the run."""
    chosen: set[int] = set()
    for right in (True, False):
        group = [at for at, score in enumerate(scores) if (score == 1) is right]
        chosen |= {group[n * len(group) // _CASES] for n in range(_CASES) if group}
    return sorted(chosen)


def _case(record: Record, score: float) -> dict[str, Any]:
    trail = record["trail"]
    sources = [] if trail is None else trail["sources"]
    cited = {number for claim in ([] if trail is None else trail["claims"]) for number in claim["sources"]}
    titles = [f"{one['title']}, {one['section']}" if one["section"] else one["title"] for one in sources]
    return {
        "record": record,
        "score": score,
        "titles": titles,
        "cited": [source for source in sources if source["number"] in cited],
    }


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
