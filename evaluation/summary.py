"""The main metrics of a run as text, in percent, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.metrics import CUTOFFS, percent
from retriever.wording import counted


def as_text(metrics: Mapping[str, Any]) -> str:
    """Returns the main metrics of a `metrics.json` as lines of text, in percent."""
    lines = [f"{metrics['dataset']}, profile {metrics['profile']}: {counted(metrics['n_queries'], 'question')}"]
    lines[0] += "; figures in percent"
    if counts := counts_line(metrics):
        lines.append(f"{'':8}{counts}")
    for step in ("step1", "step2"):
        lines.append(_row(step, [(f"recall@{k}", metrics[step].get(f"recall@{k}")) for k in CUTOFFS]))
    lines.append(_row("step3", [("section recall@1", metrics["step3"].get("section_recall@1"))]))
    answer = metrics["answer"]
    figures = [(answer["metric"], answer["accuracy"])]
    if "harmonic_mean" in answer:  # InfoSeek's own figure: the paper's "Overall"
        splits = [(name.replace("_", " "), answer[name]) for name in ("unseen_question", "unseen_entity")]
        figures += [("overall (harmonic mean)", answer["harmonic_mean"]), *splits]
    lines.append(_row("answer", figures))
    lines += with_image(answer)
    if "note" in answer:
        lines.append(f"{'':8}{answer['note']}")
    if "protocol" in metrics:
        lines += lines_of(metrics)
    latency = metrics["latency_ms"]
    keys = ("retrieve_p50", "retrieve_p95", "answer_p50", "answer_p95")
    times = [f"{key.replace('_', ' ')} {latency[key]:.0f} ms" for key in keys if latency[key] is not None]
    return "\n".join([*lines, "time    " + "  ".join(times)])


def with_image(answer: Mapping[str, Any]) -> list[str]:
    """Returns the score over the questions whose images exist as a line of text, if some do not exist."""
    shown = answer.get("with_image")
    return [f"{'':8}{percent(shown['accuracy'])} over the {shown['n']:,} whose image exists"] if shown else []


def _row(name: str, figures: Sequence[tuple[str, float | None]]) -> str:
    return f"{name:8}" + "  ".join(f"{label} {percent(value):>5}" for label, value in figures)


COUNTS = {
    "n_failed": "failed",
    "n_images_missing": "of them without a usable image",
    "n_gold_missing": "about entities that the index lacks",
    "n_section_missing": "whose right section the index lacks",
    "n_shallow": f"with fewer than {CUTOFFS[-1]} candidates, which is as far as Recall@K reaches",
    "n_without_entity": "that name no entity, and do not count in Recall@K",
    "n_without_reference": "without a reference",
    "n_unanswered": "unanswered",
    "n_overlap": "that the index or the profile's training knows, by image or words",
    "n_repeated": "about the same image as an earlier one, in the same words",
    "n_nearly": "wrong only by more or fewer words than a reference, such as a unit",
    "n_cut": "cut at the maximum length",
    "n_refused": "refused by the model",
    "n_filtered": "cut by the server's content filter",
}
"""The words for each count of `metrics.json`."""


def check_any(metrics: Mapping[str, Any]) -> None:
    """Checks that a run has evaluated anything.

    Raises:
        ValueError: All questions failed, or none has an answer or an entity to judge; the message has the first reason.
    """
    n, reason = metrics["n_queries"], ""
    if metrics["n_failed"] == n and n:
        reason = metrics["failed"][0]["reason"]
    elif metrics["n_gold_missing"] == n and n and metrics["answer"].get("accuracy") is None:
        reason = "its entity is not in the index"
    if reason:
        raise ValueError(f"none of {counted(n, 'question')} could be evaluated; the first one: {reason}")


def counts_line(metrics: Mapping[str, Any]) -> str:
    """Returns the counts that are not zero in words, "" if all are.

    Example:
        >>> counts_line({"n_queries": 2000, "n_failed": 1200, "n_images_missing": 9, "n_unanswered": 0})
        'of 2,000 questions: 1,200 failed, 9 of them without a usable image'
    """
    listed = [f"{metrics[key]:,} {words}" for key, words in COUNTS.items() if metrics.get(key)]
    return f"of {metrics['n_queries']:,} questions: {', '.join(listed)}" if listed else ""


def lines_of(metrics: Mapping[str, Any]) -> list[str]:
    """Returns the protocol of a `metrics.json` and its deviations as lines of text, without the note on the metric."""
    noted = metrics["answer"].get("note")
    said = {name: sentence for name, sentence in metrics["deviations"].items() if sentence != noted}
    return [f"protocol {metrics['protocol']}", *(f"{'':8}{name}: {sentence}" for name, sentence in said.items())]
