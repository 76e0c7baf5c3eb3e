"""Questions for what the image shows."""

from __future__ import annotations

import pytest

from generators.pointing import points_on
from generators.reader.names import asks_description, asks_name
from generators.reader.reader import ExtractiveReader
from retriever.types import Evidence, Generation, GenerationRequest, OtherSection

BRIDGE = "Tower Bridge is a bascule bridge in London. It was opened in 1894."


@pytest.mark.parametrize(
    "question",
    [
        "What is this?",
        "So what is this thing",
        "What's this bridge?",
        "whats this called",
        "What bridge is this?",
        "Which bridge is shown in the photo?",
        "what is the name of this bridge",
        "Name this building",
        "What am I looking at?",
        "Can you identify this bridge?",
        "WHO IS THIS",
        "name?",
    ],
)
def test_the_title_is_asked_for(question: str) -> None:
    assert asks_name(question, "Tower Bridge", BRIDGE)


@pytest.mark.parametrize(
    "question",
    [
        "What color is this?",
        "Which year is it?",
        "What is this made of?",
        "What is it about?",
        "Name its architect",
        "What is the name of its architect?",
        "What is this used for?",
        "What is in it?",
        "Which country is it?",
        "What sort of bridge is this?",
    ],
)
def test_something_else_is_asked_for(question: str) -> None:
    assert not asks_name(question, "Tower Bridge", BRIDGE)


def test_a_label_is_no_name() -> None:
    assert not asks_name("What brand is it?", "Phone 11", "Brand: Pear\nPrice: 9")
    assert asks_name("Which clock is this?", "Swatch GB101", "Type: quartz clock\nPrice: 9")
    facts = Evidence("e", "Phone 11", "Facts", "Brand: Pear\nCategory: Electronics\nPrice: 9")
    reader = ExtractiveReader()
    assert [reader.read(f"What {asked} is it?", facts).answer for asked in ("brand", "category")] == [
        "Pear",
        "Electronics",
    ]


@pytest.mark.parametrize(
    ("question", "expected"),
    [("Tell me about this bridge.", True), ("describe it", True), ("Tell me about its history", False),
     ("Describe the plumage", False)],
)  # fmt: skip
def test_descriptions(question: str, expected: bool) -> None:
    assert asks_description(question) is expected


def read(question: str, text: str) -> Generation:
    return ExtractiveReader().read(question, Evidence("e", "Tower Bridge", "s", text))


def test_the_answer_is_the_title_and_its_span_where_the_section_has_it() -> None:
    assert read("What is this?", BRIDGE).answer == "Tower Bridge" and read("What is this?", BRIDGE).span == (0, 12)
    assert read("What is this?", "Opened in 1894.").answer == "Tower Bridge"
    assert read("What is this?", "Opened in 1894.").span is None
    assert read("What is this?", "Opened in 1894.").evidence is None
    late, lead = Evidence("e", "Tower Bridge", "History", "Opened in 1894."), Evidence("e", "Tower Bridge", "", BRIDGE)
    [found] = ExtractiveReader().read_all(
        [GenerationRequest("What is this?", None, late, others=(OtherSection(lead, 0.1),))]
    )
    assert (found.answer, found.span, found.evidence) == ("Tower Bridge", (0, 12), lead)
    assert read("Tell me about it.", BRIDGE).answer == "Tower Bridge is a bascule bridge in London."


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("And this one?", True),
        ("what about this bridge", True),
        ("How about the next one?", True),
        ("same question for this", True),
        ("And its height?", False),
        ("What is this?", False),
        ("What about the height?", False),
        ("", False),
    ],
)
def test_follow_ups(question: str, expected: bool) -> None:
    assert points_on(question) is expected
