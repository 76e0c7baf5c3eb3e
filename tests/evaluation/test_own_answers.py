"""Answers to one's own questions: what is the same, and what is not."""

from __future__ import annotations

import unicodedata
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.own_answers import contains_answer, own_contains, own_match, uniform

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
    ("1885.0", "1885"), ("1,000.50", "1000.5"), ("0.500", ".5"), ("-2.00", "-2"), ("\uff11,\uff12\uff13\uff14", "1234"),
    ("S\u00e3o Tom\u00e9", "Sa\u0303o Tome\u0301"), ("Ma\u00adrie", "Marie"), ("\u202aTarn\u202c\ufeff", "Tarn"),
    ("O\u00b4Brien", "O'Brien"), ("6\u2033", '6"'), ("\u2764\ufe0f", "\u2764"), ("\u212a", "k"),
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
    ("1885.1", "1885"), ("100", "1"), ("1.500", "1.5"), ("1.0.0", "1.0"), ("007", "7"), ("<5", "5"),
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
def test_numbers_are_the_same_if_their_values_are(first: Decimal, second: Decimal) -> None:
    same = first == second and first.is_signed() == second.is_signed()
    assert own_match(str(first), [f"{second:,}"]) == same
    assert own_match(str(first.normalize()), [f"{first:f}"]) or "E" in str(first.normalize())


TEXTS = st.one_of(
    st.text(max_size=20), st.text("0123456789.,' \u00a0\u2009-\u2013aA\u2019\u00ad\uff11\uff12\uff19", max_size=14)
)


@given(TEXTS)
def test_a_text_has_one_uniform_form(text: str) -> None:
    form = uniform(text)
    variants = [
        form,
        text.casefold(),
        text.upper(),
        f" {text}\n",
        *(unicodedata.normalize(n, text) for n in ("NFC", "NFD")),
    ]
    assert [uniform(variant) for variant in variants] == [form] * 6


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20))
def test_wide_characters_are_the_usual_ones(text: str) -> None:
    assert uniform(text.translate({code: code + 0xFEE0 for code in range(33, 127)})) == uniform(text)


@given(TEXTS, TEXTS.filter(lambda text: uniform(text) and "&&" not in text), TEXTS)
def test_a_text_contains_its_parts(before: str, part: str, after: str) -> None:
    assert contains_answer(before + part + after, [part])


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
        ("The capital is Sa\u0303o Tome\u0301.", ["S\u00e3o Tom\u00e9"], True),
        ("Built by O\u2019Brien near New\u00a0York.", ["O'Brien && New York"], True),
        ("It lasted 1990\u20131991.", ["1990 - 1991"], True),
        ("It has 377\u202f975 people.", ["377,975"], True),
        ("Founded by Ma\u00adrie in \uff11\uff18\uff18\uff15.", ["Marie && 1885"], True),
        ("1,500 m", ["1,5"], True),  # as published: part of a number, too
        ("red", ["\u200b"], False),
    ],
)
def test_a_text_contains_an_answer(text: str, answers: list[str], there: bool) -> None:
    assert contains_answer(text, answers) is there
