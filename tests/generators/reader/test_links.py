"""Links between spans and words of the question, worked out by hand."""

from __future__ import annotations

import math

import numpy as np

from generators.reader.features import candidates
from generators.reader.question import analyze
from generators.reader.tokens import tokenize_text

RARITY = {"": 4.0, "tower": 2.0}
TEXT = "Ada built the tower of Bern in 1889. Bo left Bern in 1901."


def linked(question: str, span: str) -> np.ndarray:
    """Returns the links of a span of the text."""
    tokens = tokenize_text(TEXT)
    found = candidates(tokens, analyze(question, RARITY), RARITY, frozenset())
    start = TEXT.index(span)
    first, last = np.searchsorted(tokens.starts, [start, start + len(span) - 1], "right") - 1
    [row] = np.flatnonzero((found.first == first) & (found.last == last))
    np.testing.assert_array_equal(found.features[row, -found.links.shape[1] :], found.links[row])
    return np.asarray(found.links[row])


def test_key_words_count_less_with_distance_and_not_at_all_in_another_sentence() -> None:
    # "built" is the first key word, "Bern" the last one and the rarest is the first of equal weight, "built".
    row = linked("Who built the tower of Bern?", "1889")
    decay = {word: math.exp((1 - distance) / 5) for word, distance in (("built", 6), ("tower", 4), ("Bern", 2))}
    np.testing.assert_allclose(row[:3], [decay["built"], 0, 1], rtol=1e-5)
    np.testing.assert_allclose(row[3:6], [decay["Bern"], 0, 1], rtol=1e-5)
    np.testing.assert_allclose(row[6:9], row[:3])
    before = 0.4 * decay["built"] + 0.2 * decay["tower"] + 0.4 * decay["Bern"]
    np.testing.assert_allclose(row[9:12], [before, 0, before], rtol=1e-5)
    other = linked("Who built the tower of Bern?", "1901")
    np.testing.assert_allclose(other[:3], 0)
    np.testing.assert_allclose(other[3:6], [decay["Bern"], 0, 1], rtol=1e-5)


def test_names_pairs_rank_and_rivals_of_the_sentence() -> None:
    row = linked("Who built the tower of Bern?", "Ada")
    # The only name is there; both pairs of adjacent words are; the sentence covers most, and nothing is missing.
    np.testing.assert_allclose(row[12:17], [1, 1 / 3, 1, 0, 0], rtol=1e-5)
    # One figure and one name that the question does not have.
    np.testing.assert_allclose(row[17:], [1 / 2, 1 / 2])
    other = linked("Who built the tower of Bern?", "Bo")
    np.testing.assert_allclose(other[12:17], [1, 1 / 3, 0, 1 / 5, 0.4], rtol=1e-5)


def test_names_are_counted() -> None:
    for span, share in (("1889", 1), ("1901", 1 / 2)):  # the second sentence has Bern, but not Ada
        np.testing.assert_allclose(linked("When did Ada leave Bern?", span)[12:14], [share, 2 / 3], rtol=1e-5)


def test_a_question_without_words_of_the_text_has_no_links() -> None:
    row = linked("Why?", "Ada")
    np.testing.assert_allclose(row[:15], 0)
    assert np.isfinite(row).all()
