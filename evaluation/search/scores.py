"""MMSearch's scores: token F1 and the requery, rerank and final scores (arXiv 2409.12959, section 2.3)."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Collection, Mapping, Sequence

from indexes.extras import optional

WEIGHTS = {"end_to_end": 0.75, "requery": 0.05, "rerank": 0.10, "summarization": 0.10}
"""Weights of the final score (equation 1)."""


def requery_score(requery: str, reference: str) -> float:
    """Returns the mean of BLEU-1 (NLTK, smoothing 1, words as written) and ROUGE-L's F (`rouge_l`); 0 if empty.

    Raises:
        ValueError: The extra `mmsearch` is not installed.
    """
    words = requery.split()
    if not words or not reference.split():
        return 0.0
    return (_bleu()([reference.split()], words) + rouge_l(requery, reference)) / 2


def rouge_l(text: str, reference: str) -> float:
    """Returns ROUGE-L's F as the package `rouge` computes it, which MMSearch uses; 0 if a side has no sentence.

    A sentence ends at a point, words are separated by spaces and counted once, and case matters. What is common are the
    words of the longest common subsequences of all pairs of sentences.

    Example:
        >>> round(rouge_l("the cat sat", "the cat lay down"), 6)
        0.571429
    """
    given, wanted = _sentences(text), _sentences(reference)
    if not given or not wanted:
        return 0.0
    common = len({word for one in wanted for other in given for word in _common_subsequence(one, other)})
    precision, recall = (common / len({word for one in side for word in one}) for side in (given, wanted))
    return 2.0 * precision * recall / (precision + recall + 1e-8)


def _sentences(text: str) -> list[list[str]]:
    return [" ".join(piece.split()).split(" ") for piece in text.split(".") if piece]


def _common_subsequence(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Returns the longest common subsequence; of several, the one that skips words of `other` first, from the end."""
    lengths = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, word in enumerate(one, start=1):
        for j, its in enumerate(other, start=1):
            same = word == its
            lengths[i][j] = lengths[i - 1][j - 1] + 1 if same else max(lengths[i - 1][j], lengths[i][j - 1])
    words, i, j = [], len(one), len(other)
    while i and j:
        if one[i - 1] == other[j - 1]:
            words.append(one[i - 1])
            i, j = i - 1, j - 1
        elif lengths[i - 1][j] > lengths[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return words


def can_score_requeries() -> bool:
    """Returns whether the library of `requery_score` is installed (the extra `mmsearch`)."""
    return importlib.util.find_spec("nltk") is not None


@functools.cache
def _bleu() -> Callable[[list[list[str]], list[str]], float]:
    bleu = optional("nltk.translate.bleu_score", "mmsearch", "the requery score")
    smoothing = bleu.SmoothingFunction().method1

    def bleu_1(references: list[list[str]], words: list[str]) -> float:
        return float(bleu.sentence_bleu(references, words, weights=(1, 0, 0, 0), smoothing_function=smoothing))

    return bleu_1


def rerank_score(chosen: int | None, valid: Collection[int], unsure: Collection[int]) -> float:
    """Returns 1 for a valid website, one half for an unsure one, and 0 for any other or none.

    Args:
        chosen: Position of the website, from 0; `None` if the reply named none.
        valid: Positions that are likely to hold the answer.
        unsure: Positions whose relevance is hard to tell.
    """
    if chosen in valid:
        return 1.0
    return 0.5 if chosen in unsure else 0.0


def final_score(scores: Mapping[str, float | None]) -> float | None:
    """Returns the weighted sum of the four scores, `None` if one is missing.

    Example:
        >>> round(final_score({"end_to_end": 0.6, "requery": 0.4, "rerank": 0.8, "summarization": 0.7}), 4)
        0.62
    """
    given = {name: scores.get(name) for name in WEIGHTS}
    known = {name: score for name, score in given.items() if score is not None}
    return sum(WEIGHTS[name] * score for name, score in known.items()) if len(known) == len(WEIGHTS) else None
