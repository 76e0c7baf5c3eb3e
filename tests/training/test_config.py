"""Training settings: the schedule, and the limits."""

from __future__ import annotations

import pytest

from training.config import Optimization, TrainingConfig
from training.schedule import Schedule


def test_settings_left_out_are_the_models() -> None:
    left_out = TrainingConfig().optimization(0.5, 7)
    assert (left_out.learning_rate, left_out.steps, left_out.minutes) == (0.5, 7, None)
    assert TrainingConfig(learning_rate=0.1, steps=3, minutes=20).optimization(0.5, 7) == Optimization(
        steps=3, minutes=20, learning_rate=0.1
    )


def test_a_time_limit_ends_a_run_and_changes_nothing_else() -> None:
    optimization = Optimization(steps=100, minutes=1, learning_rate=0.2, schedule=Schedule(warmup=0.5))
    assert optimization.rate(0.25) == pytest.approx(0.1)  # half of the warm-up
    assert optimization.rate(0.75) == pytest.approx(0.1)  # half of the cosine
    assert optimization.rate(1.0) == 0.0
    assert not optimization.over(99, 59) and optimization.over(100, 0) and optimization.over(0, 60)
    without = Optimization(steps=100, learning_rate=0.2, schedule=Schedule(warmup=0.5))
    assert optimization.agreed == without.agreed and "minutes" not in without.agreed
