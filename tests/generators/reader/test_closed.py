"""Yes-or-no questions, and what sentences say about them."""

from __future__ import annotations

from datetime import date

import pytest

from generators.reader.closed import in_own_words, is_closed, verdict
from generators.reader.comparisons import comparison_of, is_true
from generators.reader.reader import ExtractiveReader
from retriever.types import Evidence, Generation

TOWER = "The tower was built in 1958. At 332.9 meters (1,092 ft), it is the second-tallest structure of the city."
MUSHROOM = (
    "Edibility: Highly toxic, and can kill\nEnvironment: Dead wood, lawns\nNative: no\nThe cap is red. "
    "The stem is white and hollow. It does not have gills. It may be a parasite. Some have a ring."
)


def read(question: str, text: str, title: str = "Subject") -> Generation:
    return ExtractiveReader().read(question, Evidence("e", title, "s", text))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Is the stem hollow?", "Yes"),
        ("IS THE CAP RED", "Yes"),
        ("Does it have gills?", "No"),
        ("Is it native?", "No"),
        ("Is it edible?", "Highly toxic, and can kill"),
        ("Is the cap hollow?", None),
        ("Is it a parasite?", "It may be a parasite"),
        ("Was it planted by monks?", None),
        ("Isn't the cap red?", "The cap is red"),
    ],
)
def test_an_answer_is_plain_or_in_the_texts_own_words(question: str, expected: str | None) -> None:
    assert read(question, MUSHROOM).answer == expected


@pytest.mark.parametrize(
    ("question", "text", "word"),
    [
        ("Is it the tallest structure of the city?", TOWER, ""),
        ("Was it built in 1958?", TOWER, "Yes"),
        ("Is it the largest bell?", "It was the largest bell until 1881.", None),
        ("Is it open to visitors?", "It is not open to visitors.", "No"),
        ("Is it open to visitors?", "It is open to visitors. In winter it is not open to visitors.", None),
        ("Is it bigger than an elephant?", "It is bigger than a mouse, an elephant eats more.", None),
    ],
)
def test_what_a_sentence_says(question: str, text: str, word: str | None) -> None:
    found = verdict(question, "Subject", [("", text)])
    assert (found.word if found else "") == word


def test_a_labeled_value_says_yes_for_what_it_has() -> None:
    start = MUSHROOM.index("Dead wood")
    assert in_own_words("Does it grow on dead wood?", "Fungus", MUSHROOM, start, start + len("Dead")) == "Yes"
    assert in_own_words("Does it grow on sand?", "Fungus", MUSHROOM, start, start + len("Dead")) is None


def test_a_choice_is_no_yes_or_no_question() -> None:
    assert is_closed("is it edible")
    assert not is_closed("Is it edible or poisonous?")
    assert not is_closed("What is it?")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Is it taller than 300 m?", "How tall is it?"),
        ("Is it more than 400 feet tall", "How tall is it?"),
        ("Are its leaves shorter than 10 cm?", "How long are its leaves?"),
        ("Does it have more than 3 towers?", "How many towers does it have?"),
        ("Did over 2 million people visit it?", "How many people visit it?"),
        ("does it weigh at least 5 kg?", "How much does it weigh?"),
        ("Is its population above 20 million?", "What is its population?"),
        ("Is it greater than 5 m in diameter?", "What is the diameter of it?"),
        ("Was this church built before 1900?", "When was this church built?"),
        ("Is it older than the church?", None),
        ("Is it over the river?", None),
        ("How much taller than 3 m is it?", None),
        ("Is it taller than 3 m or 4 m?", None),
    ],
)
def test_the_open_question_of_a_comparison(question: str, expected: str | None) -> None:
    found = comparison_of(question)
    assert (found and found.question) == expected


@pytest.mark.parametrize(
    ("question", "text", "span", "expected"),
    [
        ("Is it taller than 300 m?", "332.9 meters (1,092 ft)", "332.9 meters", True),
        ("Is it taller than 1,200 feet?", "332.9 meters", "332.9 meters", False),
        ("Is it taller than 300 m?", "height: 332.9", "332.9", None),
        ("Is it longer than 20 cm?", "6\u201340 cm", "6\u201340 cm", None),
        ("Is it longer than 50 cm?", "6\u201340 cm", "6\u201340 cm", False),
        ("Is it taller than 6 feet?", "6 ft 2 in", "6 ft 2 in", True),
        ("Are there more than 500 stops?", "over 400", "400", None),
        ("Are there more than 300 stops?", "over 400", "400", True),
        ("Does it weigh less than 1 kg?", "900 g", "900 g", True),
        ("Does it take less than 90 minutes?", "1 hour 20 minutes", "1 hour 20 minutes", True),
        ("Was it built before 1950?", "built in 1958", "1958", False),
        ("Was it built after 1890?", "from 1886 to 1894", "1886 to 1894", None),
        ("Is it older than 50 years?", "built in 1931", "1931", True),
        ("Is it older than 50 years?", f"built in {date.today().year - 50}", f"{date.today().year - 50}", None),
        ("Is it older than 900 years?", "built 800 years ago", "800 years", False),
    ],
)
def test_a_quantity_decides_a_comparison(question: str, text: str, span: str, expected: bool | None) -> None:
    comparison, start = comparison_of(question), text.index(span)
    assert comparison is not None
    assert is_true(comparison, text, start, start + len(span)) is expected


def test_a_comparison_is_answered_with_what_it_rests_on() -> None:
    answer = read("Is it taller than 300 m?", TOWER)
    assert answer.answer == "Yes" and answer.span is not None
    assert TOWER[slice(*answer.span)] == "332.9 meters"
    assert read("is it over 1,500 feet high", TOWER).answer == "No"
    assert read("Was it built before 1950?", TOWER).answer == "No"


def test_every_span_of_a_text_has_words_of_its_own_or_none() -> None:
    text = "Color: red. \nIt is tall, and St. Ives is near. \n term: "
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            assert in_own_words("Is it tall?", "T", text, start, end) in ("Yes", text[start:end], None)
