"""MMSearch's scores, worked out by hand, including cases where the published code fails."""

from __future__ import annotations

import pytest

from evaluation.answers import answer_f1
from evaluation.search.scores import final_score, requery_score, rerank_score, rouge_l


@pytest.mark.parametrize(
    ("answer", "references", "score"),
    [
        ("Niamey", ["Niamey"], 1.0),
        ("The capital, Niamey!", ["Niamey"], 2 / 3),  # capital, niamey
        ("niamey", ["Zinder", "NIAMEY."], 1.0),  # the best of several
        ("2024-11-22", ["20241122"], 1.0),  # a date is one word
        ("22 November 2024", ["2024-11-22"], 0.0),
        ("", ["Niamey"], 0.0),
        ("the", [""], 1.0),  # both are empty after normalization
        ("a a b", ["b b a"], 2 / 3),  # articles do not count: precision 1 of 1, recall 1 of 2
        ("x", [], 0.0),
    ],
)
def test_answer_f1_equals_values_by_hand(answer: str, references: list[str], score: float) -> None:
    assert answer_f1(answer, references) == pytest.approx(score)


def test_requery_score() -> None:
    pytest.importorskip("nltk", reason="needs the extra mmsearch")
    assert requery_score("iPhone 16 release date", "iPhone 16 release date") == pytest.approx(1)
    # BLEU-1: 2 of 3 words, case counts, as in ROUGE-L: 2 of 3 and 2 of 4, F = 4 / 7. Brevity: exp(1 - 4 / 3).
    assert requery_score("iphone 16 release", "iPhone 16 release date") == pytest.approx(
        (2 / 3 * 2.718281828 ** (1 - 4 / 3) + 4 / 7) / 2
    )
    assert requery_score("wholly different", "iPhone 16") < 0.05  # not 0 because of smoothing


@pytest.mark.parametrize(
    ("text", "reference", "score"),
    [
        ("a b c", "a c d", 2 * (2 / 3) * (2 / 3) / (4 / 3)),
        ("a a a", "a", 1.0),  # each word counts once
        ("a b. c d", "c d e", 2 * (2 / 4) * (2 / 3) / (2 / 4 + 2 / 3)),  # the second sentence
        ("b a", "a b", 0.5),  # one word of the subsequence, of two
        (".", "a", 0.0),
    ],
)
def test_rouge_l_equals_values_by_hand(text: str, reference: str, score: float) -> None:
    assert rouge_l(text, reference) == pytest.approx(score, abs=1e-7)


def test_an_empty_requery_scores_zero() -> None:
    """The published code raises a ValueError."""
    assert requery_score("", "a") == requery_score(" \n", "a") == requery_score("a", "") == 0


def test_rerank_score() -> None:
    """In the published code website 0 is the last one, and website 9 an IndexError."""
    assert [rerank_score(chosen, [1], [2, 7]) for chosen in (1, 2, 0, 7, None)] == [1, 0.5, 0, 0.5, 0]


def test_final_score() -> None:
    """0.75 * 0.6 + 0.05 * 0.5 + 0.1 * 0.5 + 0.1 * 0.9, by hand."""
    scores = {"end_to_end": 0.6, "requery": 0.5, "rerank": 0.5, "summarization": 0.9}
    assert final_score(scores) == pytest.approx(0.45 + 0.025 + 0.05 + 0.09)
    assert final_score({**scores, "rerank": None}) is None
