"""Windows of a long section: every token is in one, and neighbors overlap."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tokenizers import Tokenizer

from generators.reader.model import LENGTH, OVERLAP, windows
from retriever.models.base_bert import load_bert


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_bert("all-MiniLM-L6-v2")[1]


def test_a_short_section_is_one_window(tokenizer: Tokenizer) -> None:
    [window] = windows(tokenizer, "How tall?", "Tower: Data", "Height: 12 m")
    assert (
        tokenizer.decode(window.ids, skip_special_tokens=False)
        == "[CLS] how tall? [SEP] tower : data : height : 12 m [SEP]"
    )
    assert window.types == [0] * 5 + [1] * (len(window.ids) - 5)
    assert ["Height: 12 m"[slice(*place)] for place in window.places] == ["Height", ":", "12", "m"]
    assert window.begin + len(window.places) + 1 == len(window.ids)


def test_a_long_section_is_covered(tokenizer: Tokenizer) -> None:
    text = " ".join(f"{number}" for number in range(600))
    found = windows(tokenizer, "Which?", "Numbers", text)
    assert len(found) > 2 and all(len(window.ids) <= LENGTH for window in found)
    assert {place for window in found for place in window.places} == set(
        tokenizer.encode(text, add_special_tokens=False).offsets
    )
    for one, next_one in pairwise(found):
        assert len(set(one.places) & set(next_one.places)) >= OVERLAP


def test_a_long_question_leaves_room_for_the_text(tokenizer: Tokenizer) -> None:
    found = windows(tokenizer, "why " * 500, "title " * 500, "It is red.")
    assert len(found) == 1 and len(found[0].places) == 4


@pytest.mark.parametrize("text", ["", " \n "])
def test_a_text_without_tokens_has_no_window(tokenizer: Tokenizer, text: str) -> None:
    assert windows(tokenizer, "Why?", "Tower", text) == []
