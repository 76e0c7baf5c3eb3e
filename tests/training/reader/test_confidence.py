"""Fitting the confidence, its threshold, and questions whose evidence drifts, worked out by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from generators.reader.model import SpanModel
from training.reader.confidence import (
    Trial,
    Trials,
    astray,
    best_passage,
    by_article,
    fit,
    fit_confidence,
    misplaced,
    report,
    threshold_at,
    trials,
)
from training.reader.questions import SpanAnswer, SpanQuestion

TOWER = "The tower was built in 1889. It is 300 m tall."
BIRD = ["The bird sings at night.", "It lays four eggs in a nest that it built of twigs."]


def test_a_confidence_is_a_probability() -> None:
    rng = np.random.default_rng(0)
    signs = rng.normal(size=(4000, 2))
    right = rng.random(4000) < 1 / (1 + np.exp(-(2 * signs[:, 0] - 1)))
    weights, bias = fit_confidence(signs, right)
    np.testing.assert_allclose([*weights, bias], [2, 0, -1], atol=0.15)


def test_a_threshold_withholds_no_more_than_its_cost() -> None:
    confidence, f1 = np.array([0.4, 0.1, 0.3, 0.2]), np.array([1.0, 0.2, 0.6, 0.0])
    # Below 0.3 stand answers of F1 0.2 and 0, which cost 0.05 of the mean; with the one of 0.6 it would be 0.2.
    assert threshold_at(0.05, confidence, f1) == threshold_at(0.19, confidence, f1) == 0.3
    assert threshold_at(0.0, confidence, f1) == 0.1
    assert threshold_at(1.0, confidence, f1) == 0.4


def test_a_trial_is_what_the_reader_makes_of_a_question() -> None:
    questions = [
        SpanQuestion("When was this tower built?", TOWER, "Tower", (SpanAnswer("in 1889"), SpanAnswer("1889"))),
        SpanQuestion("Is it tall?", TOWER, "Tower", ()),  # no span answers it
        SpanQuestion("When was this tower built?", TOWER, "Tower", ()),
    ]
    answered, other = trials(SpanModel.load(), questions)
    assert answered.f1 == 1 and answered.exact and other.f1 == 0 and not other.exact
    np.testing.assert_array_equal(answered.signs, other.signs)


def test_a_question_goes_astray_to_the_best_passage_of_another_article() -> None:
    asked = SpanQuestion("Who built the nest?", TOWER, "Tower", (SpanAnswer("1889"),))
    passages = {"Tower": [TOWER], "Bird": BIRD}
    assert list(astray([asked], passages, random.Random(0))) == [SpanQuestion(asked.question, BIRD[1], "Bird", ())]
    assert list(astray([asked], {"Tower": [TOWER]}, random.Random(0))) == []


def test_a_question_about_its_article_with_the_best_passage_and_with_one_that_does_not_answer() -> None:
    asked = SpanQuestion("How many eggs does the bird lay?", BIRD[0], "Bird", (SpanAnswer("four"), SpanAnswer("4")))
    assert best_passage(asked, BIRD) == asked._replace(passage=BIRD[1])
    others = list(misplaced([asked] * 100, {"Bird": BIRD}, random.Random(0)))
    assert 30 < len(others) < 70 and set(others) == {asked._replace(passage=BIRD[0], answers=())}
    assert list(misplaced([asked] * 100, {"Bird": BIRD[1:]}, random.Random(0))) == []


def test_passages_of_an_article_are_kept_once() -> None:
    rows = [
        SpanQuestion("?", passage, title, ()) for passage, title in (("b", "B"), ("a", "A"), ("b", "B"), ("c", "B"))
    ]
    assert by_article(rows) == {"B": ["b", "c"], "A": ["a"]}


def test_the_threshold_is_that_of_questions_about_articles() -> None:
    rng = np.random.default_rng(0)
    high, low = ([Trial(rng.normal(mean, 1, 2).astype(np.float32), right, bool(right)) for _ in range(200)]
                 for mean, right in ((1, 1.0), (-1, 0.0)))  # fmt: skip
    found = Trials(high, low[:100], [], low[100:])
    weights, bias, threshold = fit(found)
    confidence = np.sort([1 / (1 + np.exp(-(trial.signs @ weights + bias))) for trial in high])
    # two hundredths of 200 right answers are four
    assert threshold == pytest.approx(confidence[4], abs=0.0006)
    lines = report(found, weights, bias).splitlines()
    assert lines[0] == "always: EM 1.000 F1 1.000"
    assert "0.020 of answerable" in lines[4] and "of strays" in lines[4] and "records" not in lines[4]
