"""Given candidates in place of step 1's: what steps 2 and 3 receive."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from evaluation.given import GivenCandidates, Rankings, gold_candidates
from evaluation.metrics import rank_of
from retriever.types import Query
from tests.fakes.questions import QUESTIONS
from tests.fakes.world import FakeIndex

RED, GREEN, BLUE = (f"https://kb/{color}" for color in ("red", "green", "blue"))


def test_the_step_looks_entities_up_once_in_the_given_order() -> None:
    found: Rankings = {
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


@pytest.mark.parametrize("scores", [[0.5, 0.5, 0.5], [0.7, 0.5, 0.5], [0.5, 0.5, -0.1], [0.0, 0.0, 0.0], [3e4, 3e4, 1]])
def test_of_equal_scores_the_first_comes_first(scores: list[float]) -> None:
    order = [GREEN, RED, BLUE]  # neither that of ids nor that of rows
    step, index = GivenCandidates({"a": list(zip(order, scores, strict=True))}, FakeIndex(), k=3), FakeIndex()
    [candidates] = step.start([Query(Image.new("RGB", (8, 8)), "?", "a")])([[]])
    ranking = [(index.entity(one.row).id, one.score) for one in candidates]
    assert [rank_of({entity}, ranking) for entity in order] == [1, 2, 3]
    single = np.array([one.score for one in candidates], np.float32)
    assert (np.diff(single) < 0).all() and np.allclose(single, scores, rtol=1e-6, atol=1e-6)
