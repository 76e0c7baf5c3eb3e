"""Settings of trainings: ranges, and the schedule between the limits."""

from __future__ import annotations

from typing import Any

import pytest

from training.config import Optimization, RerankerTrainingConfig, TrainingConfig
from training.schedule import Schedule


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"minutes": 0}, "minutes must be above 0, got 0"),
        ({"learning_rate": -1.0}, r"learning_rate must be above 0, got -1\.0"),
        ({"validation_share": 1.0}, r"validation_share must be at least 0 and below 1, got 1\.0"),
        ({"validate_every": 0}, "validate_every must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        ({"epochs": 0.0}, r"epochs must be above 0, got 0\.0"),
        ({"accumulate": 0}, "accumulate must be at least 1, got 0"),
        ({"warmup": 1.5}, r"warmup must be between 0 and 1, got 1\.5"),
        ({"max_bad": -0.1}, r"max_bad must be between 0 and 1, got -0\.1"),
        ({"workers": -1}, "workers must be at least 0, got -1"),
        ({"recipe": "cake"}, "recipe must be one of default, paper, got 'cake'"),
        ({"precision": "int4"}, "precision must be one of bfloat16, float32, got 'int4'"),
    ],
)
def test_settings_out_of_range_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RerankerTrainingConfig(**given)


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
