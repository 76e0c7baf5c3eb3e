"""Questions as arrays: the candidates of each, their features, and how good an answer each would be."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from generators.reader.features import Candidates, Floats, candidates
from generators.reader.question import analyze
from generators.reader.tokens import Flags, Ints, Tokens, stems_of, tokenize_text
from training.reader.questions import SpanQuestion, normalize, overlap
from training.reader.weights import Numbers

DRAWN = 80
"""Candidates of a question in a training step, besides the good ones."""


class Example(NamedTuple):
    """A question with its candidates.

    Attributes:
        article: Title of the article.
        part: A number from the hash of the title.
        answerable: True if it has answers.
        candidates: The candidates.
        features: Their standardized features, float16.
        around: The classes of the words around them.
        asked: Kind and focus of the question.
        f1: SQuAD's F1 of each candidate.
        exact: True for those that match an answer exactly.
        quality: F1, less for those that stand elsewhere than the answer.
    """

    article: str
    part: int
    answerable: bool
    candidates: Candidates
    features: np.ndarray
    around: Ints
    asked: tuple[int, int]
    f1: Floats
    exact: Flags
    quality: Floats


class Batch(NamedTuple):
    """Candidates of several questions in one list; `question` numbers the question of each."""

    features: torch.Tensor
    around: torch.Tensor
    question: torch.Tensor
    quality: torch.Tensor
    stands_for: torch.Tensor
    kind: torch.Tensor
    focus: torch.Tensor
    overview: torch.Tensor
    answerable: torch.Tensor


def examples(questions: Sequence[SpanQuestion], numbers: Numbers) -> list[Example]:
    """Computes the examples; questions about passages without candidates are left out."""
    found = [_example(question, numbers) for question in questions]
    return [example for example in found if len(example.f1)]


def _example(source: SpanQuestion, numbers: Numbers) -> Example:
    tokens = tokenize_text(source.passage)
    question = analyze(source.question, numbers.rarity)
    found = candidates(tokens, question, numbers.rarity, stems_of(source.article))
    f1, exact = np.zeros(len(found.first), np.float32), np.zeros(len(found.first), np.bool_)
    quality = np.zeros(len(found.first), np.float32)
    references = [normalize(answer.text) for answer in source.answers]
    places = [(a.start, a.start + len(a.text)) for a in source.answers if a.start is not None]
    for i in _worth_comparing(tokens, found, references):
        start, end = int(tokens.starts[found.first[i]]), int(tokens.ends[found.last[i]])
        text = normalize(source.passage[start:end])
        f1[i] = max(overlap(text, reference) for reference in references)
        exact[i] = text in references
        there = not places or any(start < stop and end > begin for begin, stop in places)
        quality[i] = f1[i] if there else 0.99 if exact[i] else 0.5 * f1[i]
    part = int(hashlib.sha256(source.article[::-1].encode()).hexdigest()[:8], 16)
    standard = ((found.features - numbers.mean) / numbers.scale).astype(np.float16)
    around = numbers.vocabulary.around(tokens, found)
    asked = numbers.vocabulary.asked(question)
    slim = Candidates(found.first, found.last, found.features[:0], found.overview)
    return Example(source.article, part, bool(references), slim, standard, around, asked, f1, exact, quality)


def _worth_comparing(tokens: Tokens, found: Candidates, references: Sequence[str]) -> Ints:
    """Returns the candidates that share a word with an answer, or a figure if one stands in an answer."""
    wanted = {word for reference in references for word in reference.split()}
    joins = any(any(letter.isdigit() for letter in word) for word in wanted)  # "20-24" becomes "2024"
    hits = [normalize(low) in wanted or (joins and low[0].isdigit()) for low in tokens.lower]
    total = np.concatenate([[0], np.cumsum(hits)])
    return np.flatnonzero(total[found.last + 1] - total[found.first])


def joined(chosen: Sequence[Example], rng: np.random.Generator | None = None) -> Batch:
    """Joins examples to a batch; with `rng`, only good candidates and a draw of the others."""
    columns: list[list[np.ndarray]] = [[] for _ in range(5)]
    for number, example in enumerate(chosen):
        rows, stands_for = np.arange(len(example.f1)), np.ones(len(example.f1), np.float32)
        if rng is not None and len(rows) > DRAWN:
            good = np.flatnonzero(example.quality > 0.5)
            other = np.setdiff1d(rows, good)
            drawn = rng.choice(other, min(DRAWN, len(other)), replace=False)
            rows = np.concatenate([good, drawn])
            share = np.full(len(drawn), len(other) / max(len(drawn), 1), np.float32)
            stands_for = np.concatenate([np.ones(len(good), np.float32), share])
        parts: tuple[np.ndarray, ...] = (
            example.features[rows].astype(np.float32),
            example.around[rows],
            np.full(len(rows), number),
        )
        for column, part in zip(columns, (*parts, example.quality[rows], stands_for), strict=True):
            column.append(part)
    features, around, question, quality, stands = (torch.from_numpy(np.concatenate(column)) for column in columns)
    return Batch(
        features,
        around,
        question,
        quality,
        stands,
        torch.tensor([example.asked[0] for example in chosen]),
        torch.tensor([example.asked[1] for example in chosen]),
        torch.from_numpy(np.stack([example.candidates.overview for example in chosen])),
        torch.tensor([float(example.answerable) for example in chosen]),
    )
