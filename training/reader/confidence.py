"""Fits the reader's confidence: trials on articles not trained on, a logistic regression, and a threshold."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from generators.reader.model import SpanModel
from generators.reader.reader import choose
from retriever.models.bm25 import BM25
from retriever.types import FloatArray
from training.reader.questions import SpanQuestion, normalize, overlap

COST = 0.02
"""F1 that the threshold may cost on answerable questions, by withholding correct answers."""
RIGHT = 0.5
"""Lowest F1 of an answer that counts as correct."""


class Trial(NamedTuple):
    """The reader's answer to a question, scored.

    Attributes:
        signs: The inputs of the confidence.
        f1: SQuAD's F1 of the answer.
        exact: True if the answer matches a reference.
    """

    signs: FloatArray
    f1: float
    exact: bool


class Trials(NamedTuple):
    """Trials by kind of question.

    Attributes:
        answerable: Questions about articles, with a paragraph that answers them.
        unanswerable: These and records, with one that does not answer them.
        records: Questions from files with E-VQA's columns, with the passage that BM25 finds.
        strays: Questions about another article.
    """

    answerable: list[Trial]
    unanswerable: list[Trial]
    records: list[Trial]
    strays: list[Trial]

    def everything(self) -> list[Trial]:
        """Returns the trials of all kinds in one list."""
        return [trial for trials in self for trial in trials]


def trials(model: SpanModel, questions: Iterable[SpanQuestion]) -> Iterator[Trial]:
    """Yields a trial of each question; questions about passages without candidates are left out."""
    for question in questions:
        choice = choose(model, question.question, question.passage, question.article)
        if choice is not None:
            answer = normalize(question.passage[choice.start : choice.end])
            references = [normalize(reference.text) for reference in question.answers]
            f1 = max((overlap(answer, reference) for reference in references), default=0.0)
            yield Trial(choice.signs, f1, answer in references)


def astray(
    questions: Sequence[SpanQuestion], passages: Mapping[str, Sequence[str]], rng: random.Random
) -> Iterator[SpanQuestion]:
    """Yields each question as if it were about another article, with the passage that BM25 finds there.

    Args:
        questions: The questions.
        passages: Passages of the articles to choose from, by title.
        rng: Chooses the articles.
    """
    for question in questions:
        others = [title for title in passages if title != question.article]
        if others:
            title = rng.choice(others)
            yield best_passage(question, passages[title])._replace(article=title, answers=())


def misplaced(
    questions: Iterable[SpanQuestion], passages: Mapping[str, Sequence[str]], rng: random.Random
) -> Iterator[SpanQuestion]:
    """Yields about half of the questions, each with a passage of its article that contains none of its answers."""
    for question in questions:
        others = [
            text for text in passages[question.article] if not any(answer.text in text for answer in question.answers)
        ]
        if others and rng.random() < 0.5:
            yield question._replace(passage=rng.choice(others), answers=())


def best_passage(question: SpanQuestion, texts: Sequence[str]) -> SpanQuestion:
    """Returns the question with the passage that BM25 finds, as in the service."""
    [scores] = BM25().score([question.question], [texts])
    return question._replace(passage=texts[int(scores.argmax())])


def by_article(questions: Iterable[SpanQuestion]) -> dict[str, list[str]]:
    """Returns the distinct passages of each article."""
    passages: dict[str, dict[str, None]] = {}
    for question in questions:
        passages.setdefault(question.article, {})[question.passage] = None
    return {title: list(texts) for title, texts in passages.items()}


def fit(found: Trials) -> tuple[FloatArray, float, float]:
    """Fits the confidence to all trials; returns its weights, its bias and the threshold."""
    everything = found.everything()
    weights, bias = fit_confidence(stacked(everything), np.array([trial.f1 >= RIGHT for trial in everything]))
    answered = probabilities(found.answerable, weights, bias)
    f1 = np.array([trial.f1 for trial in found.answerable])
    return weights, bias, round(threshold_at(COST, answered, f1), 3)


def fit_confidence(signs: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
    """Fits a logistic regression with a small ridge by Newton's method; returns weights and bias."""
    mean, scale = signs.mean(0), signs.std(0) + 1e-3
    inputs = np.hstack([(signs - mean) / scale, np.ones((len(signs), 1))])
    weights, ridge = np.zeros(inputs.shape[1]), np.full(inputs.shape[1], 3.0)
    for _ in range(20):
        guess = 1 / (1 + np.exp(-inputs @ weights))
        hessian = (inputs * (guess * (1 - guess))[:, None]).T @ inputs + np.diag(ridge)
        weights += np.linalg.solve(hessian, inputs.T @ (right - guess) - ridge * weights)
    return weights[:-1] / scale, float(weights[-1] - (weights[:-1] * mean / scale).sum())


def threshold_at(cost: float, confidence: np.ndarray, f1: np.ndarray) -> float:
    """Returns the highest threshold at which withholding the answers below it costs at most `cost` of the mean F1."""
    order = np.argsort(confidence, kind="stable")
    lost = np.cumsum(f1[order]) / len(f1)
    return float(confidence[order[min(int(np.searchsorted(lost, cost, "right")), len(f1) - 1)]])


def stacked(found: Sequence[Trial]) -> np.ndarray:
    """Returns the signs of trials as rows."""
    return np.array([trial.signs for trial in found])


def probabilities(found: Sequence[Trial], weights: np.ndarray, bias: float) -> np.ndarray:
    """Returns the confidence of each trial."""
    return np.asarray(1 / (1 + np.exp(-(stacked(found) @ weights + bias))))


def report(found: Trials, weights: np.ndarray, bias: float) -> str:
    """Returns a line per cost: the share of each kind of question left unanswered, and the scores."""
    confidence = {
        kind: probabilities(rows, weights, bias) if rows else np.zeros(0)
        for kind, rows in zip(Trials._fields, found, strict=True)
    }
    f1, exact = (np.array([trial[i] for trial in found.answerable]) for i in (1, 2))
    lines = [f"always: EM {exact.mean():.3f} F1 {f1.mean():.3f}"]
    for cost in (0.005, 0.01, 0.015, 0.02, 0.03):
        threshold = threshold_at(cost, confidence["answerable"], f1)
        silent = ", ".join(
            f"{(rows < threshold).mean():.3f} of {kind}" for kind, rows in confidence.items() if len(rows)
        )
        said = confidence["answerable"] >= threshold
        scores = f"EM {(exact & said).mean():.3f} F1 {(f1 * said).mean():.3f}"
        lines.append(f"cost {cost}: silent on {silent}: {scores} at {threshold:.3f}")
    return "\n".join(lines)
