"""Answers to one's own questions: what is the same, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.own_answers import own_contains, own_match

SAME = [
    ("The Hague.", "hague"), ("U.S. Dollar", "us dollar"), ("an x-ray", "xray"), ("“Tokyo”!", "Tokyo"),
    ("**Tokyo**", "Tokyo"), ("`Tokyo`", "tokyo"), ("don\u2019t", "dont"), ("Straße", "STRASSE"),
    ("New_Zealand", "new zealand"),
    ("377,975", "377975"), ("377\u202f975 km\u00b2", "377975 km²"), ("377'975", "377975"), ("12,34,567", "1234567"),
    ("15.", "15"), (".5", "0.5"), ("\u22125", "-5"),
    ("5 km", "5km"), ("5 %", "5%"),
    ("21 ℃", "21°C"), ("1990 \u2013 91", "1990-91"),
    ("1990's", "1990s"), ("\uff15", "5"), ("٣", "3"), ("T-34", "T34"), ("(C++)", "c++"), ("'15'", "15"),
    ("東京。", "東京"),
    ("Tokyo (Japan)", "tokyo japan"), ("1,234.50", "1234.50"), ("A", "a"), ("?", "?"),
]  # fmt: skip
DIFFERENT = [
    ("1.5", "15"), ("-5", "5"), ("+5", "-5"), ("3.14", "314"), ("1990-91", "199091"), ("12:30", "1230"),
    ("1/2", "12"),
    ("1,5", "15"), ("3,14", "314"), ("0,125", "0125"), ("10²", "102"), ("10²", "10"), ("10^5", "105"), ("½", "12"),
    ("C++", "C"), ("C#", "C"), ("C#", "C++"),
    ("A+", "A"), ("A-", "A"), ("A-", "A+"), ("O\u2212", "O+"), ("A*", "A"),
    ("5%", "5"), ("$5", "5"), ("$5", "€5"), ("5°", "5"), ("5 m/s", "5 ms"), ("5 km", "5 m"), ("5 mg", "5 g"),
    ("6'1\"", "61"),
    ("6'", '6"'), ("Vitamin A", "Vitamin"), ("An", "The"), ("1.0.2", "102"), ("2^-3", "2^3"), ("Ca2+", "Ca2"),
    ("#1", "1"),
    ("1885.0", "1885"), ("<5", "5"),
    ("±5", "5"), ("बल", "बाल"), ("?", "!"), ("", "the"),
    ("747-400", "747400"), ("AT&T", "ATT"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), SAME)
def test_the_same(first: str, second: str) -> None:
    assert own_match(first, [second]) and own_match(second, ["something else", first])


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_not_the_same(first: str, second: str) -> None:
    assert not own_match(first, [second]) and not own_match(second, [first])


@given(st.decimals(-9_999_999, 9_999_999, places=2), st.decimals(-9_999_999, 9_999_999, places=2))
def test_numbers_are_the_same_if_they_are_written_the_same(first: object, second: object) -> None:
    assert own_match(str(first), [f"{second:,}"]) == (str(first) == str(second))


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text(first: str, second: str) -> None:
    assert own_match(first, [first]) and own_match(first, [second]) == own_match(second, [first])


@pytest.mark.parametrize(
    ("answer", "reference", "contained"),
    [
        ("It is Sochi, Russia.", "Sochi", True),
        ("Sochiville", "Sochi", False),
        ("It is 1.5 m high.", "15", False),
        ("It is 1.5 m high.", "1.5 m", True),
        ("It is -5 °C.", "5", False),
        ("They use C++.", "C", False),
        ("Anything", "", False),
    ],
)
def test_containing(answer: str, reference: str, contained: bool) -> None:
    assert own_contains(answer, [reference]) == contained
