"""The position of an answer in its section."""

from __future__ import annotations

import pytest

from retriever.results import answer_span
from retriever.types import Generation

TEXT = "The tower (U.S. made) rises 1,018.5 m.\nGustave  Eiffel built it in 1889, not in 18."


@pytest.mark.parametrize(
    ("answer", "quoted"),
    [
        ("1889", "1889"),
        ("gustave eiffel.", "Gustave  Eiffel"),  # as chat models write
        ("1,018.5 m", "1,018.5 m"),
        ("U.S.", "U.S"),
        ("18", "18"),  # the last word, not a part of 1889 or 1,018.5
        ("018", None),
        ("1,018", None),
        ("Eiff", None),
        ("It was built in 1889.", None),
        ("...", None),
        (None, None),
    ],
)
def test_an_answer_is_found_word_for_word(answer: str | None, quoted: str | None) -> None:
    span = answer_span(Generation(answer), TEXT)
    assert (None if span is None else TEXT[slice(*span)]) == quoted
    if answer == "18":
        assert span == (len(TEXT) - 3, len(TEXT) - 1)


@pytest.mark.parametrize(
    ("answer", "quoted"),
    [
        ("1000年", "1000年"),  # letters stand on both sides, as everywhere in Japanese
        ("紅枝垂桜。", "紅枝垂桜"),
        ("25m", "25m"),
        ("5m", None),  # within 25m
        ("000年", None),
    ],
)
def test_words_need_no_spaces_in_japanese(answer: str, quoted: str | None) -> None:
    text = "樹齢1000年を超える紅枝垂桜。枝の広がりは東西25m。"
    span = answer_span(Generation(answer), text)
    assert (None if span is None else text[slice(*span)]) == quoted


def test_the_place_that_a_reader_names_is_kept() -> None:
    assert answer_span(Generation("in", span=(61, 63)), TEXT) == (61, 63)
