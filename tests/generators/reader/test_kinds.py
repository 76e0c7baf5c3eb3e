"""Whether a span is of the kind that a question asks for."""

from __future__ import annotations

import pytest

from generators.reader.kinds import core, kind_of_answer


@pytest.mark.parametrize(
    ("question", "text", "answer", "expected"),
    [
        ("How many people live there?", "81 years", "81 years", False),
        ("How many people live there?", "84% of the population", "84% of the population", False),
        ("How many people live there?", "a large crowd", "a large crowd", False),
        ("How many people live there?", "4.2 million", "4.2 million", True),
        ("How many legs does it have?", "sixteen", "sixteen", True),
        ("How many years did it take?", "81 years", "81 years", True),
        ("How many percent are female?", "49% of them", "49%", True),
        ("What percentage is forest?", "mostly pine", "mostly pine", False),
        ("In what year was it bought?", "spring", "spring", False),
        ("In which year was it bought?", "May 2019", "May 2019", True),
        ("When was it made?", "Number: 8478335", "8478335", False),
        ("When was it made?", "Year: 1977", "1977", True),
        ("Who made it?", "12 March 1990", "12 March 1990", False),
        ("Who made it?", "U2", "U2", True),
        ("Where is it?", "in Room 5", "Room 5", True),
        ("Is it shaken or stirred?", "Pour over ice", "ice", False),
        ("Is it shaken or stirred?", "Shake with ice", "Shake", True),
        ("What can I keep it with?", "Avoid keeping with: barbs", "barbs", False),
        ("What should I not keep it with?", "Avoid keeping with: barbs", "barbs", True),
        ("What can I keep it with?", "Keep with: barbs", "barbs", True),
        ("What is it called?", "Political parties: Greens; size: 4", "Political parties", False),
        ("What is it called?", "Political parties: Greens; size: 4", "size", False),
        ("What is it called?", "Political parties: Greens; size: 4", "Greens", True),
        ("Who is the director?", "Ann Berg: director", "Ann Berg", True),
        ("When was it founded?", "May: founded", "May", True),
        ("How many people lived there in 1960?", "4.2 million (2022 est.)", "4.2 million", False),
        ("How many people lived there in 2022?", "4.2 million (2022 est.)", "4.2 million", True),
        ("What was the rate in 2024?", "Rate 2024: 7%; Rate 2023: 9%", "9%", False),
        ("What was the rate in 2024?", "Rate 2024: 7%; Rate 2023: 9%", "7%", True),
        ("Who was the king in 1950?", "Olav ruled 1948-52", "Olav", True),
        ("Who was the king in 1950?", "In 1950 the war ended. Olav was king.", "Olav", True),
        ("Where was it in 1886?", 'Known in 1886. Held in London." In the 1830s', "London", True),
        ("Who needs it?", "those who have a higher risk", "those who have a higher risk", True),
        ("Who took this photo?", "Designed by Ann Berg", "Ann Berg", False),
        ("When was this picture taken?", "Opened in 1931", "1931", False),
        ("Who photographed it?", "Photo: Ann Berg", "Ann Berg", True),
        ("Who took the photograph?", "The photograph was taken by Ann Berg", "Ann Berg", True),
        ("Who painted this picture?", "Made by Ann Berg", "Ann Berg", True),
        ("Which of these is NOT a fuel?", "Fuels: gas, oil", "gas", False),
        ("How long did it take to build?", "in time for the 200-year jubilee", "200-year", False),
        ("How long did it take to build?", "built in 41 years", "41 years", True),
        ("Who discovered it?", "The bird is known from art", "The bird is known from art", False),
        ("Which fuel isn't used?", "Gas is used, but oil is not", "oil", True),
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
        ("opened?", "March 2000", "March 2000"),
        ("In which year was it mixed?", "Paris (1936)", "1936"),
        ("In which years was it built?", "1936-1940", "1936-1940"),
        ("What year is it from?", "1936 or 1940", "1936 or 1940"),
        ("Is it shaken or stirred?", "fill the shaker, then shake hard", "shake"),
        ("Is it served hot or cold?", "cold water", "cold"),
    ],
)
def test_the_part_that_is_asked_for(question: str, span: str, expected: str) -> None:
    assert span[slice(*core(span, 0, len(span), question))] == expected


@pytest.mark.parametrize(
    ("question", "text", "span", "fits"),
    [
        ("How many acorns does it bear?", "2-2.5 cm long", "2-2.5", False),
        ("How many rooms are there?", "an area of 80 m² in all", "80", False),
        ("How many centimeters long is it?", "2-2.5 cm long", "2-2.5", True),
        ("How many km is it?", "5 km away", "5", True),
        ("How many feet is it?", "12 ft wide", "12", True),
        ("How many rooms are there?", "12 guests", "12", True),
    ],
)
def test_a_count_is_no_measure(question: str, text: str, span: str, fits: bool) -> None:
    start = text.index(span)
    assert kind_of_answer(question)(text, start, start + len(span)) is fits


@pytest.mark.parametrize(
    ("question", "text", "span", "fits"),
    [
        ("What is the picture resolution of this camera?", "Resolution: 24 MP", "24 MP", True),
        ("With which camera was this picture taken?", "Maker: Zed", "Zed", False),
        ("What did it win in 1998?", "It won the Oak Prize in 1998; the Elm Prize came in 2001.", "Oak Prize", True),
        ("What did it win in 1998?", "It won the Oak Prize in 1998; the Elm Prize came in 2001.", "Elm Prize", False),
        ("Who opened it in 1998?", "Built in 1901. It was opened by Al. Berg of St. Ives in 1998.", "Al. Berg", True),
    ],
)
def test_what_a_line_says_of_the_photograph_or_a_year(question: str, text: str, span: str, fits: bool) -> None:
    start = text.index(span)
    assert kind_of_answer(question)(text, start, start + len(span)) is fits
