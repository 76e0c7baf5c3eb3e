"""The metrics of a search agent's evaluation and statistics of its trajectories, from the records of its questions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from evaluation.commit import commit
from evaluation.datasets.dataset import dataset_named
from evaluation.metrics import mean, percent, percentile
from evaluation.protocol import protocol_of
from evaluation.search.scores import can_score_requeries, final_score, requery_score
from evaluation.search.verdicts import agreement, string_match
from evaluation.summary import counts_line, lines_of, with_image
from retriever.wording import counted

Record = dict[str, Any]
_ENDINGS = ("cut", "refused", "filtered")


def search_metrics(
    header: Mapping[str, Any],
    records: Sequence[Record],
    steps: Mapping[str, Mapping[str, float]],
    verdicts: Sequence[Record] | None,
    deviations: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Returns the content of `metrics.json`.

    Args:
        header: What identifies the run: `dataset`, `mode` and the entries of `SearchRun.header`.
        records: One record per question.
        steps: The scores of MMSearch's single-step tasks, by step name and question id.
        verdicts: The judge's verdict on each record; `None` to score by string matching.
        deviations: A sentence on each deviation from the published protocol, by its short name (`Protocol`).
    """
    mode, mmsearch = header["mode"], header["dataset"] == "mmsearch"
    trails = [record["trail"] for record in records if record["trail"] is not None]
    scores = main_scores(records, verdicts)
    times = [trail["spent"]["ms"] for trail in trails]
    metrics: dict[str, Any] = {
        **{name: header[name] for name in ("dataset", "mode", "profile") if name in header},
        "n_queries": len(records),
        "n_failed": sum(record["failed"] is not None for record in records),
        "n_images_missing": sum((record["failed"] or "").startswith("its image") for record in records),
        "n_gold_missing": sum(record.get("gold_missing", False) for record in records),
        "n_without_reference": sum(not record["answers"] for record in records),
        "n_unanswered": sum(record["answer"] is None for record in records),
        **{f"n_{ending}": sum(ending in _endings(trail) for trail in trails) for ending in _ENDINGS},
        "answer": _answers(header["dataset"], records, scores, verdicts),
    }
    if verdicts is not None:
        metrics["judge"] = _judge_figures(records, verdicts)
    if mmsearch:
        metrics["mmsearch"] = _mmsearch_figures(mode, records, steps)
    for name in sorted({name for record in records for name in record["groups"]}):
        groups = defaultdict(list)
        for record, score in zip(records, scores, strict=True):
            groups[record["groups"].get(name, "")].append((record, score))
        metrics[f"by_{name}"] = {
            group: {"n": len(members), "accuracy": mean([score for _, score in members])}
            | (_mmsearch_figures(mode, [one for one, _ in members], steps) if mmsearch else {})
            for group, members in sorted(groups.items())
            if group
        }
    said = {**deviations, **replaced_inputs(header["dataset"], records)}
    metrics |= protocol_of(header["dataset"], str(metrics["answer"]["metric"]), said).as_dict()
    asked = [score for record, score in zip(records, scores, strict=True) if record["trail"] is not None]
    return metrics | {
        "trajectories": trajectory_figures(trails, asked),
        "latency_ms": {"answer_p50": percentile(times, 50), "answer_p95": percentile(times, 95), "n": len(times)},
        "failed": [{"id": record["id"], "reason": record["failed"]} for record in records if record["failed"]],
        "unanswered": [record["id"] for record in records if record["answer"] is None],
        **{key: header[key] for key in ("settings", "index", "models") if key in header},
        "commit": commit(),
    }


def _endings(trail: Record) -> set[str]:
    """Returns how the model's replies in a trail ended."""
    return {request.get("ending", "complete") for one in trail["rounds"] for request in one["requests"]}


def main_scores(records: Sequence[Record], verdicts: Sequence[Record] | None) -> list[float]:
    """Returns the score of each record's answer: the judge's verdict if there is one, else the data set's own score."""
    if verdicts is not None:
        return [float(verdict["verdict"] is True) for verdict in verdicts]
    return [float(next(iter(record["scores"].values()))) for record in records]


