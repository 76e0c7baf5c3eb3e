from __future__ import annotations

import pytest

from retriever.wording import counted, duration


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (1, "entity", "1 entity"),
        (0, "entity", "0 entities"),
        (2, "query", "2 queries"),
        (1, "search", "1 search"),
        (3, "search", "3 searches"),
        (1_434, "labeled image", "1,434 labeled images"),
    ],
)
def test_a_noun_agrees_with_its_number(number: int, noun: str, words: str) -> None:
    assert counted(number, noun) == words


def test_durations_are_readable() -> None:
    assert [duration(seconds) for seconds in (0.2, 119, 120, 3599, 3600, 54000)] == [
        "0 s", "119 s", "2 min", "60 min", "1.0 h", "15.0 h"]  # fmt: skip
