"""Samples of step 2's training: which questions make one, and which candidates they draw."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from retriever.types import Entity, Section
from tests.fakes.training_world import LabeledQuestion
from training.candidates import Sample, SectionRef, draw_candidates, make_samples


def entities(sections: int = 8) -> dict[str, Entity]:
    made = {
        key: Entity(key, key, tuple(Section(str(i), "text", 2 * i) for i in range(sections)), image=f"{key}.png")
        for key in ("gold", "twin", "a", "b")
    }
    made["no image"] = Entity("no image", "", made["a"].sections)
    made["no sections"] = Entity("no sections", "", (), image="x.png")
    return made


def samples_of(question: LabeledQuestion, found: list[str], sections: int = 8) -> list[Sample]:
    image = Path("any.png")
    return make_samples(
        [question], entities(sections), {"q": found}, lambda e: image if e.image else None, lambda _: image
    )


def test_negatives_obey_the_rules() -> None:
    question = LabeledQuestion(
        "1", "what?", "q", ("gold", "twin"), 6
    )  # published position 6 is the fourth kept section
    (sample,) = samples_of(question, ["a", "gold", "no image", "twin", "no sections", "b", "unknown", "a"])
    assert sample.positive == SectionRef("gold", 3)
    assert sample.others == ("a", "b")
    for seed in range(50):
        drawn = draw_candidates(sample, entities(), random.Random(seed))
        assert len(drawn) == len(set(drawn)) == 16
        assert drawn[0] == SectionRef("gold", 3)
        assert sum(pair.entity_id == "gold" for pair in drawn[1:]) == 3
        assert {pair.entity_id for pair in drawn[4:]} <= {"a", "b"}


def test_the_same_seed_draws_the_same() -> None:
    (sample,) = samples_of(LabeledQuestion("1", "what?", "q", ("gold",), 0), ["a", "b"])
    assert draw_candidates(sample, entities(), random.Random("5")) == draw_candidates(
        sample, entities(), random.Random("5")
    )


def test_a_short_article_gives_fewer_of_its_own() -> None:
    made = entities()
    made["gold"] = Entity("gold", "gold", made["gold"].sections[:2], image="gold.png")
    question = LabeledQuestion("1", "what?", "q", ("gold",), 0)
    (sample,) = make_samples([question], made, {"q": ["a", "b"]}, lambda e: Path("x"), lambda _: Path("x"))
    drawn = draw_candidates(sample, made, random.Random(0))
    assert [pair.entity_id for pair in drawn].count("gold") == 2
    assert len(drawn) == 16


@pytest.mark.parametrize(
    ("question", "found", "sections", "reason"),
    [
        (LabeledQuestion("1", "?", "q", ("gold",), None), ["a", "b"], 8, "evidence section is unknown"),
        (LabeledQuestion("1", "?", "q", ("gold",), 1), ["a", "b"], 8, "no such section"),
        (LabeledQuestion("1", "?", "q", ("no image",), 0), ["a", "b"], 8, "no image"),
        (LabeledQuestion("1", "?", "other", ("gold",), 0), ["a", "b"], 8, "no negatives"),
        (LabeledQuestion("1", "?", "q", ("gold",), 0), ["a", "gold"], 8, "too few"),
    ],
)
def test_unusable_questions_are_left_out(
    question: LabeledQuestion, found: list[str], sections: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert samples_of(question, found, sections) == []
    assert reason in caplog.text