def _answers(
    dataset: str, records: Sequence[Record], scores: Sequence[float], verdicts: Sequence[Record] | None
) -> dict[str, Any]:
    names = list(records[0]["scores"])
    main = "llm_judge" if verdicts is not None else names[0]
    judged = any(record["answers"] for record in records)
    figures: dict[str, Any] = {"metric": main, "accuracy": mean(scores) if judged else None}
    further = [name for name in names if name != main]
    figures |= {name: mean([record["scores"][name] for record in records]) if judged else None for name in further}
    pairs = zip(records, scores, strict=True)
    shown = [score for record, score in pairs if not (record["failed"] or "").startswith("its image")]
    if len(shown) < len(records):
        figures["with_image"] = {"n": len(shown), "accuracy": mean(shown)}
    note = dataset_named(dataset).note(main)
    return figures | ({"note": note} if note else {})


def _judge_figures(records: Sequence[Record], verdicts: Sequence[Record]) -> dict[str, Any]:
    """Compares the judge's parsable verdicts with string matching."""
    pairs = [
        (verdict["verdict"], string_match(record["answer"], record["answers"]))
        for record, verdict in zip(records, verdicts, strict=True)
        if record["answer"] and verdict["verdict"] is not None
    ]
    return {
        "unreadable": sum(verdict["verdict"] is None for verdict in verdicts),
        **agreement([judged for judged, _ in pairs], [matched for _, matched in pairs]),
    }


def _mmsearch_figures(
    mode: str, records: Sequence[Record], steps: Mapping[str, Mapping[str, float]]
) -> dict[str, float | None]:
    """Returns MMSearch's four scores and the final one, 0 to 1; a question missing from a step's file scores 0 there.

    The single-step scores belong to the paper's pipeline: for policies other than `mmsearch` they, and the final score,
    are `None`.
    """
    scores: dict[str, float | None] = {
        "end_to_end": mean([record["scores"]["mmsearch_f1"] for record in records]),
        "requery": None,
        **{name: None for name in ("rerank", "summarization")},
    }
    if mode == "mmsearch" and can_score_requeries():
        pairs = [(record["requery"] or "", record["reference_requery"]) for record in records]
        scores["requery"] = mean([requery_score(*pair) for pair in pairs])
    for name, done in steps.items():
        scores[name] = mean([done.get(record["id"], 0.0) for record in records])
    return {**scores, "final": final_score(scores)}


ON_THE_WEB = ("mmsearch", "mmsearch-plus", "dynvqa")  # the data sets whose papers search the web


