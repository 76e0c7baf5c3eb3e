"""Candidates with some of their features, worked out by hand."""

from __future__ import annotations

import numpy as np

from generators.reader.features import candidates
from generators.reader.question import analyze
from generators.reader.tokens import tokenize_text

RARITY = {"": 4.0}


def spans(text: str, question: str = "What is it?") -> list[str]:
    tokens = tokenize_text(text)
    found = candidates(tokens, analyze(question, RARITY), RARITY, frozenset())
    assert found.features.shape[0] == len(found.first) and np.isfinite(found.features).all()
    return [text[tokens.starts[i] : tokens.ends[j]] for i, j in zip(found.first, found.last, strict=True)]


def test_candidates_cross_no_sentence_parenthesis_or_label_and_end_with_no_preposition() -> None:
    assert spans("Area: 26 km (of land)") == ["26", "km", "land", "26 km", "of land"]
    assert spans("He ran. She sat.") == ["He", "ran", "She", "sat", "He ran", "She sat"]
    assert spans("") == [] and spans("...") == []


def test_names_with_their_particles_are_candidates() -> None:
    found = spans("It was designed by Herzog & de Meuron in March 1996 for Flint, Michigan.")
    assert {"Herzog & de Meuron", "March 1996", "Flint, Michigan"} <= set(found)


def test_overview() -> None:
    text = "The tower was built in 1889. It is tall."
    tokens = tokenize_text(text)
    question = analyze("Who built the tower in Berlin?", RARITY)
    found = candidates(tokens, question, RARITY, frozenset())
    # Three words of equal weight; the first sentence has two of them, the second none; Berlin, a name, is missing.
    np.testing.assert_allclose(found.overview[:3], [2 / 3, 0, 1 / 3], rtol=1e-6)
    np.testing.assert_allclose(found.overview[3:6], [0.5, 0.3, 1 / 3], rtol=1e-6)
    np.testing.assert_allclose(found.overview[8:], [1 / 3, 1 / 3, 1], rtol=1e-6)


def test_only_the_sentences_closest_to_the_question_are_searched() -> None:
    text = " ".join(f"Filler number{i} stands here." for i in range(10)) + " The tower is red."
    found = spans(text, "What color is the tower?")
    assert "red" in found and not any("number9" in span for span in found)
