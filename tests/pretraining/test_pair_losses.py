"""CLIP's loss against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from pretraining.pair_losses import clip_loss, same_pairs


def test_two_orthogonal_pairs() -> None:
    # Logits [[1, 0], [0, 1]]: each row's loss is log(e + 1) - 1, in both directions.
    vectors = torch.eye(2) * 3  # length must not matter
    loss = clip_loss(vectors, vectors, torch.tensor(1.0))
    assert loss.item() == pytest.approx(math.log(math.e + 1) - 1, abs=1e-6)


def test_vectors_all_alike_give_log_n() -> None:
    loss = clip_loss(torch.ones(4, 3), torch.ones(4, 3), torch.tensor(20.0))
    assert loss.item() == pytest.approx(math.log(4), abs=1e-6)


def test_excluded_pairs_are_no_negatives() -> None:
    excluded = same_pairs(["a", "a", "b"])
    assert excluded.tolist() == [[False, True, False], [True, False, False], [False, False, False]]
    # Rows 0 and 1 choose among 2, row 2 among 3.
    loss = clip_loss(torch.ones(3, 2), torch.ones(3, 2), torch.tensor(5.0), excluded)
    assert loss.item() == pytest.approx((2 * math.log(2) + math.log(3)) / 3, abs=1e-6)
