"""Search terms of languages other than English, and which questions are English."""

from __future__ import annotations

import numpy as np
import pytest

from retriever.lexical import best_label, is_english, labels_of, rarity, tokenize
from retriever.models.bm25 import BM25


@pytest.mark.parametrize(
    "question",
    [
        "Who built the Kölner Dom?",
        "What is 味噌 made of?",
        "CETP inhibitors increase what?",
        "Name the architect of this building.",
        "wingspan",
        "Describe the plumage",
        "Calories per serving?",
        "Como height",
        "Tokyo Tower",
        "Is it made of wood?",
    ],
)
def test_english_questions(question: str) -> None:
    assert is_english(question)


@pytest.mark.parametrize(
    "question",
    [
        "Wie hoch ist der Kölner Dom?",
        "Qui a dessiné la tour Eiffel ?",
        "¿Cuántos años tiene la catedral?",
        "Сколько лет зданию?",
        "यह मंदिर कितना पुराना है?",
        "高さは何メートルですか",
        "Höhe?",
        "Quanto pesa?",
        "Was ist das?",
        "wie hoch",
        "Hvor gammel?",
    ],
)
def test_questions_in_other_languages(question: str) -> None:
    assert not is_english(question)


def test_only_words_that_english_lacks_are_cut() -> None:
    assert tokenize("Brobdingnagian towers of 1000000 bells") == ["brobdingnagian", "tower", "1000000", "bell"]
    assert tokenize("Brobdingnagian towers of 1000000 bells", english=False) == ["brobd", "tower", "1000000", "bell"]


@pytest.mark.parametrize(
    "forms",
    ["Kirche Kirchen", "здание здания зданием", "kilisesi kilisenin", "εκκλησία εκκλησίας", "المعبد ومعبد للمعبد"],
)
def test_inflected_forms_share_a_term(forms: str) -> None:
    assert len(set(tokenize(forms, english=False))) == 1


def test_vowel_signs_belong_to_words() -> None:
    assert tokenize("मंदिर की ऊंचाई 12 मीटर", english=False)[3] == "12"
    assert len(tokenize("கோயில் உயரம்")) == 2


def test_elided_articles_are_dropped() -> None:
    assert tokenize("l'église d'Arras, dell'arte") == tokenize("église Arras arte")
    assert tokenize("O'Brien isn't") == ["obrien", "isnt"]


def test_short_unknown_words_are_likely_function_words() -> None:
    assert rarity("hoh") == pytest.approx(0.36 * rarity("turms"))  # (3 / 5) squared
    assert rarity("turms") == rarity("turmspitze") == rarity("1887")


def test_an_inflected_question_finds_its_section() -> None:
    height = "# Wiki Article: Dom\n## Section Title: Maße\nDie beiden Türme messen 157 Meter."
    history = "# Wiki Article: Dom\n## Section Title: Geschichte\nDie Bauarbeiten begannen im Mittelalter."
    scores = BM25().score(["Wann begann die Bauarbeit?"], [[height, history]])[0]
    assert scores.argmax() == 1
    np.testing.assert_allclose(scores[0], 0, atol=0.1)  # an article alone


@pytest.mark.parametrize(
    ("line", "labels"),
    [
        ("Elevation: highest point: Mount Gimie 948 m", [{"elev"}, {"highest", "point"}, {"elev", "highest", "point"}]),
        ("- net_weight = 3 kg", [{"net", "weight"}]),
        ("| Glass | coupe", [{"glass"}]),
        ("Built - 1931", [{"built"}]),
        ("open from 9:30 to 17:00", []),
        ("the tall old mills of a quiet town: three stand", []),
        ("area: 2010: 5 ha", [{"area"}]),
        ("no label here", []),
    ],
)
def test_a_line_begins_with_labels(line: str, labels: list[set[str]]) -> None:
    expected = [{"build" if stem == "built" else stem for stem in label} for label in labels]
    assert list(labels_of(line)) == expected


def test_the_match_is_a_product_of_two_shares() -> None:
    labels = [frozenset({"median", "age"}), frozenset({"climate"})]
    weight = {"median": 3.0, "age": 1.0, "climate": 2.0, "country": 1.0, "size": 1.0}.__getitem__
    assert best_label(labels, ["age"], ["age"], weight) == pytest.approx(1 / 4)
    assert best_label(labels, ["median", "age", "country"], ["median", "age", "country"], weight) == pytest.approx(
        4 / 5
    )
    assert best_label(labels, ["climate"], [], weight) == 1  # implied alone
    assert best_label(labels, ["size"], ["size"], weight) == 0
