"""Features that link a span to particular words of the question: its key words, names, and adjacent pairs of words."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from generators.reader.question import AnalyzedQuestion
from generators.reader.tokens import Flags, Tokens
from retriever.types import FloatArray, IntArray

REACH = 5.0
"""Distance in tokens over which the link to a word decays by a factor of e."""
NEAR = 3
"""Maximum distance in tokens between the two words of a pair."""


def links(
    tokens: Tokens, question: AnalyzedQuestion, asked: IntArray, cover: FloatArray, first: IntArray, last: IntArray
) -> FloatArray:
    """Returns the links of each span, float32 [spans, 19].

    Args:
        tokens: The evidence.
        question: The question.
        asked: The number of the question's word that each token matches, or -1.
        cover: Share of the question that each sentence covers.
        first: First token of each span.
        last: Last token of each span.
    """
    words, sentence = list(question.words), tokens.sentence[first]
    weights = np.array(list(question.words.values()), np.float32)
    share = weights / (float(weights.sum()) or 1.0)
    left = np.zeros((len(words) + 1, len(first)), np.float32)  # the last row is for missing words
    right, there = left.copy(), np.zeros((len(words) + 1, len(cover)), np.bool_)
    for i in range(len(words)):
        places = np.flatnonzero(asked == i)
        left[i], right[i] = _beside(places, tokens, first, last)
        there[i, tokens.sentence[places]] = True
    columns: list[FloatArray | Flags | NDArray[np.float64]] = []
    rarest = int(weights.argmax()) if len(words) else -1
    position = {word: i for i, word in enumerate(words)}
    for key in (*(position.get(word, -1) for word in question.keys), rarest):
        columns += [left[key], right[key], there[key][sentence]]
    columns += [share @ left[:-1], share @ right[:-1], share @ np.maximum(left, right)[:-1]]
    names = np.array([word in question.exact for word in words], np.float32)
    columns += [(names @ there[:-1] / max(names.sum(), 1))[sentence], np.full(len(first), min(names.sum(), 3) / 3)]
    columns += [_pairs(asked, tokens.sentence, len(words), len(cover))[sentence]]
    rank = np.argsort(np.argsort(-cover, kind="stable"), kind="stable")
    columns += [rank[sentence] / 5, _weighted_missing(share, there)[sentence]]
    free = asked < 0
    for flag in (tokens.number & free, _opens(tokens.capital & free)):
        columns += [1 / (1 + np.bincount(tokens.sentence, flag, len(cover))[sentence])]
    return np.stack([np.asarray(column, np.float32) for column in columns], 1)


def _beside(places: IntArray, tokens: Tokens, first: IntArray, last: IntArray) -> tuple[FloatArray, FloatArray]:
    """Returns the closeness of a word's nearest occurrences before and after each span; 0 in another sentence."""
    count = len(tokens.lower)
    padded = np.concatenate([[-1], places, [count]])
    before = padded[np.searchsorted(padded, first, "left") - 1]
    after = padded[np.searchsorted(padded, last, "right").clip(max=len(padded) - 1)]
    results = []
    for place, distance in ((before, first - before), (after, after - last)):
        inside = (place >= 0) & (place < count)
        inside &= tokens.sentence[place.clip(0, count - 1)] == tokens.sentence[first]
        results.append(np.where(inside, np.exp((1 - distance) / REACH), 0.0).astype(np.float32))
    return results[0], results[1]


def _pairs(asked: IntArray, sentence: IntArray, words: int, sentences: int) -> FloatArray:
    """Returns the share of the question's adjacent word pairs that each sentence has close together."""
    hits = np.flatnonzero(asked >= 0)
    found: list[set[int]] = [set() for _ in range(sentences)]
    for i, j in pairwise(hits.tolist()):
        close = j - i <= NEAR and sentence[i] == sentence[j] and abs(int(asked[i] - asked[j])) == 1
        if close:
            found[int(sentence[i])].add(int(min(asked[i], asked[j])))
    return np.array([len(each) / max(words - 1, 1) for each in found], np.float32)


def _weighted_missing(share: FloatArray, there: Flags) -> FloatArray:
    """Returns the share of the heaviest word of the question that each sentence lacks."""
    return np.asarray(np.where(there[:-1], 0, share[:, None]).max(0, initial=0), np.float32)


def _opens(flags: Flags) -> Flags:
    return np.asarray(flags & ~np.concatenate([[False], flags[:-1]]), np.bool_)
