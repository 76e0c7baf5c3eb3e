"""Tokens, sentences, clauses and labels, by hand."""

from __future__ import annotations

import pytest

from generators.reader.tokens import is_color, suffix_class, tokenize_text


def groups(text: str, numbers: str) -> list[str]:
    """Returns the tokens of a text joined by sentence or clause."""
    tokens = tokenize_text(text)
    found: dict[int, list[str]] = {}
    for low, number in zip(tokens.lower, getattr(tokens, numbers).tolist(), strict=True):
        found.setdefault(number, []).append(low)
    return [" ".join(words) for words in found.values()]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It is big. It is old.", ["it is big .", "it is old ."]),
        ("Dr. Who met J. S. Bach in St. Louis. He left.", ["dr . who met j . s . bach in st . louis .", "he left ."]),
        ("Built in 1889! Why? Ask.", ["built in 1889 !", "why ?", "ask ."]),
        ("It weighs 3.5 kg. 20 are left", ["it weighs 3.5 kg .", "20 are left"]),
        ("One line\nanother line", ["one line \n", "another line"]),
        ("", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert groups(text, "sentence") == sentences


def test_clauses_end_at_commas_and_open_at_conjunctions_but_ranges_stay_whole() -> None:
    text = "It is 20\u201324 cm long with a wingspan of 33 cm, which is small"
    assert groups(text, "clause") == ["it is 20 \u2013 24 cm long", "with a wingspan of 33 cm ,", "which is small"]


def test_a_label_opens_a_clause() -> None:
    tokens = tokenize_text("Title: Oat milk Manufacturing country: Finland")
    assert [low for low, label in zip(tokens.lower, tokens.label, strict=True) if label] == [
        "title",
        "manufacturing",
        "country",
    ]
    assert groups("Title: Oat milk Manufacturing country: Finland", "clause") == [
        "title :",
        "oat milk",
        "manufacturing country :",
        "finland",
    ]


def test_classes_and_numbers() -> None:
    tokens = tokenize_text("In March 1996 four red birds of Herzog & de Meuron weighed 3 kg")
    assert tokens.classes == (
        "in", "<month>", "<year>", "<number>", "<color>", "birds", "of", "<Name>", "&", "de", "<Name>", "weighed",
        "<figure>", "<unit>",
    )  # fmt: skip
    assert [low for low, number in zip(tokens.lower, tokens.number, strict=True) if number] == ["1996", "four", "3"]


@pytest.mark.parametrize(
    ("word", "known"), [("running", "-ing"), ("nation", "-tion"), ("cat", "<word>"), ("<year>", "<other>")]
)
def test_an_unknown_word_has_the_class_of_its_ending(word: str, known: str) -> None:
    assert suffix_class(word) == known


def test_a_color_may_follow_a_hyphen() -> None:
    words = ("red", "lavender-blue", "blue-collar", "-", "infrared")
    assert [word for word in words if is_color(word)] == ["red", "lavender-blue"]
