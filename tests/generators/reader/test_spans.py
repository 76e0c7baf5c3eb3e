"""Spans by hand: words stay whole, brackets and ranges have both ends, and a title is no answer."""

from __future__ import annotations

import numpy as np
import pytest

from generators.reader.model import Window
from generators.reader.spans import best_span, trimmed


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("won (in June 1996) twice", "(in June 1996", "(in June 1996)"),
        ("won (in June 1996) twice", "(in June", "in June"),
        ("called \u201cThe Hill\u201d today", "The Hill\u201d", "The Hill"),
        ('called "The Hill" today', '"The Hill', '"The Hill"'),
        ('at least 12" away', '12"', '12"'),
        ("It opened in March.", "March.", "March"),
        ("It leads to St.", "St.", "St"),
        ("President 1695\u20131696, then", "1695", "1695\u20131696"),
        ("Color: red; blue", ": red;", "red"),
    ],
)
def test_a_span_has_both_brackets_or_none_and_both_ends_of_a_range(text: str, part: str, expected: str) -> None:
    start = text.index(part)
    assert text[slice(*trimmed(text, start, start + len(part)))] == expected


def window(text: str, pieces: list[str]) -> Window:
    """A window of a text's pieces, after [CLS]."""
    places, at = [], 0
    for piece in pieces:
        at = text.index(piece, at)
        places.append((at, at + len(piece)))
        at += len(piece)
    return Window([0] * (len(pieces) + 2), [0] + [1] * (len(pieces) + 1), 1, places)


def test_an_answer_begins_and_ends_with_words() -> None:
    text, pieces = "N95 particulate masks", ["N", "95", "part", "iculate", "masks"]
    scores = np.zeros((7, 2), np.float32)
    scores[2, 0] = scores[3, 1] = 5  # "95 part"
    scores[1, 0] = scores[4, 1] = 4
    span = best_span(window(text, pieces), scores, "Which masks?", text, "")
    assert span is not None and text[span.start : span.end] == "N95 particulate"
    assert span.margin == 8 and span.share < 0


def test_a_title_is_no_answer() -> None:
    text, pieces = "The Long Arm sews quilts", ["The", "Long", "Arm", "sews", "quilts"]
    scores = np.zeros((7, 2), np.float32)
    scores[1, 0] = scores[3, 1] = 5  # "The Long Arm"
    scores[5, 0] = scores[5, 1] = 2
    found = best_span(window(text, pieces), scores, "What is it?", text, "Long arm")
    assert found is not None and text[found.start : found.end] != "The Long Arm"
    named = best_span(window(text, pieces), scores, "What is it?", text, "Quilting")
    assert named is not None and text[named.start : named.end] == "The Long Arm"


def test_a_text_without_words_has_no_span() -> None:
    assert best_span(window("...", ["."]), np.zeros((3, 2), np.float32), "Why?", "...", "") is None


@pytest.mark.parametrize(
    ("text", "pieces", "question", "expected"),
    [
        ("Box: cards; a die; ink", ["Box", ":", "cards", ";", "a", "die", ";", "ink"], "What?", "cards; a die; ink"),
        ("Age: total: 29; male: 28", ["Age", ":", "total", ":", "29", ";", "male", ":", "28"], "Which?", "29"),
        ("4 eggs hatch", ["4", "eggs", "hatch"], "How many eggs hatch?", "4"),
    ],
)  # fmt: skip
def test_lists_stay_whole_and_quantities_echo_nothing(
    text: str, pieces: list[str], question: str, expected: str
) -> None:
    first = next(i for i, piece in enumerate(pieces) if expected.startswith(piece))
    scores = np.zeros((len(pieces) + 2, 2), np.float32)
    scores[1 + first, 0] = scores[1 + first + (pieces[first] == "4"), 1] = 5
    span = best_span(window(text, pieces), scores, question, text, "")
    assert span is not None and text[span.start : span.end] == expected


def test_the_value_with_the_questions_label_gains() -> None:
    text, pieces = "Climate: mild\nMedian age: 29", ["Climate", ":", "mild", "Median", "age", ":", "29"]
    scores = np.zeros((9, 2), np.float32)
    scores[3] = 0.9  # "mild" twice 0.9, "29" nothing
    found = best_span(window(text, pieces), scores, "What is the median age?", text, "")
    assert found is not None and text[found.start : found.end] == "29" and found.margin == 3
    found = best_span(window(text, pieces), scores, "What is the climate?", text, "")
    assert found is not None and text[found.start : found.end] == "mild"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the range?", "9"),
        ("What is its Max. range?", "8"),
        ("What is the price?", "6"),
        ("What is the sale price?", "5"),
    ],
)
def test_the_label_without_other_words_is_meant(question: str, expected: str) -> None:
    text = "Max. range: 8\nRange: 9\nMin. fare: 2\nFare: 3\nSale price: 5\nPrice: 6"
    pieces = text.replace("\n", " ").split()
    scores = np.zeros((len(pieces) + 2, 2), np.float32)
    scores[[1 + pieces.index(one) for one in "893256"]] = 1
    found = best_span(window(text, pieces), scores, question, text, "")
    assert found is not None and text[found.start : found.end] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Times appeared daily. Later the Sunday Times", "Sunday Times"),
        ('He "left the bus." Then the Sunday Times', "Sunday Times"),
        ("Dr. St. John met the Sunday Times", "Dr. St. John met the Sunday Times"),
        ("to Prof. Smith of the Sunday Times", "to Prof. Smith of the Sunday Times"),
        ("about 4.2 Times of old Sunday Times", "about 4.2 Times of old Sunday Times"),
    ],
)
def test_no_answer_crosses_the_end_of_a_sentence(text: str, expected: str) -> None:
    pieces = text.split()
    scores = np.zeros((len(pieces) + 2, 2), np.float32)
    scores[1, 0], scores[-3, 0], scores[-2, 1] = 3, 2, 3  # starts: the first word, less likely "Sunday"
    span = best_span(window(text, pieces), scores, "Who?", text, "")
    assert span is not None and text[span.start : span.end] == expected
