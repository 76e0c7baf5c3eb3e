"""BM25 as step 3's reranker: no weights, half a millisecond per article."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from retriever.deixis import without_deixis
from retriever.lexical import Concept, Lexicon, Synonyms, tokenize
from retriever.types import FloatArray

LABEL_BONUS = 4.0
"""Extra occurrences that a label adds to its words, divided among them, at a label weight of 1."""
_LABEL = re.compile(r"(?:^|(?<=; ))([^:;.\n]{2,60}):(?=\s|$)", re.MULTILINE)


class BM25:
    """Scores the passages of one article against a question (implements `retriever.protocols.TextReranker`).

    A question's words become concepts; a concept scores by the best of its phrases, synonyms weighted by
    `synonym_weight`. Inverse document frequencies come from the passages of one list. A score is divided by the highest
    that the question could reach in its list (every concept that occurs at all, saturated), which makes it comparable
    with `sim_m`.

    Args:
        k1: Saturation of repeated words, 0 or more.
        b: Penalty of long passages, 0 to 1.
        synonyms: For each phrase those that may replace it (`retriever.lexical.load_synonyms`).
        synonym_weight: Weight of a synonym relative to the question's own word, 0 to 1.
        label_weight: Weight of a concept that is a complete label ("Area: total: 26 sq km") of a passage; 0 is plain
            BM25.

    Raises:
        ValueError: A setting is out of range.
    """

    def __init__(
        self,
        k1: float = 1.2,
        b: float = 0.75,
        synonyms: Synonyms | None = None,
        synonym_weight: float = 0.7,
        label_weight: float = 0.7,
    ) -> None:
        if k1 < 0 or not 0 <= b <= 1 or not 0 <= synonym_weight <= 1 or label_weight < 0:
            raise ValueError(
                "k1 and label_weight must be 0 or more, b and synonym_weight in 0..1; "
                f"got {k1=}, {b=}, {synonym_weight=}, {label_weight=}"
            )
        self.k1, self.b, self.synonym_weight, self.label_weight = k1, b, synonym_weight, label_weight
        self._lexicon = Lexicon(synonyms)

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
        counts, sizes = zip(*(_counts(text, LABEL_BONUS * self.label_weight) for text in passages), strict=True)
        lengths = np.array(sizes, np.float32)
        norms = self.k1 * (1 - self.b + self.b * lengths / max(float(lengths.mean()), 1.0))
        reachable = 0.0
        for concept in self._lexicon.concepts(without_deixis(question)):
            for as_label in (False, True) if self.label_weight else (False,):
                best, bound = self._concept(concept, counts, norms, as_label)
                scores += best
                reachable += bound
        if reachable:
            scores /= reachable
        return scores

    def _concept(
        self, concept: Concept, counts: Sequence[dict[str, float]], norms: FloatArray, as_label: bool
    ) -> tuple[FloatArray, float]:
        """Scores each passage by a concept's best phrase; returns the scores and their upper bound."""
        best, bound = np.zeros(len(counts), np.float32), 0.0
        rarest = math.inf  # a synonym counts as no rarer than the word that it replaces
        for i, phrase in enumerate(concept.phrases):
            terms = (" ".join(phrase) + ":",) if as_label else phrase
            frequency = np.array([min(count.get(term, 0.0) for term in terms) for count in counts], np.float32)
            containing = int(np.count_nonzero(frequency))
            if not containing:
                continue
            rarity = math.log(1 + (len(counts) - containing + 0.5) / (containing + 0.5))
            if i == 0:
                rarest = rarity
            weight = (1.0 if i < concept.literal else self.synonym_weight) * (self.label_weight if as_label else 1.0)
            top = weight * min(rarity, rarest) * (self.k1 + 1)
            np.maximum(best, top * frequency / (frequency + norms), out=best, where=frequency > 0)
            bound = max(bound, top)
        return best, bound


@lru_cache(maxsize=16384)
def _counts(text: str, label_bonus: float) -> tuple[dict[str, float], int]:
    """Counts a text's words and complete labels (as "median ag:"); returns the counts and the number of words."""
    tokens = tokenize(text)
    counts: dict[str, float] = dict(Counter(tokens))
    bonus: dict[str, float] = {}
    for label in map(tokenize, _LABEL.findall(text)):
        counts[" ".join(label) + ":"] = 1.0
        for word in label:
            bonus[word] = max(bonus.get(word, 0.0), label_bonus / len(label))
    for word, extra in bonus.items():
        counts[word] += extra
    return counts, len(tokens)
