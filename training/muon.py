"""Muon, an optimizer that orthogonalizes the updates of weight matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic a x + b x^3 + c x^5, which moves singular values in 0..1 towards 1 in a few iterations."""
_ITERATIONS = 5
_RMS = 0.2
"""Root mean square of an entry of an update before the learning rate, that of AdamW's updates in practice."""


class Muon(torch.optim.Optimizer):
    """Muon (Jordan et al., 2024) for the weights of linear layers, convolutions and attention; AdamW for the rest.

    An update of a matrix is its momentum with all singular values moved close to 1, so that rare directions are learned
    as fast as common ones. A filter bank [out, in, h, w] is a matrix [out, in * h * w]. `torch.optim.Muon` rejects
    filters, and needs a second optimizer for the other parameters. Updates are scaled to the size of AdamW's (Liu et
    al., 2025), so both parts share learning rate and weight decay.

    Args:
        model: The model; its parameters with `requires_grad` are optimized.
        lr: Learning rate.
        momentum: Decay of the momentum of matrices, Nesterov's.
        weight_decay: Decoupled weight decay; vectors, such as biases and norms, have none.
        betas: AdamW's betas.
        eps: AdamW's epsilon.
    """

    def __init__(
        self,
        model: nn.Module,
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.05,
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-8,
    ):
        matrices = [weight for weight in _matrices(model) if weight.requires_grad]
        known = {id(weight) for weight in matrices}
        others = [p for p in model.parameters() if p.requires_grad and id(p) not in known]
        super().__init__([{"params": matrices, "weight_decay": weight_decay}], {"lr": lr, "momentum": momentum})
        self._adam = torch.optim.AdamW(
            [
                {"params": [p for p in others if p.ndim > 1], "weight_decay": weight_decay},
                {"params": [p for p in others if p.ndim <= 1], "weight_decay": 0.0},
            ],
            lr=lr,
            betas=betas,
            eps=eps,
        )
        # One view for schedules and checkpoints.
        self._adam.state = self.state
        self.param_groups += self._adam.param_groups

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Updates all parameters once. A closure is not supported."""
        assert closure is None
        group = self.param_groups[0]
        for weight in group["params"]:
            if weight.grad is None:
                continue
            state = self.state[weight]
            if not state:
                state["momentum_buffer"] = torch.zeros_like(weight)
            average = state["momentum_buffer"].lerp_(weight.grad, 1 - group["momentum"])
            update = weight.grad.lerp(average, group["momentum"]).flatten(1)
            scale = _RMS * math.sqrt(max(update.shape))
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            weight.add_(orthogonalized(update).view(weight.shape), alpha=-group["lr"] * scale)
        self._adam.step()


def orthogonalized(matrix: Tensor) -> Tensor:
    """Returns the matrix [M, N] with its singular values moved to about 0.7 to 1.2, by a Newton-Schulz iteration."""
    a, b, c = _COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    found: Tensor = (matrix.T if tall else matrix) / (matrix.norm() + 1e-7)  # all singular values are at most 1 now
    for _ in range(_ITERATIONS):
        squared = found @ found.T
        found = a * found + (b * squared + c * squared @ squared) @ found
    return found.T if tall else found


def _matrices(model: nn.Module) -> list[Tensor]:
    """Returns the weights of linear layers, convolutions and attention's input projections, without embeddings."""
    found: list[Tensor | None] = []
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            found.append(module.weight)
        elif isinstance(module, nn.MultiheadAttention):
            found.append(module.in_proj_weight)
    return list({id(weight): weight for weight in found if weight is not None}.values())