def replaced_inputs(dataset: str, records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns a sentence on each published input that a run replaced, by its short name, with the questions concerned.

    Args:
        dataset: The data set's name.
        records: One record per question, with its trail.
    """
    if dataset not in ON_THE_WEB:
        return {}
    trails = [record["trail"] for record in records if record["trail"] is not None]
    called = [{(call["tool"], _view(call)) for one in trail["rounds"] for call in one["calls"]} for trail in trails]
    tools = [{tool for tool, _ in calls} for calls in called]
    of = f"of {counted(len(trails), 'question')}"
    said = {}
    # MMSearch's image search is a file of the data set; the others search live, as does `web_image_search`.
    image = {"image_search", "find_images"} | ({"web_image_search"} if dataset == "mmsearch" else set())
    replaced = "the data set's image_search_result" if dataset == "mmsearch" else "the web"
    if n := sum(bool(names & image) for names in tools):
        said["own-image-search"] = f"Images were searched for in the index instead of {replaced} ({n} {of})."
        if any("web_image_search" in names for names in tools) and dataset == "mmsearch":
            said["own-image-search"] = f"Images were searched for anew, instead of using {replaced} ({n} {of})."
    if n := sum("text_search" in names or "ask_index" in names for names in tools):
        said["own-text-search"] = f"Texts were searched for in the index instead of the web ({n} {of})."
    shown = {"image_search", "web_image_search"}
    if dataset == "dynvqa" and (n := sum(bool(names & shown) for names in tools)):
        said["titles-only"] = f"Images that a search for the image found were named, not shown ({n} {of})."
    opened = [{view for tool, view in calls if tool == "open_page"} for calls in called]
    if dataset == "mmsearch" and (n := sum(bool(views) and "full" not in views for views in opened)):
        said["no-screenshots"] = f"The model saw no screenshots of websites ({n} {of})."
    return said


def _view(call: Mapping[str, Any]) -> str:
    arguments = call["arguments"]
    return str(arguments.get("screenshot", "")) if isinstance(arguments, Mapping) else ""


def as_text(metrics: Mapping[str, Any]) -> str:
    """Returns the main figures as lines of text, in percent."""
    answer, paths = metrics["answer"], metrics["trajectories"]
    questions = counted(metrics["n_queries"], "question")
    lines = [f"{metrics['dataset']}, {metrics['mode']}: {questions}; figures in percent"]
    if counts := counts_line(metrics):
        lines.append(f"          {counts}")
    lines.append(f"answer    {answer['metric']} {percent(answer['accuracy'])}")
    lines += with_image(answer)
    if "note" in answer:
        lines.append(f"          {answer['note']}")
    if "mmsearch" in metrics:
        lines.append(
            "mmsearch  " + "  ".join(f"{name} {percent(value)}" for name, value in metrics["mmsearch"].items())
        )
    if "judge" in metrics:
        judge = metrics["judge"]
        lines.append(f"judge     agrees with string matching on {percent(judge['agreement'])} of {judge['n']} answers")
        if judge["unreadable"]:
            lines.append(f"          {judge['unreadable']:,} replies without a verdict count as wrong")
    lines += lines_of(metrics)
    calls = ", ".join(f"{tool} {n}" for tool, n in paths["calls"].items()) or "none"
    lines.append(f"calls     {calls}; P(image | zoom) {percent(paths['p_image_given_zoom'])}")
    lines.append(f"malformed {paths['malformed']} in {paths['malformed_trajectories']} of {paths['n']} trajectories")
    return "\n".join(lines)


ANSWER = "answer"  # the final step of a trajectory, alongside the tools
STEPS = 20  # number of steps reported individually

Trail = Mapping[str, Any]  # a trail as `search_agents.trail.AgentAnswer.as_dict` returns it


def _steps_of(trail: Trail) -> list[list[str]]:
    """Returns the tools called in each round, and `answer` for the final round, which calls none."""
    steps = [[str(call["tool"]) for call in one["calls"]] for one in trail["rounds"]]
    answered = trail["answer"] is not None
    return [step or [ANSWER] * (answered and at == len(steps)) for at, step in enumerate(steps, start=1)]


def trajectory_figures(trails: Sequence[Trail], scores: Sequence[float]) -> dict[str, Any]:
    """Returns the statistics of all trajectories.

    `next` holds P(next | tool): the share of a tool's calls that are followed by a call of the next tool (or by the
    answer) in the immediately following round; P(image | zoom) is `next.zoom_in.image_search`. Since a round can have
    several calls, the shares of one tool may add up to more than 1.

    Args:
        trails: The trails.
        scores: The score of each answer; at least one half counts as right.
    """
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    by_step: defaultdict[int, Counter[str]] = defaultdict(Counter)
    following: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for trail in trails:
        steps = _steps_of(trail)
        for number, (step, after) in enumerate(zip(steps, [*steps[1:], []], strict=True), start=1):
            by_step[min(number, STEPS)].update(step)
            for tool in step:
                calls[tool] += tool != ANSWER
                following[tool].update(set(after))
        failed.update(call["tool"] for one in trail["rounds"] for call in one["calls"] if call["error"])
    following.pop(ANSWER, None)
    right = [trail for trail, score in zip(trails, scores, strict=True) if score >= 0.5]
    wrong = [trail for trail, score in zip(trails, scores, strict=True) if score < 0.5]
    return {
        "n": len(trails),
        "rounds_mean": mean([len(trail["rounds"]) for trail in trails]),
        "requests_mean": mean([sum(len(one["requests"]) for one in trail["rounds"]) for trail in trails]),
        "calls": {tool: n for tool, n in sorted(calls.items()) if n},
        "calls_mean": mean([_calls(trail) for trail in trails]),
        "calls_mean_right": mean([_calls(trail) for trail in right]),
        "calls_mean_wrong": mean([_calls(trail) for trail in wrong]),
        "by_step": [{"step": step, **dict(sorted(by_step[step].items()))} for step in sorted(by_step)],
        "next": {
            tool: {after: n / calls[tool] for after, n in sorted(following[tool].items())}
            for tool in sorted(following)
            if calls[tool]
        },
        "p_image_given_zoom": following["zoom_in"]["image_search"] / calls["zoom_in"] if calls["zoom_in"] else None,
        "malformed": sum(trail["malformed"] for trail in trails),
        "malformed_trajectories": sum(trail["malformed"] > 0 for trail in trails),
        "failed_calls": dict(sorted(failed.items())),
        "invented_citations": sum(len(trail["invented_citations"]) for trail in trails),
        "stopped": dict(sorted(Counter(trail["stopped"] for trail in trails if trail["stopped"]).items())),
        "tokens_mean": mean([trail["spent"]["tokens"] for trail in trails]),
        "money": round(sum(trail["spent"]["money"] for trail in trails), 9),
    }


def _calls(trail: Trail) -> int:
    return sum(len(one["calls"]) for one in trail["rounds"])
