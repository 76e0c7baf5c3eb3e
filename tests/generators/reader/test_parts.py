"""Questions of two parts."""

from __future__ import annotations

import pytest

from generators.reader.parts import parts_of
from generators.reader.reader import ExtractiveReader
from retriever.types import Evidence

CHURCH = "The church was designed by Ann Berg. It was completed in 1986. The main tower is 74 m high."


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who designed it and when was it opened?", ("Who designed it?", "when was it opened?")),
        ("Where and when was a skull found?", ("Where was a skull found?", "when was a skull found?")),
        ("Who was buried there and in which year?", ("Who was buried there?", "in which year was buried there?")),
        ("What are the towers, and how high are they", ("What are the towers?", "how high are the towers?")),
        ("Who designed and built it?", ("Who designed and built it?",)),
        ("salt and pepper", ("salt and pepper",)),
    ],
)
def test_parts(question: str, expected: tuple[str, ...]) -> None:
    assert parts_of(question) == expected


def test_each_part_is_answered_and_a_missing_one_is_named() -> None:
    reader, evidence = ExtractiveReader(), Evidence("e", "Church", "s", CHURCH)
    assert reader.read("Who designed it and when was it completed?", evidence).answer == "Ann Berg; 1986"
    answer = reader.read("Who designed it and how many people does it seat?", evidence).answer
    assert answer == "Ann Berg; not found: how many people does it seat"
