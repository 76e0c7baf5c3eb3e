"""Given candidates in place of step 1's: their formats, and what steps 2 and 3 receive."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from PIL import Image

from evaluation.given import Found, GivenCandidates, gold_candidates, read_candidates
from retriever.types import Query
from tests.fakes.questions import QUESTIONS
from tests.fakes.world import FakeIndex

RED, GREEN, BLUE = (f"https://kb/{color}" for color in ("red", "green", "blue"))


def written(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("content", "scores"),
    [
        # OMGM's first step, EchoSight's, WikiSeeker's, and TREC's format, in which the score decides, not the rank
        ({"retrieved_entities": [{"url": RED}, {"url": BLUE}], "retrieval_similarities": [0.5, 0.25]}, (0.5, 0.25)),
        ({"retrieved_entries": [RED, BLUE], "retrieval_similarities": [0.5, 0.25]}, (0.5, 0.25)),
        ({"retrieved_entities": [{"url": RED}, {"url": BLUE}]}, (None, None)),
        (f"q8 Q0 {GREEN} 1 0.9 x\nq0 Q0 {BLUE} 1 0.25 x\nq0 Q0 {RED} 2 0.5 x\n", (0.5, 0.25)),
    ],
)
def test_formats(content: object, scores: tuple[float | None, ...], tmp_path: Path) -> None:
    rows = content if isinstance(content, str) else {"q8": {"retrieved_entries": [GREEN]}, "q0": content}
    found = read_candidates(written(tmp_path / "results", rows), ["q0"])
    assert {key: list(value) for key, value in found.items()} == {"q0": [(RED, scores[0]), (BLUE, scores[1])]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"q0": [{"entry": "a"}]}, r"as many retrieval_similarities, if any \(found a list\)"),
        ({"q0": {"top_20": []}}, "q0: expected retrieved_entities or retrieved_entries"),
        ({"q0": {"retrieved_entries": ["a"], "retrieval_similarities": []}}, "and as many retrieval_similarities"),
        ({"E-VQA_0": {"retrieved_entries": []}}, "none of the questions, such as 'q0'; it has others, such as 'E-VQA"),
        ("q0 Q0 a 1 0.5\n", "line 1: neither JSON nor a line `question Q0 entity rank score tag`"),
        ("", "none of the questions, such as 'q0'$"),
    ],
)
def test_bad_files_are_named(content: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read_candidates(written(tmp_path / "results", content), ["q0"])


def test_questions_without_candidates_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path / "results", {"q0": {"retrieved_entries": [RED]}})
    with caplog.at_level(logging.WARNING):
        assert list(read_candidates(path, ["q0", "q1", "q2"])) == ["q0"]
    assert "2 questions of 3 have no candidates and count as wrong" in caplog.text


def test_the_step_looks_entities_up_once_in_the_given_order() -> None:
    found: Found = {
        "a": [(BLUE, 0.5), ("https://kb/nowhere", 0.4), (BLUE, 0.3), (RED, 0.2), (GREEN, 0.1)],
        "b": [(RED, None)],
    }
    step, image = GivenCandidates(found, FakeIndex(), k=2), Image.new("RGB", (8, 8))
    first, second, none = step.start([Query(image, "?", id) for id in ("a", "b", "c")])([[], [], []])
    assert [(one.row, one.sim_c, one.score) for one in first] == [(2, 0.5, 0.5), (0, 0.2, 0.2)]
    assert [(one.row, one.sim_c, one.score) for one in second] == [(0, None, 1.0)]
    assert none == []


def test_an_oracle_finds_the_right_entities() -> None:
    found = gold_candidates(QUESTIONS)
    assert list(found["q1"]) == [(GREEN, None)] and len(found) == len(QUESTIONS)
