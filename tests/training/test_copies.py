"""Copies of articles are found by their text."""

from __future__ import annotations

import pytest

from retriever.types import Entity, Section
from training.copies import originals, text_hash

LONG = "Teff is a grain of the Ethiopian highlands, whose seeds are a millimeter long. " * 3


def article(id: str, title: str, *texts: str) -> Entity:
    return Entity(id, title, tuple(Section("", text, number) for number, text in enumerate(texts)))


@pytest.mark.parametrize(
    ("title", "texts"),
    [
        ("Teff", [LONG]),
        ("Another title", [LONG]),
        ("Teff", [LONG.upper()]),
        ("Teff", ["", LONG.replace(" ", "\n \t"), " "]),
        ("Teff", LONG.split(", ")),
        ("Teff", [LONG.replace("millimeter", "".join(chr(ord(c) + 0xFEE0) for c in "millimeter")).replace(",", ";")]),
    ],
)
def test_copies_have_the_same_text_after_normalization(title: str, texts: list[str]) -> None:
    assert text_hash(article("a", "Teff", LONG)) == text_hash(article("b", title, *texts))


def test_one_other_word_is_another_article() -> None:
    assert text_hash(article("a", "Teff", LONG)) != text_hash(
        article("a", "Teff", LONG.replace("a millimeter", "1 mm"))
    )


def test_short_texts_need_the_same_title_and_articles_without_text_are_no_copies() -> None:
    assert text_hash(article("a", "Teff", "A grain.")) != text_hash(article("b", "Millet", "A grain."))
    assert text_hash(article("a", "Teff", "A grain.")) == text_hash(article("b", "TEFF", "a  grain"))
    assert text_hash(article("a", "Teff", "")) != text_hash(article("b", "Teff", ""))


def test_the_first_of_copies_is_the_original() -> None:
    assert originals([7, 5, 7, 2**64 - 1, 5]).tolist() == [0, 1, 0, 3, 1]
    assert originals([]).tolist() == []
