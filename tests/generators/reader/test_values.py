"""Values behind labels: items are answered whole, and the meaning of a line decides between near ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from generators.reader.reader import ExtractiveReader
from generators.reader.values import MOST, gains, whole_item
from retriever.types import Evidence, FloatArray


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("Scientific: Megalodacne heros", "Megalodacne", "Megalodacne heros"),
        ("Location: Hall 12 upstairs", "Hall", "Hall 12 upstairs"),
        ("Departs: Platform 9 north", "9", "Platform 9 north"),
        ("Made: Late 2022", "2022", "Late 2022"),
        ("Range: upto 1800", "upto", "upto 1800"),
        ("Height: 20-30 meters (66-100 feet)", "20-30 meters", "20-30 meters"),
        ("Length: 20 ft in all", "20 ft", "20 ft"),
        ("Peak: Mount Gimie 948 m", "Gimie", "Mount Gimie"),
        ("Born: Oslo 1950", "Oslo", "Oslo"),
        ("Made in: Paris, France", "Paris", "Paris"),
        ("Colors: brown, pale tan, gray, cream", "tan, gray", "brown, pale tan, gray, cream"),
        ("Box: cards; a die; ink", "cards", "cards; a die; ink"),
        ("Day: Unity Day; 1 March", "Unity", "Unity Day"),
        ("Name = Ox | Maker = Ann Berg | Age = 3", "Ann", "Ann Berg"),
        ("Age: total: 29; male: 28", "29", "29"),
        ("Source: Kuo (Michigan); Field Museum.", "Kuo", "Kuo"),
        ("Diet: It feeds on the seeds of many wild plants", "seeds", "seeds"),
        ("It lives in Hall 12 upstairs", "Hall", "Hall"),
        ("Maker: Hobson & Sons\nCode: 9M", "Hobson", "Hobson & Sons"),
    ],
)
def test_an_item_of_a_value_is_whole(text: str, part: str, expected: str) -> None:
    start = text.index(part)
    assert text[slice(*whole_item(text, start, start + len(part)))] == expected


def test_only_labeled_lines_that_can_become_the_answer_are_compared() -> None:
    compared = list[str]()

    def likeness(question: str, lines: Sequence[str]) -> FloatArray:
        compared.extend(lines)
        return np.array([0.9, 0.3][: len(lines)], np.float32)

    text = "Use: roofs\nShade: dark\nIt was once far away.\nCode: 9M"
    scores = np.array([-6.0, 2.0, 3.0, -20.0], np.float32)
    assert gains("What is it for?", text, scores, likeness).tolist() == pytest.approx([MOST, 2.4, 0, 0], abs=1e-4)
    assert compared == ["Use: roofs", "Shade: dark"]
    assert not gains("What is it for?", "Use: roofs\nCode: 9M", scores[[2, 3]] + 4, likeness).any()
    assert len(compared) == 2  # the only candidate is sure


def read(question: str, title: str, text: str) -> str | None:
    return ExtractiveReader().read(question, Evidence("e", title, "Facts", text)).answer


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("What is its scientific name?", "Scientific: Calosoma scrutator\nGroup: Carabidae", "Calosoma scrutator"),
        ("What is it called in Latin?", "Scientific: Calosoma scrutator\nGroup: Carabidae", "Calosoma scrutator"),
        ("Which family does it belong to?", "Scientific: Calosoma scrutator\nGroup: Carabidae", "Carabidae"),
        ("Up to what height is it found?", "Season: spring\nAltitude: upto 2400\nHabitat: scree", "upto 2400"),
        ("In which hall is it?", "Location: Hall 12 upstairs\nMaker: Hobson\nCode: 9M", "Hall 12 upstairs"),
        ("When did it come out?", "Maker: Hobson\nReleased: Late 2022\nCode: 9M", "Late 2022"),
        ("Who painted this?", "Place: Yard 3\nArtist, name: ODE\nArtist, website: ode-paints", "ODE"),
        ("How high does it grow?", "Max height: 4-6 meters\nElevation: 0-900m\nGrowth rate: slow", "4-6 meters"),
        ("How high does it lie?", "Elevation: 0-900m\nGrowth rate: slow", "0-900m"),
        ("What colors does it have?", "Colors: brown, tan, gray, cream\nShape: a fan", "brown, tan, gray, cream"),
    ],
)
def test_the_value_of_the_line_that_is_meant(question: str, text: str, answer: str) -> None:
    assert read(question, "Subject", text) == answer
