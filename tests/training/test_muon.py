"""Muon, against PyTorch's own for matrices, against AdamW for the rest, and against singular values."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from training.muon import Muon, orthogonalized


@pytest.mark.parametrize("shape", [(5, 40), (40, 5), (12, 12)])
def test_orthogonalized_moves_singular_values_close_to_one(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    left, before, right = torch.linalg.svd(matrix, full_matrices=False)
    found = orthogonalized(matrix)
    after = left.T @ found @ right.T
    assert torch.allclose(after, torch.diag(after.diagonal()), atol=1e-9)  # the same singular vectors
    values = after.diagonal()[before > 0.1 * before.max()]
    assert 0.6 < float(values.min()) <= float(values.max()) < 1.25


def test_matrices_are_updated_as_by_pytorchs_muon() -> None:
    """PyTorch orthogonalizes in bfloat16, hence the tolerance."""
    torch.manual_seed(0)
    ours = nn.Linear(24, 8, bias=False)
    theirs = copy.deepcopy(ours)
    start = ours.weight.detach().clone()
    mine = Muon(ours, lr=0.02, weight_decay=0.1)
    reference = torch.optim.Muon(
        theirs.parameters(), lr=0.02, weight_decay=0.1, momentum=0.95, nesterov=True, adjust_lr_fn="match_rms_adamw"
    )
    for step in range(5):
        gradient = torch.randn(8, 24, generator=torch.Generator().manual_seed(step))
        ours.weight.grad, theirs.weight.grad = gradient.clone(), gradient.clone()
        mine.step()
        reference.step()
    moved, difference = (theirs.weight - start).detach(), (ours.weight - theirs.weight).detach()
    assert float(difference.norm() / moved.norm()) < 0.02


def test_filters_are_updated_as_matrices() -> None:
    """A bank [out, in, h, w] moves as the matrix [out, in * h * w] does, in either memory layout."""
    torch.manual_seed(0)
    matrix = nn.Linear(18, 4, bias=False)
    filters = nn.Conv2d(2, 4, 3, bias=False)
    last = nn.Conv2d(2, 4, 3, bias=False)
    last.weight.data = last.weight.data.contiguous(memory_format=torch.channels_last)
    gradient = torch.randn(4, 18)
    for layer in (matrix, filters, last):
        with torch.no_grad():
            layer.weight.copy_(torch.arange(72.0).view(layer.weight.shape) / 72)
        layer.weight.grad = gradient.view(layer.weight.shape).clone(memory_format=torch.preserve_format)
        Muon(layer, lr=0.1).step()
    assert torch.allclose(filters.weight.flatten(1), matrix.weight, atol=1e-6)
    assert torch.allclose(last.weight.flatten(1), matrix.weight, atol=1e-6)


def test_everything_else_is_updated_by_adamw() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 4), nn.TransformerEncoderLayer(4, 1, 8, batch_first=True), nn.BatchNorm1d(3))
    reference = copy.deepcopy(model)
    named, expected = dict(model.named_parameters()), dict(reference.named_parameters())
    matrices = {name for name, parameter in named.items() if parameter.ndim > 1} - {"0.weight"}
    assert matrices == {
        f"1.{name}"
        for name in ("self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear1.weight", "linear2.weight")
    }
    vectors = [parameter for name, parameter in expected.items() if parameter.ndim == 1]
    groups = [{"params": [expected["0.weight"]], "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    mine, adam = Muon(model, lr=0.01, weight_decay=0.1), torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.98))
    for step in range(3):
        for number, (name, parameter) in enumerate(named.items()):
            gradient = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(10 * number + step))
            parameter.grad, expected[name].grad = gradient.clone(), gradient.clone()
        mine.step()
        adam.step()
    for name, parameter in named.items():
        if name not in matrices:
            assert torch.equal(parameter, expected[name]), name


def test_frozen_weights_and_missing_gradients_stay() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = Muon(model, lr=1.0)
    model[2].weight.grad = torch.eye(2)
    optimizer.step()
    changed = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert changed == [False, False, False, False, True, False]
