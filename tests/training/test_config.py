"""Training settings: the schedule, and the limits; learning rates over a run."""

from __future__ import annotations

import pytest
import torch

from training.config import ONE_CYCLE, Optimization, Schedule, TrainingConfig


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


def test_the_paper_s_schedule_is_pytorch_s_one_cycle() -> None:
    steps = 101
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], betas=(0.9, 0.98))
    reference = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1.0, pct_start=0.3, div_factor=100.0, total_steps=steps
    )
    for step in range(steps):
        group = optimizer.param_groups[0]
        # PyTorch ends the rise a step early, at 0.3 * steps - 1.
        share = step / (steps - 1)
        assert ONE_CYCLE.factor(share) == pytest.approx(group["lr"], abs=0.03)
        assert ONE_CYCLE.beta(share) == pytest.approx(group["betas"][0], abs=0.005)
        if step in (0, steps - 1):
            assert ONE_CYCLE.factor(share) == pytest.approx(group["lr"], rel=1e-6)
        optimizer.step()
        if step < steps - 1:
            reference.step()


def test_a_linear_warm_up_and_a_cosine_to_zero() -> None:
    schedule = Schedule(warmup=0.2)
    assert [round(schedule.factor(share), 6) for share in (0.0, 0.1, 0.2, 0.6, 1.0)] == [0, 0.5, 1, 0.5, 0]
    assert schedule.beta(0.5) is None


def test_a_run_may_be_all_warm_up_or_have_none() -> None:
    assert Schedule(warmup=1.0).factor(0.5) == 0.5
    assert Schedule(warmup=0.0).factor(0.0) == 1.0


def test_a_cooldown_cuts_a_longer_run_short() -> None:
    """Halfway through a cosine planned for twice the steps, the rest falls in a straight line."""
    schedule = Schedule(warmup=0.0, planned=2.0, cooldown=0.5)
    quarter = (1 + 2**-0.5) / 2  # a quarter of the cosine: (1 + cos 45 degrees) / 2
    expected = [1.0, (1 + 0.9238795) / 2, quarter, quarter / 2, 0.0]
    assert [schedule.factor(share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)] == pytest.approx(expected, abs=1e-6)
