"""Questions as arrays: the candidates of each, their features, and the quality of each as an answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from generators.reader.features import Candidates, candidates
from generators.reader.question import analyze
from generators.reader.tokens import Flags, Tokens, stems_of, tokenize_text
from retriever.types import FloatArray, IntArray
from training.reader.questions import SpanQuestion, normalize, overlap
from training.reader.weights import Numbers

DRAWN = 80
"""Candidates drawn per question in a training step, besides the good ones."""
KEPT = 200
"""Candidates kept per question to draw from, besides the good ones."""


class Example(NamedTuple):
    """A question with its candidates.

    Attributes:
        article: Title of the article.
        part: A number from the hash of the title.
        answerable: True if it has answers.
        candidates: The candidates.
        features: The standardized features of the candidates, float16.
        around: The classes of the words around the candidates.
        asked: Kind, focus and key words of the question.
        f1: SQuAD's F1 of each candidate.
        exact: True for candidates that match an answer exactly.
        quality: F1, reduced for candidates that are not where the answer is.
    """

    article: str
    part: int
    answerable: bool
    candidates: Candidates
    features: np.ndarray
    around: IntArray
    asked: tuple[int, int, int, int]
    f1: FloatArray
    exact: Flags
    quality: FloatArray


class Batch(NamedTuple):
    """Candidates of several questions in one list; `question` has the number of each candidate's question."""

    features: torch.Tensor
    around: torch.Tensor
    question: torch.Tensor
    quality: torch.Tensor
    stands_for: torch.Tensor
    kind: torch.Tensor
    focus: torch.Tensor
    keys: torch.Tensor
    overview: torch.Tensor
    answerable: torch.Tensor


def examples(
    questions: Sequence[SpanQuestion], numbers: Numbers, rng: np.random.Generator | None = None
) -> Iterator[Example]:
    """Yields the examples; questions about passages without candidates are left out.

    Args:
        questions: The questions.
        numbers: Vocabulary and scale of the features.
        rng: If given, only the good candidates and `KEPT` others are kept, which saves memory.
    """
    for question in questions:
        example = _example(question, numbers)
        if len(example.f1):
            yield example if rng is None else _thinned(example, rng)


def _thinned(example: Example, rng: np.random.Generator) -> Example:
    good, others, _ = _draw(example, KEPT, rng)
    rows, old = np.concatenate([good, others]), example.candidates
    return example._replace(
        candidates=replace(
            old, first=old.first[rows], last=old.last[rows], links=old.links[rows], doubts=old.doubts[rows]
        ),
        features=example.features[rows],
        around=example.around[rows],
        f1=example.f1[rows],
        exact=example.exact[rows],
        quality=example.quality[rows],
    )


def _draw(example: Example, count: int, rng: np.random.Generator) -> tuple[IntArray, IntArray, int]:
    """Returns the good candidates, up to `count` of the others, and how many others there are."""
    good = np.flatnonzero(example.quality > 0.5)
    others = np.setdiff1d(np.arange(len(example.f1)), good)
    return good, rng.choice(others, min(count, len(others)), replace=False), len(others)


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
        if there:
            quality[i] = f1[i]
        else:
            quality[i] = 0.99 if exact[i] else 0.5 * f1[i]
    standard = ((found.features - numbers.mean) / numbers.scale).astype(np.float16)
    around = numbers.vocabulary.around(tokens, found)
    asked = numbers.vocabulary.asked(question)
    # a view of no rows would keep all of them in memory
    slim = replace(
        found,
        features=np.zeros((0, 0), np.float32),
        links=found.links.astype(np.float16),
        doubts=found.doubts.astype(np.float16),
    )
    part = part_of(source.article)
    return Example(source.article, part, bool(references), slim, standard, around, asked, f1, exact, quality)


def part_of(article: str) -> int:
    """Returns a number from the hash of an article's title."""
    return int(hashlib.sha256(article[::-1].encode()).hexdigest()[:8], 16)


def _worth_comparing(tokens: Tokens, found: Candidates, references: Sequence[str]) -> IntArray:
    """Returns the candidates that share a word with an answer or, if an answer contains a digit, contain a number."""
    wanted = {word for reference in references for word in reference.split()}
    joins = any(any(letter.isdigit() for letter in word) for word in wanted)  # "20-24" becomes "2024"
    hits = [normalize(low) in wanted or (joins and low[0].isdigit()) for low in tokens.lower]
    total = np.concatenate([[0], np.cumsum(hits)])
    return np.flatnonzero(total[found.last + 1] - total[found.first])


def joined(chosen: Sequence[Example], rng: np.random.Generator | None = None) -> Batch:
    """Joins examples into a batch; with `rng`, only good candidates and a random draw of the others."""
    drawn = [_drawn(example, rng) for example in chosen]

    def column(name: str) -> torch.Tensor:
        parts = [getattr(example, name)[rows] for example, (rows, _) in zip(chosen, drawn, strict=True)]
        return torch.from_numpy(np.concatenate(parts))

    return Batch(
        features=column("features").float(),
        around=column("around"),
        question=torch.arange(len(chosen)).repeat_interleave(torch.tensor([len(rows) for rows, _ in drawn])),
        quality=column("quality"),
        stands_for=torch.from_numpy(np.concatenate([stands_for for _, stands_for in drawn])),
        kind=torch.tensor([example.asked[0] for example in chosen]),
        focus=torch.tensor([example.asked[1] for example in chosen]),
        keys=torch.tensor([example.asked[2:] for example in chosen]),
        overview=torch.from_numpy(np.stack([example.candidates.overview for example in chosen])),
        answerable=torch.tensor([float(example.answerable) for example in chosen]),
    )


def _drawn(example: Example, rng: np.random.Generator | None) -> tuple[IntArray, FloatArray]:
    """Returns the rows of the candidates that a batch gets, and for how many candidates each of them stands."""
    rows = np.arange(len(example.f1))
    if rng is None or len(rows) <= DRAWN:
        return rows, np.ones(len(rows), np.float32)
    good, drawn, others = _draw(example, DRAWN, rng)
    share = np.full(len(drawn), others / max(len(drawn), 1), np.float32)
    return np.concatenate([good, drawn]), np.concatenate([np.ones(len(good), np.float32), share])
