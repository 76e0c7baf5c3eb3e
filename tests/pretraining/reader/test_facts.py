"""Questions about lists of facts: the answer is where it is said to be, and wordings of the splits are disjoint."""

from __future__ import annotations

import random

import pytest

from pretraining.reader.facts import Fact, Split, concept_of, concepts, invented, questions_about, written

BOXES = [
    ("Movie", "The Hill", {"Directed by": ["Ann Lee"], "Running time": ["98 minutes"], "Starring": ["A. Bo", "C. Do"],
                           "Budget": ["$7 million"], "Country": ["Peru"],
                           "Release date": ["March 8, 1996 ( 1996-03-08 )"]}),
    ("City", "Lund", {"Population": ["90,000"], "Area": ["25 km2"], "Mayor": ["Eva Berg"], "Founded": ["990"]}),
]  # fmt: skip


def test_wordings_of_the_splits_are_disjoint() -> None:
    splits: tuple[Split, ...] = ("ask", "validation", "test")
    asked = {split: {w for c in concepts().values() for w in c.wordings[split]} for split in splits}
    assert len(asked["ask"]) > 500 and len(asked["validation"]) == len(asked["test"]) == len(concepts())
    assert not (
        asked["ask"] & asked["validation"] or asked["ask"] & asked["test"] or asked["validation"] & asked["test"]
    )


@pytest.mark.parametrize("split", ["ask", "validation", "test"])
def test_answers_are_where_they_are_said_to_be(split: Split) -> None:
    found = list(questions_about(BOXES, 200, split, random.Random(0)))
    answered = [question for question in found if question.answers]
    assert 0.5 < len(answered) / len(found) < 0.9
    for question in answered:
        [answer] = question.answers
        assert answer.start is not None and answer.text
        assert question.passage[answer.start : answer.start + len(answer.text)] == answer.text
        assert "{" not in question.question and "<" not in question.question


def test_a_declined_list_lacks_the_concept() -> None:
    found = list(questions_about(BOXES[:1], 300, "ask", random.Random(1)))
    directed = [q for q in found if not q.answers and "direct" in q.question.lower() and q.article == "The Hill"]
    assert directed and not any("Ann Lee" in question.passage for question in directed)


def test_patterns_are_filled() -> None:
    rng = random.Random(0)
    assert {invented("<2-3> <g,kg>", rng) for _ in range(50)} == {"2 g", "2 kg", "3 g", "3 kg"}


def test_labels_are_recognized_in_any_writing() -> None:
    assert concept_of("Directed by") == concept_of("directed_by") == "director"
    assert concept_of("Population (2020)") == "population" and concept_of("Thread count") == ""


def test_the_place_of_an_answer_survives_every_style() -> None:
    facts = [Fact("Height", "12 m", "height"), Fact("Color", "red", "color"), Fact("Area/total", "3 km²", "area")]
    for seed in range(200):
        text, answer = written(facts, facts[2], random.Random(seed))
        assert answer is not None and answer.start is not None
        assert text[answer.start : answer.start + len(answer.text)] == "3 km²"
