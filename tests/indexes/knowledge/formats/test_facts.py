"""Values of fields become facts, however they are nested."""

from __future__ import annotations

from typing import Any

import pytest

from indexes.knowledge.understanding.facts import facts_of, text_in, words_within
from indexes.knowledge.ledger import Ledger as Losses


@pytest.mark.parametrize("depth", [1, 3, 100_000])
def test_lists_in_lists_are_one_list(depth: int) -> None:
    nested: Any = {"name": "Fox", "seen": ["den"]}
    for _ in range(depth):
        nested = [nested]
    assert list(facts_of("animals", ["Owl", nested], Losses())) == [("Animals", "Owl, Fox (seen: den)")]
    assert text_in(["Owl", [nested, [["Den"]]]]) == "Owl\nFox\nDen"
    assert words_within(nested) == "Fox den"
