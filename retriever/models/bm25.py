"""BM25 as step 3's reranker: no neural network, a few milliseconds per article."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from retriever.deixis import without_deixis
from retriever.lexical import best_label, implied, is_english, labels_of, rarity, sentences, tokenize
from retriever.types import FloatArray

Term = str | tuple[str, str]
LABEL_WEIGHT = 0.75
"""Chosen on Atlas's dev questions (`docs/decisions.md`)."""


class _Text(NamedTuple):
    """A tokenized passage: its number of stems, the positions of each, and the stems of each sentence and label."""

    length: int
    positions: Mapping[str, Sequence[int]]
    sentences: tuple[frozenset[str], ...]
    labels: frozenset[frozenset[str]]

    def frequency(self, term: Term) -> int:
        """Returns how often a stem, or a pair of adjacent stems in either order, occurs in the passage."""
        if isinstance(term, str):
            return len(self.positions.get(term, ()))
        first, second = (self.positions.get(stem, ()) for stem in term)
        neighbors = (1,) if term[0] == term[1] else (-1, 1)
        return sum(position + step in second for position in first for step in neighbors) if second else 0


class BM25:
    """Scores the passages of one article against a question (implements `retriever.protocols.TextReranker`).

    Terms are the question's stems, without the words that only point at the image, and pairs of adjacent stems in
    either order, which count less; some question words imply others ("how tall": height). A term's weight is its
    inverse document frequency among the passages of one list, times a power of its rarity in encyclopedic prose:
    in an article of 20 passages, "begin" may be as rare as a name. A passage also scores for the question's words that
    occur together in one of its sentences. A first line that all passages share does not count. Scores are divided by
    the highest that the question could reach in its list (every term that occurs at all, saturated), which makes them
    comparable with `sim_m`. The label of a value ("Population: 4 million") says more than other words: the more of a
    label's words the question has or implies, the closer its passage's score gets to 1.

    Args:
        k1: Saturation of repeated words, 0 or more.
        b: Penalty of long passages, 0 to 1.
        pair_weight: Weight of a pair relative to a word, 0 or more; 0 leaves pairs out.
        rarity_power: Power of the rarity in prose, 0 or more; 0 leaves it out.
        sentence_weight: Weight of the best sentence, 0 or more. In plain BM25, this and the two above are 0.
        whole_question: Whether scores are multiplied by the share of the question's words (by their rarity) that occur
            at all. It changes no order, but one word of many then says little.
        label_weight: How far a label that has exactly the question's words moves a passage's score to 1, 0 to 1.

    Raises:
        ValueError: A setting is out of range.
    """

    def __init__(
        self,
        k1: float = 1.2,
        b: float = 0.75,
        pair_weight: float = 0.4,
        rarity_power: float = 0.7,
        sentence_weight: float = 1.0,
        whole_question: bool = False,
        label_weight: float = LABEL_WEIGHT,
    ) -> None:
        if min(k1, pair_weight, rarity_power, sentence_weight) < 0 or not (0 <= b <= 1 and 0 <= label_weight <= 1):
            values = f"{k1=}, {b=}, {pair_weight=}, {rarity_power=}, {sentence_weight=}, {label_weight=}"
            raise ValueError(f"b and label_weight must be in 0..1, all other settings 0 or more; got {values}")
        self.k1, self.b, self.pair_weight = k1, b, pair_weight
        self.rarity_power, self.sentence_weight, self.whole_question = rarity_power, sentence_weight, whole_question
        self.label_weight = label_weight

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
        english = is_english(question)
        texts = [_read(passage, english) for passage in _without_shared_line(passages)]
        lengths = np.array([text.length for text in texts], np.float32)
        norms = self.k1 * (1 - self.b + self.b * lengths / max(float(lengths.mean()), 1.0))
        reachable, words, asked = 0.0, dict[str, float](), list[str]()
        core = without_deixis(question)
        for term in dict.fromkeys([*_terms(tokenize(core, english)), *implied(core)]):
            if isinstance(term, str):
                asked.append(term)
            frequency = np.array([text.frequency(term) for text in texts], np.float32)
            containing = int(np.count_nonzero(frequency))
            if containing:
                weight = math.log(1 + (len(texts) - containing + 0.5) / (containing + 0.5)) * self._weight(term)
                top = weight * (self.k1 + 1)
                np.add(scores, top * frequency / (frequency + norms), out=scores, where=frequency > 0)
                reachable += top
                if isinstance(term, str):
                    words[term] = weight
        if self.sentence_weight:
            best = [
                max((sum(words[word] for word in words if word in part) for part in text.sentences), default=0.0)
                for text in texts
            ]
            scores += self.sentence_weight * np.array(best, np.float32)
            reachable += self.sentence_weight * sum(words.values())
        if self.whole_question and words:
            reachable *= sum(map(self._weight, asked)) / sum(map(self._weight, words))
        if reachable:
            scores /= np.float32(reachable)
        if self.label_weight and words:
            own = tokenize(core, english)
            labels = np.array([best_label(text.labels, asked, own, self._weight) for text in texts], np.float32)
            scores += (1 - scores) * np.float32(self.label_weight) * labels
        return scores

    def _weight(self, term: Term) -> float:
        """Returns the factor by which a term's inverse document frequency is multiplied."""
        if isinstance(term, str):
            return math.pow(rarity(term), self.rarity_power)
        return self.pair_weight * math.pow((rarity(term[0]) + rarity(term[1])) / 2, self.rarity_power)


def _without_shared_line(passages: Sequence[str]) -> Sequence[str]:
    """Drops a first line that all passages share: the article's title does not tell its sections apart."""
    shared = passages[0].partition("\n")[0] + "\n"
    if len(passages) < 2 or not all(passage.startswith(shared) for passage in passages):
        return passages
    return [passage[len(shared) :] for passage in passages]


def _terms(stems: Sequence[str]) -> list[Term]:
    return [*stems, *((min(pair), max(pair)) for pair in pairwise(stems))]


@lru_cache(maxsize=4096)  # about 13 KB each
def _read(passage: str, english: bool) -> _Text:
    lines = sentences(passage)
    parts = [tokenize(line, english) for line in lines]
    positions = defaultdict[str, list[int]](list)
    for position, stem in enumerate(chain.from_iterable(parts)):
        positions[stem].append(position)
    labels = frozenset(label for line in lines for label in labels_of(line, english))
    return _Text(sum(map(len, parts)), positions, tuple(map(frozenset, parts)), labels)
