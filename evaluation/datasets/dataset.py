"""What a data set is, and all of them: those of this project, and those of other packages by entry point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from evaluation.datasets.question import Item, Question, TaskReader
from indexes.labeled_values import Names
from retriever.entry_points import declared

GROUP = "omgm.datasets"
"""The group of entry points that name the data sets of other packages."""
_OURS = (
    *("evaluation.datasets.evqa:EVQA", "evaluation.datasets.evqa:EVQA_ALL"),
    *("evaluation.datasets.infoseek:INFOSEEK", "evaluation.datasets.infoseek:INFOSEEK_CSV"),
    *("evaluation.datasets.okvqa:OKVQA", "evaluation.datasets.dynvqa:DYNVQA", "evaluation.datasets.plain:PLAIN"),
    *("evaluation.search.mmsearch:MMSEARCH", "evaluation.search.mmsearch_plus:MMSEARCH_PLUS"),
)
"""This project's data sets, in the form of entry points."""

Scores = dict[str, float]
"""Scores (0 to 1) of one answer by metric. The first is the data set's own metric, which `accuracy` reports."""
Deviation = tuple[str, str]
"""The short name of a deviation from a published protocol, such as `exact-match`, and a sentence on it."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set: how its questions are read and answers to them judged.

    Attributes:
        name: What `--dataset` calls it; the `Question.style` of questions that its rules judge.
        metric: The name of its own metric without further means, the first of `judge`.
        judge: Scores an answer by all metrics that need no model.
        read: Yields one item per row of a question file, and raises `ValueError` if the rest of it cannot be read.
            Without it, only agents can be evaluated on the data set, or it only has rules for questions of others.
        read_named: The same for a file whose fields have other names (`--query-map`), if it may.
        tasks: Reads the tasks of agents, where these are not questions that name one image each: from the file or
            folder, the folder of images, if one is given, and the text that decrypts it (`--canary`).
        policy: The policy of agents to evaluate, if no other is named.
        published: Whether it has a published protocol (docs/evaluation.md).
        task: Its name in the names of protocols, if another.
        stand_ins: Metrics that stand in for the published one, with the deviation from the protocol that each means. A
            report shows the sentence beside the metric.
        lacking: Names the deviation from the published metric if a package that it needs is not installed.
        learned: Returns the references that BEM, E-VQA's learned judge, compares an answer with.
        judges_empty: Whether an empty answer may be right, as in MMSearch's published code.
        unseen: Whether its main figure is the harmonic mean over unseen questions and unseen entities (InfoSeek).
    """

    name: str
    metric: str
    judge: Callable[[Question, str], Scores]
    read: Callable[[Path], Iterator[Item]] | None = None
    read_named: Callable[[Path, Names], Iterator[Item]] | None = None
    tasks: Callable[[Path, Path | None, str], TaskReader] | None = None
    policy: str = ""
    published: bool = False
    task: str = ""
    stand_ins: Mapping[str, Deviation] = field(default_factory=dict)
    lacking: Callable[[], Deviation | None] = lambda: None
    learned: Callable[[Question], Sequence[str]] | None = None
    judges_empty: bool = False
    unseen: bool = False

    def note(self, metric: str) -> str:
        """Returns the note that a report shows beside a main metric, "" if none."""
        return self.stand_ins[metric][1] if metric in self.stand_ins else ""


@cache
def datasets() -> Mapping[str, Dataset]:
    """Returns all data sets by name, those of other packages first, so that they can replace one of this project.

    Raises:
        ValueError: An entry point does not name a `Dataset`.
    """
    by_name: dict[str, Dataset] = {}
    for dataset in declared(GROUP, Dataset, _OURS):
        by_name.setdefault(dataset.name, dataset)
    return by_name


def dataset_named(name: str) -> Dataset:
    """Returns the data set of a name, or of a `Question.style`.

    Raises:
        ValueError: There is none.
    """
    if name not in datasets():
        raise ValueError(f"unknown data set {name!r}; must be one of {', '.join(datasets())}")
    return datasets()[name]
