"""Whether a span is of the kind that a question asks for, and which part of it is."""

from __future__ import annotations

import pytest

from generators.reader.kinds import core, kind_of_answer


@pytest.mark.parametrize(
    ("question", "text", "answer", "expected"),
    [
        ("How tall is it?", "It grows slowly", "slowly", False),
        ("How tall is it?", "It has four meters", "four meters", True),
        ("What should I not keep it with?", "Avoid keeping with: barbs", "barbs", True),
        ("How many people lived there in 1960?", "4.2 million (2022 est.)", "4.2 million", False),
        ("How many people lived there in 2022?", "4.2 million (2022 est.)", "4.2 million", True),
        ("What was the rate in 2024?", "Rate 2024: 7%; Rate 2023: 9%", "9%", False),
        ("What was the rate in 2024?", "Rate 2024: 7%; Rate 2023: 9%", "7%", True),
        ("Who was the king in 1950?", "In 1950 the war ended. Olav was king.", "Olav", True),
        ("Where was it in 1886?", 'Known in 1886. Held in London." In the 1830s', "London", True),
        ("What was new in 1880?", "In the 1880s: steam", "steam", True),
        ("Which of these is NOT a fuel?", "Fuels: gas, oil", "gas", False),
        ("Which fuel isn't used?", "Gas is used, but oil is not", "oil", True),
        ("What did it win in 1998?", "It won the Oak Prize in 1998; the Elm Prize came in 2001.", "Oak Prize", True),
        ("What did it win in 1998?", "It won the Oak Prize in 1998; the Elm Prize came in 2001.", "Elm Prize", False),
        ("Who opened it in 1998?", "Built in 1901. It was opened by Al. Berg of St. Ives in 1998.", "Al. Berg", True),
    ],
)
def test_kinds(question: str, text: str, answer: str, expected: bool) -> None:
    start = text.index(answer)
    assert kind_of_answer(question)(text, start, start + len(answer)) is expected


@pytest.mark.parametrize(
    ("question", "span", "expected"),
    [
        ("What is the highest mountain?", "Musala 2,925 m", "Musala"),
        ("Which river is the longest?", "Dunav, 2,888 km", "Dunav"),
        ("What is the largest size?", "Model A 30 cm", "Model A 30 cm"),
        ("What is the largest load?", "up to 5 kg", "up to 5 kg"),
        ("How high is the highest one?", "Musala 2,925 m", "Musala 2,925 m"),
        ("What is the holiday?", "Unity Day, 3 October", "Unity Day"),
        ("Where was she born?", "Lyon (3 May 1900)", "Lyon"),
        ("When is the holiday?", "Unity Day, 3 October", "Unity Day, 3 October"),
        ("What is the release?", "3 October 1990", "3 October 1990"),
        ("How many eggs hatch?", "four to six eggs", "four to six"),
        ("How many adults live here?", "2 adults and 1 chick", "2"),
        ("How many years does it take?", "5 year", "5"),
        ("How tall is it?", "3 m tall", "3 m"),
        ("How many eggs hatch?", "some of the eggs", "some of the eggs"),
    ],
)
def test_the_part_that_is_asked_for(question: str, span: str, expected: str) -> None:
    assert span[: core(span, 0, len(span), question)] == expected
