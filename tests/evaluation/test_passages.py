from __future__ import annotations

import pytest

from evaluation.trec import contains_answer, reading_order


def test_reading_order() -> None:
    assert reading_order([("a", [3, 1]), ("b", []), ("c", [0])]) == [("a", 3), ("a", 1), ("b", None), ("c", 0)]
    assert reading_order([]) == []


@pytest.mark.parametrize(
    ("text", "answers", "there"),
    [
        ("The tower is 300 m high.", ["330 m", "300 M"], True),
        ("A cathedral", ["cat"], True),  # even inside a word, as published
        ("red and white", ["white && red"], True),
        ("red and blue", ["white&&red"], False),
        ("red", [" red "], True),
        ("red", ["", "&&"], False),
        ("red", [], False),
    ],
)
def test_contains_answer(text: str, answers: list[str], there: bool) -> None:
    assert contains_answer(text, answers) is there
