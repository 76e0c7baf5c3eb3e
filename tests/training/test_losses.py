"""Every loss against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from training.losses import contrastive_loss, mean_max_sim


def test_equation_6_by_hand() -> None:
    # exp(0.9 / 0.5) = 6.0496, exp(0.4 / 0.5) = 2.2255, exp(-0.1 / 0.5) = 0.8187; -log(6.0496 / 9.0939) = 0.4076
    # exp(0.2 / 0.5) = 1.4918, exp(0.2 / 0.5) = 1.4918, exp(0) = 1; -log(1.4918 / 3.9836) = 0.9822
    similarities = torch.tensor([[0.9, 0.4, -0.1], [0.2, 0.2, 0.0]])
    assert contrastive_loss(similarities[:1], 0.5).item() == pytest.approx(0.4076, abs=2e-4)
    assert contrastive_loss(similarities, torch.tensor(0.5)).item() == pytest.approx((0.4076 + 0.9822) / 2, abs=2e-4)


def test_equal_candidates_cost_the_logarithm_of_their_number() -> None:
    assert contrastive_loss(torch.full((2, 16), 0.3), 0.07).item() == pytest.approx(math.log(16))


def test_a_temperature_learns() -> None:
    temperature = torch.tensor(0.5, requires_grad=True)
    contrastive_loss(torch.tensor([[0.9, 0.1]]), temperature).backward()
    assert temperature.grad is not None and temperature.grad > 0  # the right one leads: sharper is better


def test_mean_max_sim_by_hand() -> None:
    query = torch.tensor([[[2.0, 0.0], [0.0, 3.0]]])
    candidates = torch.tensor([[[[5.0, 0.0], [3.0, 4.0]], [[-1.0, 0.0], [-1.0, 0.0]]]])
    # First candidate: token (1, 0) finds (1, 0): 1; token (0, 1) finds (0.6, 0.8): 0.8. Mean 0.9.
    # Second: (1, 0) finds (-1, 0): -1; (0, 1) finds it too: 0. Mean -0.5.
    torch.testing.assert_close(mean_max_sim(query, candidates), torch.tensor([[0.9, -0.5]]))


def test_each_query_meets_its_own_candidates() -> None:
    query = torch.eye(2).view(2, 1, 2)
    candidates = torch.tensor([[[[1.0, 0.0]]], [[[1.0, 0.0]]]])
    torch.testing.assert_close(mean_max_sim(query, candidates), torch.tensor([[1.0], [0.0]]))
