"""Settings of step 2's training: ranges."""

from __future__ import annotations

import math
from typing import Any

import pytest

from training.reranker.config import RerankerTrainingConfig


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"minutes": 0}, "minutes must be a finite number above 0, got 0"),
        ({"minutes": math.nan}, "minutes must be a finite number above 0, got nan"),
        ({"epochs": math.inf}, "epochs must be a finite number above 0, got inf"),
        ({"learning_rate": -1.0}, r"learning_rate must be a finite number above 0, got -1\.0"),
        ({"validation_share": 1.0}, r"validation_share must be at least 0 and below 1, got 1\.0"),
        ({"validate_every": 0}, "validate_every must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        ({"epochs": 0.0}, r"epochs must be a finite number above 0, got 0\.0"),
        ({"accumulate": 0}, "accumulate must be at least 1, got 0"),
        ({"tokens_per_forward": 0}, "tokens_per_forward must be at least 1, got 0"),
        ({"warmup": 1.5}, r"warmup must be between 0 and 1, got 1\.5"),
        ({"max_bad": -0.1}, r"max_bad must be between 0 and 1, got -0\.1"),
        ({"workers": -1}, "workers must be at least 0, got -1"),
        ({"recipe": "cake"}, "recipe must be one of mined, in-batch, paper, got 'cake'"),
        ({"precision": "int4"}, "precision must be one of bfloat16, float32, got 'int4'"),
    ],
)
def test_settings_out_of_range_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RerankerTrainingConfig(**given)


@pytest.mark.parametrize(
    ("device", "given", "expected"),
    [("cpu", None, 8192), ("cuda", None, 32_768), ("cuda:1", None, 32_768), ("cpu", 512, 512), ("cuda", 512, 512)],
)
def test_a_forward_pass_is_larger_on_a_gpu(device: str, given: int | None, expected: int) -> None:
    assert RerankerTrainingConfig(device=device, tokens_per_forward=given).most_tokens == expected
