"""The main figures of an agent's evaluation as text, in percent, for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.counts import counts_line
from evaluation.metrics import percent
from evaluation.protocol import lines_of
from evaluation.summary import with_image
from retriever.wording import counted


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
