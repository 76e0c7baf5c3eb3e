from __future__ import annotations

import pytest

from evaluation.answers import evqa_match, numeric_match, read_numbers, text_match


@pytest.mark.parametrize(
    ("answer", "references", "right"),
    [
        ("Paris", ["Paris"], True),
        (" paris. ", ["Paris"], True),
        ("The Netherlands", ["Netherlands"], True),
        ("the answer is Oslo", ["oslo"], True),
        ("two", ["2"], True),
        ("ten", ["10"], True),
        ("none", ["zero"], True),
        ("eleven", ["11"], False),
        ("true", ["yes"], True),
        ("false", ["No"], True),
        ("don't", ["dont"], True),
        ("king\u2019s", ["kings"], True),
        ("1 metre", ["1 m", "1 metre"], True),
        ("1  m", ["1 m", "1 metre"], True),
        ("1.5", ["15"], True),  # the official rule drops the point too
        ("anthem", ["them"], False),
        ("Paris, France", ["Paris"], False),
        ("red\nwhite", ["red white"], True),
        ("a", ["the"], False),  # nothing is left of either
        ("anything", ["a"], False),
        ("<extra_id_0>\nParis", ["Paris"], True),  # what T5 puts before its answers
    ],
)
def test_evqa_single_answers(answer: str, references: list[str], right: bool) -> None:
    assert evqa_match(answer, references) is right


@pytest.mark.parametrize(
    ("answer", "references", "right"),
    [
        ("red, white and blue", ["blue&&red&&white"], True),
        ("red & white", ["red&&white"], True),
        ("red", ["red&&white"], True),  # 1 of 2
        ("red", ["red&&white&&blue"], False),  # 1 of 3
        ("red, green", ["red&&white"], False),  # 1 of 3
        ("red, white, green", ["red&&white&&blue"], True),  # 2 of 4
        ("red, red, red", ["red"], True),
        ("red, , the", ["red"], True),  # empty items do not count
        ("brandy", ["brandy&&rum"], True),  # "and" inside a word splits nothing
        ("red;white", ["red&&white"], False),
        ("gin", ["rum", "gin&&rum"], True),  # the best reference counts
        ("", ["red"], False),
        ("x & and red", ["x&&red"], True),  # " and " goes first
        ("red", ["a&&the"], False),
    ],
)
def test_evqa_multiple_answers(answer: str, references: list[str], right: bool) -> None:
    assert evqa_match(answer, references, multi_answer=True) is right


@pytest.mark.parametrize(
    ("answer", "aliases", "right"),
    [
        ("China", ["cn", "China"], True),
        ("people's republic of china", ["People's Republic of China"], True),
        ("The U.S.", ["US"], True),
        ("two", ["2"], False),  # InfoSeek knows no number words
        ("1998", ["1998"], True),
        ("1999", ["1998"], False),  # its rule of one year is not in its code
        ("12 May 1998", ["1998"], False),
        ("New  York", ["new york"], True),
        ("York", ["New York"], False),
    ],
)
def test_infoseek_strings_and_times(answer: str, aliases: list[str], right: bool) -> None:
    assert text_match(answer, aliases) is right


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", ()),
        ("no number", ()),
        ("29.3", (29.3,)),
        ("29.3.", (29.3,)),
        ("1,234,567 people", (1234567,)),
        ("1,23", (1, 23)),
        ("9-10", (9, 10)),
        ("10-9", (10,)),
        ("-5", (-5,)),
        ("-5 to -3", (-5, -3)),
        ("+7", (7,)),
        ("1e3", (1000,)),
        ("2.5e-2 m", (0.025,)),
        ("3 4 5", (3, 4)),
        (".5", (5,)),  # as the official script reads it
        ("-.5", (-0.5,)),
        ("-.5.3", (-0.5,)),
        ("1.2.3", (1.2, 3)),
        ("between 1 and 2 m", (1, 2)),
    ],
)
def test_numbers_in_a_text(text: str, numbers: tuple[float, ...]) -> None:
    assert read_numbers(text) == numbers


@pytest.mark.parametrize(
    ("answer", "accepted", "right"),
    [
        ("10", (9, 11), True),
        ("9", (9, 11), True),
        ("11.0", (9, 11), True),
        ("8.99", (9, 11), False),
        ("11.01", (9, 11), False),
        ("9.5-10.5", (9, 11), True),  # inside
        ("9-12", (9, 11), True),  # 2 of 3
        ("8-12", (9, 11), True),  # 2 of 4, half is enough
        ("8-13", (9, 11), False),  # 2 of 5
        ("5-20", (9, 11), False),
        ("20-10", (9, 11), False),  # falls: only 20 is read
        ("2,381,740 km2", (2143566, 2619914), True),  # the 2 of "km2" is a number, but the pair falls
        ("1 km2", (0.9, 1.1), False),  # here it makes a range from 1 to 2, as in the official script
        ("2,381,740", (2143566, 2619914), True),
        ("none", (-1, 1), True),  # no number is read as zero, as in the official script
        ("none", (1, 2), False),
        ("0", (0, 0), True),
        ("5", (5, 5), True),
    ],
)
def test_infoseek_numbers(answer: str, accepted: tuple[float, float], right: bool) -> None:
    assert numeric_match(answer, accepted) is right
