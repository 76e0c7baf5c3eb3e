"""Names the published protocol that a run follows, and every point in which it deviates from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation.datasets.dataset import datasets
from retriever.files import write_json

RETRIEVAL = "retrieval"
"""The variant of a run that measures retrieval alone, to which no protocol of answers applies."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The protocol of a run: its task, and the deviations from what was published, with a sentence on each.

    Attributes:
        dataset: The data set's name, as in `--dataset`.
        deviations: A sentence on each deviation, by its short name, such as `own-image-search`.
        answers: Whether the run measures answers.
    """

    dataset: str
    deviations: Mapping[str, str] = field(default_factory=dict)
    answers: bool = True

    @property
    def name(self) -> str:
        """The identity of the row in docs/evaluation.md.

        Example:
            >>> Protocol("mmsearch").name, Protocol("mmsearch", {"own-image-search": "…"}).name
            ('mmsearch-end2end/official', 'mmsearch-end2end/own-image-search')
        """
        dataset = datasets().get(self.dataset)
        task = self.dataset if dataset is None else dataset.task or dataset.name
        if not self.answers:
            return f"{task}/{RETRIEVAL}"
        unchanged = "official" if dataset is not None and dataset.published else "own"
        return f"{task}/{'+'.join(sorted(self.deviations)) or unchanged}"

    def as_dict(self) -> dict[str, Any]:
        """Returns the entries of `metrics.json`."""
        return {"protocol": self.name, "deviations": dict(sorted(self.deviations.items())) if self.answers else {}}


def protocol_of(dataset: str, metric: str | None, deviations: Mapping[str, str]) -> Protocol:
    """Returns the protocol of a run.

    Args:
        dataset: The data set's name, as in `--dataset`.
        metric: The name of its main metric; `None` if it measures no answers.
        deviations: The known deviations, as in `Protocol`.
    """
    if metric is None:
        return Protocol(dataset, {}, answers=False)
    known = datasets().get(dataset)
    said = []
    if known is not None and known.published:
        said = [known.stand_ins.get(metric), known.lacking() if metric == known.metric else None]
    return Protocol(dataset, dict(filter(None, said)) | dict(deviations))


def comparable(names: Mapping[str, str | None]) -> str:
    """Returns why runs must not be compared, "" if they may.

    Runs that measure retrieval alone may be compared with any run, and runs that do not name their protocol, since they
    are older than it, with each other.

    Example:
        >>> comparable({"a": "evqa/official", "b": "evqa/exact-match"})
        'the runs follow different protocols (a: evqa/official; b: evqa/exact-match)'
    """
    judged = {run: name for run, name in names.items() if name is None or not name.endswith(f"/{RETRIEVAL}")}
    if len(set(judged.values())) <= 1:
        return ""
    listed = "; ".join(f"{run}: {name or 'not named'}" for run, name in judged.items())
    return f"the runs follow different protocols ({listed})"


def file_name(protocol: str) -> str:
    """Returns the name of the file with a run's scores, which names its protocol.

    Example:
        >>> file_name("mmsearch-end2end/own-image-search")
        'scores.mmsearch-end2end.own-image-search.json'
    """
    return f"scores.{protocol.replace('/', '.')}.json"


def write_scores(out: Path, metrics: Mapping[str, Any]) -> None:
    """Writes the scores of a run into a file named by its protocol, and removes those of other protocols."""
    name = file_name(metrics["protocol"])
    keys = ("protocol", "deviations", "dataset", "mode", "profile", "n_queries", "n_failed", "answer", "mmsearch")
    write_json(out / name, {key: metrics[key] for key in keys if key in metrics})
    for other in out.glob("scores.*.json"):
        if other.name != name:
            other.unlink()
