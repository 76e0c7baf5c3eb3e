from __future__ import annotations

from typing import Any

import pytest

from training.generator.config import GeneratorTrainingConfig


def test_the_defaults_are_the_papers() -> None:
    config = GeneratorTrainingConfig()
    assert (config.learning_rate, config.batch_size * config.accumulate, config.epochs) == (2e-5, 8 * 16, 1)
    assert (config.rank, config.lora_alpha, config.dropout, config.warmup) == (128, 256, 0.05, 0.03)


@pytest.mark.parametrize(
    ("device", "given", "expected"),
    [("cpu", None, False), ("cuda", None, True), ("cuda:1", None, True), ("cpu", True, True), ("cuda", False, False)],
)
def test_activations_are_recomputed_on_a_gpu(device: str, given: bool | None, expected: bool) -> None:
    assert GeneratorTrainingConfig(device=device, gradient_checkpointing=given).checkpointing is expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"rank": -1}, "rank must be at least 1, got -1"),
        ({"rank": 513}, "rank must be at most 512, the most that vLLM serves, got 513"),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0, got 0.0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"warmup": -0.1}, "warmup must be at least 0 and below 1, got -0.1"),
        ({"workers": -1}, "workers must be at least 0, got -1"),
        ({"dtype": "float16"}, "dtype must be float32 or bfloat16 for training, got float16"),
    ],
)
def test_a_setting_out_of_range_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        GeneratorTrainingConfig(**settings)
    assert str(raised.value) == message


@pytest.mark.parametrize(("rank", "served"), [(1, 1), (2, 8), (8, 8), (100, 128), (128, 128), (257, 320)])
def test_vllm_takes_the_next_rank_of_its_list(rank: int, served: int) -> None:
    assert GeneratorTrainingConfig(rank=rank).max_lora_rank == served
