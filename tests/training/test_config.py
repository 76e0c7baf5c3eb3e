"""Training settings: the schedule between the limits."""

from __future__ import annotations

import pytest

from training.config import Optimization, TrainingConfig
from training.schedule import Schedule


def test_a_learning_rate_left_out_is_the_models() -> None:
    assert TrainingConfig().optimization(0.5).learning_rate == 0.5
    assert TrainingConfig(learning_rate=0.1, steps=3).optimization(0.5) == Optimization(
        steps=3, minutes=20, learning_rate=0.1
    )


def test_the_schedule_follows_the_nearer_limit() -> None:
    optimization = Optimization(steps=100, minutes=1, learning_rate=0.2, schedule=Schedule(warmup=0.5))
    assert optimization.share(25, 6) == 0.25  # of the steps; 0.1 of the time
    assert optimization.share(25, 45) == 0.75
    assert optimization.share(25, 90) == 1.0
    assert optimization.rate(0.25) == pytest.approx(0.1)  # half of the warm-up
    assert optimization.rate(0.75) == pytest.approx(0.1)  # half of the cosine
    assert optimization.rate(1.0) == 0.0
    assert not optimization.over(99, 59) and optimization.over(100, 0) and optimization.over(0, 60)
