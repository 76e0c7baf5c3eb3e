"""Quantities, their units, and answers in the unit that a question names."""

from __future__ import annotations

import pytest

from generators.reader.units import asked_unit, in_unit, quantities


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3,776.24 m (12,389.2 ft)", [(3776.24, "m"), (12389.2, "ft")]),
        ("213-foot towers, 33kph, 402km", [(213.0, "ft"), (33.0, "km/h"), (402.0, "km")]),
        ("1.35 billion riders of 45%", [(1.35e9, None), (45.0, None)]),
        ("twelve miles, 5 in total", [(12.0, "mi"), (5.0, None)]),
        ("3 to 5 sq km, 20 m\u00b2", [(3.0, "km\u00b2"), (5.0, "km\u00b2"), (20.0, "m\u00b2")]),
        ("20 \u00b0C or 8 months", [(20.0, "\u00b0C"), (8.0, "month")]),
        ("area 5000 members", [(5000.0, None)]),
    ],
)
def test_quantities(text: str, expected: list[tuple[float, str | None]]) -> None:
    assert [(one.value, one.unit) for one in quantities(text)] == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How tall is it in feet?", "feet"),
        ("weight in pounds", "pounds"),
        ("how long was it, in feet?", "feet"),
        ("How many kilometers long is it?", "kilometers"),
        ("How many feet tall is it?", "feet"),
        ("How many feet does it have?", None),
        ("How many miles are there?", None),
        ("Where in India is it?", None),
        ("How many people live in it?", None),
    ],
)
def test_asked_unit(question: str, expected: str | None) -> None:
    assert asked_unit(question) == expected


@pytest.mark.parametrize(
    ("text", "span", "words", "expected"),
    [
        ("At 332.9 meters (1,092 ft), it is", "332.9 meters", "feet", "1,092 ft"),
        ("13.5 tons (13.7 tonnes; 15.1 short tons)", "13.5 tons", "tonnes", "13.7 tonnes"),
        ("8\u201320 cm (3\u20138 in) wide", "8\u201320 cm", "inches", "3\u20138 in"),
        ("Length in meters: 18", "18", "feet", "59 feet"),
        ("2 to 4 cm tall", "2 to 4 cm", "inches", "0.79\u20131.6 inches"),
        ("20 \u00b0C", "20 \u00b0C", "fahrenheit", "68 fahrenheit"),
        ("12 km", "12 km", "km", "12 km"),
        ("Height: 12", "12", "feet", "12"),
        ("12 kg", "12 kg", "feet", None),
        ("5 tons", "5 tons", "kg", None),
    ],
)
def test_an_answer_in_the_asked_unit(text: str, span: str, words: str, expected: str | None) -> None:
    start = text.index(span)
    found = in_unit(text, start, start + len(span), words)
    assert (found and found[0]) == expected
