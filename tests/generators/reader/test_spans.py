"""Spans by hand: words stay whole, quantities keep units, signs and both ends, and a title is no answer."""

from __future__ import annotations

import numpy as np
import pytest

from generators.reader.model import Window
from generators.reader.spans import best_span, whole


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("It is 20\u201324 cm long.", "20", "20\u201324 cm"),
        ("four to six eggs", "six", "four to six"),
        ("stay 12\u2033 away", "12", "12\u2033"),
        ('at least 12" away', "12", '12"'),
        ("about -5.2 \u00b0C now", "5.2", "-5.2 \u00b0C"),
        ("costs $4.2 million", "4.2", "$4.2 million"),
        ("Height: 6 ft 1 in\nx", "6 ft", "6 ft 1 in"),
        ("Weight: 11 st 4 lb", "11", "11 st 4 lb"),
        ("Length: 20 ft in all", "20", "20 ft"),
        ("1/8 to 1/4 inch", "1/8", "1/8 to 1/4 inch"),
        ("total: 62.2 years (2025 est.)", "62.2", "62.2 years"),
        ("rate: 4.1 % (2017)", "4.1", "4.1 %"),
        ("founded in 1967 by", "1967", "1967"),
        ("3 in the morning", "3", "3"),
        ("won (in June 1996) twice", "(in June 1996", "(in June 1996)"),
        ("called \u201cThe Hill\u201d today", "The Hill\u201d", "The Hill"),
        ("It opened in March.", "March.", "March"),
        ("Independence Day, 1 January (1804)", "1", "1 January"),
        ("on 3 March 1958, he", "3", "3 March 1958"),
        ("12 mayors", "12", "12"),
        ("opened in March 2000 by", "March", "March 2000"),
        ("on May 3, 1999", "May", "May 3, 1999"),
        ("chimes at 15, 30 and 45 past", "15, 30", "15, 30 and 45"),
        ("in 1,200 and 5 more", "1,200", "1,200"),
        ("Price: 7 \u20ac", "7", "7 \u20ac"),
        ("bought for 38 kroner", "38", "38 kroner"),
        ("2,000 pesos or 5 $10 notes", "5", "5"),
    ],
)
def test_a_quantity_is_whole(text: str, part: str, expected: str) -> None:
    start = text.index(part)
    assert text[slice(*whole(text, start, start + len(part)))] == expected


def test_a_question_that_names_what_is_counted_gets_the_number() -> None:
    text = "They hatch after 14 days. It has 4.2 million members."
    assert text[slice(*whole(text, 17, 19, counted=True))] == "14"
    assert text[slice(*whole(text, 33, 36, counted=True))] == "4.2 million"


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
    ("text", "question", "expected"),
    [
        ("two adults and one chick", "How many adults live here?", "two"),
        ("7 to 9 eggs or 3 shells", "How many eggs are there?", "7 to 9"),
        ("two adults and one chick", "What lives here?", "two adults and one chick"),
    ],
)
def test_a_count_is_of_what_the_question_counts(text: str, question: str, expected: str) -> None:
    pieces = text.split()
    scores = np.zeros((len(pieces) + 2, 2), np.float32)
    scores[1, 0] = scores[len(pieces), 1] = 5
    found = best_span(window(text, pieces), scores, question, text, "")
    assert found is not None and text[found.start : found.end] == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the range?", "9"),
        ("What is its Max. range?", "8"),
        ("What is the maximum range?", "8"),
        ("What is the minimum fare?", "2"),
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


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How many rail tracks are there?", "two"),
        ("How many lanes does it have?", "8"),
        ("How many ferries cross it?", "three"),
        ("Who built it?", "Koch"),
        ("By whom was it designed?", "Ann"),
        ("Who was it painted by?", "Eve"),
    ],
)
def test_numbers_before_things_and_names_behind_verbs(question: str, expected: str) -> None:
    text = "8 wide lanes, two rail tracks, three ferries; designed by Ann, built by Koch and painted by the Eve"
    pieces = text.replace(",", " ,").replace(";", " ;").split()
    scores = np.zeros((len(pieces) + 2, 2), np.float32)
    names = [1 + pieces.index(one) for one in ("8", "two", "three", "Ann", "Koch", "Eve")]
    scores[names, 0], scores[names, 1] = 1, 1 - np.arange(len(names)) / 100
    found = best_span(window(text, pieces), scores, question, text, "")
    assert found is not None and text[found.start : found.end] == expected
