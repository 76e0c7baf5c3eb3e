"""Signs that speak against an answer, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from generators.reader.doubts import doubts
from generators.reader.question import analyze
from generators.reader.tokens import stems_of, tokenize_text

RARITY = {"": 4.0, "tower": 2.0}
TEXT = "Ada built the old tower of Bern. In 1901, Bo did not leave Bern."
NAMES = [
    "negated", "turned", "weight", "words", "title", "names", "figures", "there", "heaviest there",
    "drifts", "drifts off", "drift weight", "drift words", "drift sum", "drift names",
    "not denied", "turned here", "weight here", "words here", "heaviest here", "elsewhere", "names elsewhere",
    "figures elsewhere", "found here", "heaviest found here", "drifts off here",
]  # fmt: skip
PRESENT = {"there", "heaviest there", "found here", "heaviest found here"}


def doubted(question: str, sentence: int, title: frozenset[str] = frozenset()) -> dict[str, float]:
    """Returns the doubts about a sentence of the text that are not 0, by name, without those about drift."""
    return {name: value for name, value in everything(question, sentence, title).items() if "drift" not in name}


def everything(question: str, sentence: int, title: frozenset[str] = frozenset()) -> dict[str, float]:
    row = doubts(tokenize_text(TEXT), analyze(question, RARITY), title)[sentence].tolist()
    found = {name: round(value, 4) for name, value in zip(NAMES, row, strict=True) if value}
    return {name: value for name, value in found.items() if name not in PRESENT}


def present(question: str, sentence: int, title: frozenset[str] = frozenset()) -> dict[str, float]:
    """Returns the features that count the question's words in the text or in a sentence, by name."""
    row = doubts(tokenize_text(TEXT), analyze(question, RARITY), title)[sentence].tolist()
    return {name: round(value, 4) for name, value in zip(NAMES, row, strict=True) if name in PRESENT}


def test_nothing_speaks_against_a_sentence_with_all_words() -> None:
    assert doubted("Who built the tower of Bern?", 0) == {}


def test_words_that_are_missing() -> None:
    # "built" 4, "tower" 2 and "Rome" 4: the last is nowhere, the second sentence has none of the three
    nowhere = {"weight": 0.4, "words": 0.2, "names": 1}
    first = nowhere | {"weight here": 0.4, "words here": 0.2, "heaviest here": 0.5}
    assert doubted("Who built the tower of Rome?", 0) == first
    second = nowhere | {"weight here": 1, "words here": 0.6, "heaviest here": 0.5}
    assert doubted("Who built the tower of Rome?", 1) == second | {"elsewhere": 0.6}


def test_names_and_figures_that_stand_elsewhere() -> None:
    found = doubted("Whom did Ada meet in 1901?", 0)
    assert found["figures elsewhere"] == 1 and "names elsewhere" not in found
    found = doubted("Whom did Ada meet in 1901?", 1)
    assert found["names elsewhere"] == 1 and "figures elsewhere" not in found
    assert doubted("Whom did Ada meet in 1850?", 0)["figures"] == 1


def test_words_of_the_title_are_not_missed() -> None:
    assert "names" in doubted("Who built the tower of the Palace?", 0)
    assert doubted("Who built the tower of the Palace?", 0, frozenset({"palac"})) == {"title": 0.3333}


@pytest.mark.parametrize("question", ["Who did not leave Bern?", "Who didn't leave Bern?", "Who never left Bern?"])
def test_a_negated_question_asks_for_a_negated_sentence(question: str) -> None:
    first, second = doubted(question, 0), doubted(question, 1)
    assert first["negated"] == second["negated"] == 1
    assert first["not denied"] == 1 and "not denied" not in second
    assert "negated" not in doubted("Who left Bern?", 0)


def test_an_opposite_of_a_word_of_the_question() -> None:
    assert {"turned": 1, "turned here": 1}.items() <= doubted("Who built the new tower?", 0).items()
    second = doubted("Who built the new tower?", 1)  # "old" is in the first sentence
    assert second["turned"] == 1 and "turned here" not in second
    assert "turned" not in doubted("Who built the old tower?", 0)


def test_words_that_are_there() -> None:
    # "built" 4 and "tower" 2 are in the first sentence, "Rome" 4 nowhere; in eighths
    found = {"there": 0.75, "heaviest there": 0.5, "found here": 0.75, "heaviest found here": 0.5}
    assert present("Who built the tower of Rome?", 0) == found
    assert present("Who built the tower of Rome?", 1) == found | {"found here": 0, "heaviest found here": 0}
    # words of the title are not expected in the text
    assert present("Who built the tower of Rome?", 0, frozenset({"tower"}))["there"] == 0.5


def test_a_question_that_neither_points_nor_has_a_word_of_the_title_drifts() -> None:
    question = "Who built the bridge of Rome?"  # 4 each; "bridge" and the name "Rome" are nowhere
    drift = {name: value for name, value in everything(question, 0).items() if "drift" in name}
    assert drift == {"drifts": 1, "drift weight": 0.6667, "drift words": 0.4, "drift sum": 1, "drift names": 1}
    assert everything(question, 1)["drifts off here"] == 1  # "built" is in the other sentence
    lost = everything("Who painted Guernica?", 0)
    assert lost["drifts off"] == lost["drifts off here"] == lost["drift weight"] == 1
    for kept, title in ((question, stems_of("Bridge")), ("Who built this bridge in Rome?", frozenset[str]())):
        assert not any("drift" in name for name in everything(kept, 0, title))


def test_evidence_without_words() -> None:
    assert np.isfinite(doubts(tokenize_text(""), analyze("Who built it?", RARITY), frozenset())).all()
