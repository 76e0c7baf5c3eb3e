"""What questions ask for."""

from __future__ import annotations

import pytest

from generators.reader.question import analyze


@pytest.mark.parametrize(
    ("question", "kind", "focus"),
    [
        ("When was it built?", "when", ""),
        ("In what year was it built?", "which", "year"),
        ("Whom did it feed?", "who", ""),
        ("How many eggs does this bird lay?", "how many", "egg"),
        ("How tall is this tower?", "how high", ""),
        ("What is the national bird of this country?", "what is", "bird"),
        ("What did the architect design?", "what did", ""),
        ("Which city hosted the games?", "which", "city"),
        ("Name the capital.", "other", "capital"),
        ("Is it old?", "yes/no", ""),
        ("", "other", ""),
    ],
)
def test_kind_and_focus(question: str, kind: str, focus: str) -> None:
    analyzed = analyze(question, {})
    assert (analyzed.kind, analyzed.focus_stem) == (kind, focus)


def test_words_are_weighted_by_rarity_without_those_that_point_at_the_image() -> None:
    analyzed = analyze("When was this tower in Paris built?", {"": 5.0, "build": 2.0})
    assert analyzed.words == {"paris": 5.0, "build": 2.0}
    assert analyzed.exact == {"paris"}


def test_names_figures_and_negation() -> None:
    analyzed = analyze("Which two towns in Peru didn't exist in 1901?", {})
    assert analyzed.exact == {"peru", "1901", "two"} and analyzed.figures == {"1901", "two"}
    assert analyzed.negated and "didn't" in analyzed.lower
    assert not analyze("Which towns existed?", {}).negated


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("Who founded the city of Flint?", ("found", "flint")),
        ("In what year was the tower built?", ("tower", "build")),
        ("Where?", ("", "")),
    ],
)
def test_key_words_are_the_first_after_what_is_asked_for_and_the_last(question: str, keys: tuple[str, str]) -> None:
    assert analyze(question, {}).keys == keys


@pytest.mark.parametrize(
    ("question", "pointing"),
    [
        ("When was this tower built?", True),
        ("What is the capital of the country with this flag?", True),
        ("When did it open?", True),
        ("What money do I need here?", True),
        ("Who wrote Hamlet?", False),
        ("How old was Cleopatra when she died?", False),  # "she" is Cleopatra
        ("When was the tower built?", False),
        ("", False),
    ],
)
def test_questions_that_point_at_the_image(question: str, pointing: bool) -> None:
    assert analyze(question, {}).pointing is pointing
