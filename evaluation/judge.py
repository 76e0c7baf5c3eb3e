"""Judges answers by the rules of each question's data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from evaluation.datasets.dataset import Scores, dataset_named
from evaluation.datasets.question import Question


class LearnedJudge(Protocol):
    """A model that judges whether answers mean the same as references, such as `evaluation.bem.Bem`."""

    @property
    def fingerprint(self) -> str:
        """A hash of the model, for reports."""

    def equivalent(self, triples: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Returns for each (answer, reference, question) whether the two are equivalent."""


def judge(question: Question, answer: str | None) -> Scores:
    """Scores one answer by the metrics that need no model; a missing or empty answer scores 0.

    Of MMSearch, only a missing one does: in its published code, an empty answer equals a reference without words.
    """
    dataset = dataset_named(question.style)
    scores = dataset.judge(question, answer or "")
    counts = answer is not None and (bool(answer.strip()) or dataset.judges_empty)
    return scores if counts else dict.fromkeys(scores, 0.0)


def judge_all(
    questions: Sequence[Question], answers: Sequence[str | None], learned: LearnedJudge | None = None
) -> list[Scores]:
    """Scores many answers; E-VQA's first metric is BEM's with a `learned` judge, exact match without.

    That judges all answers without an exact match in one call, each against every reference; the best reference counts.
    """
    scores = [judge(question, answer) for question, answer in zip(questions, answers, strict=True)]
    if learned is None:
        return scores
    references = {}
    for place, question in enumerate(questions):
        if (references_of := dataset_named(question.style).learned) is not None:
            references[place] = references_of(question)
    inputs = [
        (place, answer, reference, questions[place].question)
        for place, accepted in references.items()
        if (answer := answers[place]) and answer.strip() and not _main(scores[place])
        for reference in accepted
    ]
    verdicts = learned.equivalent([row[1:] for row in inputs])
    equivalent = {row[0] for row, verdict in zip(inputs, verdicts, strict=True) if verdict}
    for place in references:
        best = max(_main(scores[place]), float(place in equivalent))
        scores[place] = {f"{questions[place].style}_bem": best, **scores[place]}
    return scores


def _main(scores: Scores) -> float:
    return next(iter(scores.values()))
