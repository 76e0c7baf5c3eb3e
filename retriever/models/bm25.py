"""BM25 as step 3's reranker: no weights, half a millisecond per article."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from retriever.deixis import without_deixis
from retriever.lexical import implied, tokenize
from retriever.types import FloatArray

Term = str | tuple[str, str]


class BM25:
    """Scores the passages of one article against a question (implements `retriever.protocols.TextReranker`).

    Terms are the question's stems, without the words that only point at the image, and pairs of adjacent stems in
    either order, which count less; some question words imply others ("how tall": height). Inverse document frequencies
    come from the passages of one list. A score is divided by the highest that the question could reach in its list
    (every term that occurs at all, saturated), which makes it comparable with `sim_m`.

    Args:
        k1: Saturation of repeated words, 0 or more.
        b: Penalty of long passages, 0 to 1.
        pair_weight: Weight of a pair relative to a word, 0 or more; 0 is plain BM25.

    Raises:
        ValueError: A setting is out of range.
    """

    def __init__(self, k1: float = 1.2, b: float = 0.75, pair_weight: float = 0.4) -> None:
        if k1 < 0 or not 0 <= b <= 1 or pair_weight < 0:
            raise ValueError(f"k1 and pair_weight must be 0 or more, b in 0..1; got {k1=}, {b=}, {pair_weight=}")
        self.k1, self.b, self.pair_weight = k1, b, pair_weight

    def score(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Scores each question's passages in [0, 1]; returns float32 [len(passages[i])] per question.

        Raises:
            ValueError: The numbers of questions and of lists of passages differ.
        """
        if len(questions) != len(passages):
            raise ValueError(f"passages: must have one list per question, {len(questions)}, got {len(passages)}")
        return [self._score(question, texts) for question, texts in zip(questions, passages, strict=True)]

    def _score(self, question: str, passages: Sequence[str]) -> FloatArray:
        scores = np.zeros(len(passages), np.float32)
        if not passages:
            return scores
        counts, sizes = zip(*(_counts(text) for text in passages), strict=True)
        lengths = np.array(sizes, np.float32)
        norms = self.k1 * (1 - self.b + self.b * lengths / max(float(lengths.mean()), 1.0))
        reachable = 0.0
        core = without_deixis(question)
        for term in dict.fromkeys([*_terms(core), *implied(core)]):
            frequency = np.array([count.get(term, 0) for count in counts], np.float32)
            containing = int(np.count_nonzero(frequency))
            if containing:
                top = math.log(1 + (len(counts) - containing + 0.5) / (containing + 0.5)) * (self.k1 + 1)
                top *= self.pair_weight if isinstance(term, tuple) else 1.0
                np.add(scores, top * frequency / (frequency + norms), out=scores, where=frequency > 0)
                reachable += top
        return scores / np.float32(reachable) if reachable else scores


def _terms(text: str) -> list[Term]:
    stems = tokenize(text)
    return [*stems, *((min(pair), max(pair)) for pair in pairwise(stems))]


@lru_cache(maxsize=16384)
def _counts(text: str) -> tuple[Mapping[Term, int], int]:
    """Counts a text's terms; returns the counts and the number of words."""
    return Counter(_terms(text)), len(tokenize(text))
