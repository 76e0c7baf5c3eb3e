"""MMSearch's scores: token F1 and the requery, rerank and final scores (arXiv 2409.12959, section 2.3)."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from evaluation.answers import normalize
from indexes.extras import optional

WEIGHTS = {"end_to_end": 0.75, "requery": 0.05, "rerank": 0.10, "summarization": 0.10}
"""Weights of the final score (equation 1)."""


def answer_f1(answer: str, references: Sequence[str]) -> float:
    """Returns the F1 of an answer's words against the best reference's, as MMSearch computes it.

    Both are normalized by SQuAD's rule: lowercased, without punctuation and articles. A date becomes a single word.

    Example:
        >>> answer_f1("The United States", ["United States of America"])
        0.6666666666666666
        >>> answer_f1("2024-11-22", ["2024-11-23"])
        0.0
    """
    given = normalize(answer).split()
    return max((_f1(given, normalize(reference).split()) for reference in references), default=0.0)


def _f1(given: list[str], wanted: list[str]) -> float:
    if not given or not wanted:
        return float(given == wanted)
    common = (Counter(given) & Counter(wanted)).total()
    return 2 * common / (len(given) + len(wanted))


def requery_score(requery: str, reference: str) -> float:
    """Returns the mean of BLEU-1 (NLTK, smoothing 1, words as written) and ROUGE-L's F (rouge-score); 0 if empty.

    Raises:
        ValueError: The extra `mmsearch` is not installed.
    """
    words = requery.split()
    if not words or not reference.split():
        return 0.0
    bleu, rouge = _libraries()
    return (bleu([reference.split()], words) + rouge(reference, requery)) / 2


def can_score_requeries() -> bool:
    """Returns whether the libraries of `requery_score` are installed (the extra `mmsearch`)."""
    return all(importlib.util.find_spec(name) is not None for name in ("nltk", "rouge_score"))


@functools.cache
def _libraries() -> tuple[Callable[[list[list[str]], list[str]], float], Callable[[str, str], float]]:
    modules = ("nltk.translate.bleu_score", "rouge_score.rouge_scorer", "absl.logging")
    bleu, rouge, absl = (optional(module, "mmsearch", "the requery score") for module in modules)
    # Its log handler closes whatever was stderr at import time as soon as logging is reconfigured.
    absl.get_absl_handler().python_handler.setStream(sys.__stderr__)
    smoothing = bleu.SmoothingFunction().method1
    scorer = rouge.RougeScorer(["rougeL"])

    def bleu_1(references: list[list[str]], words: list[str]) -> float:
        return float(bleu.sentence_bleu(references, words, weights=(1, 0, 0, 0), smoothing_function=smoothing))

    return bleu_1, lambda reference, text: float(scorer.score(reference, text)["rougeL"].fmeasure)


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
