"""Low-rank matrices beside the linear layers of a BERT, as `retriever.models.lora.merge_lora` reads them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from retriever.models.bert import Bert
from retriever.models.lora import DOWN, UP, linear_layers


class LoraLinear(nn.Module):
    """A frozen linear layer with low-rank matrices, which begin without an effect.

    Args:
        linear: The layer.
        rank: The rank.
        generator: Draws the initial values.
    """

    def __init__(self, linear: nn.Linear, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        self.linear = linear
        width = linear.in_features
        self.down = nn.Parameter((torch.randn(rank, width, generator=generator) * width**-0.5).to(linear.weight.device))
        self.up = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))

    def forward(self, inputs: Tensor) -> Tensor:
        """Returns the layer's outputs, with the matrices' share."""
        outputs: Tensor = self.linear(inputs)
        return outputs + (inputs @ self.down.T) @ self.up.T


def add_lora(model: Bert, rank: int, seed: int) -> None:
    """Freezes a model and adds low-rank matrices to all linear layers."""
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name in linear_layers(model):
        parent, _, last = name.rpartition(".")
        linear = model.get_submodule(name)
        assert isinstance(linear, nn.Linear)
        setattr(model.get_submodule(parent), last, LoraLinear(linear, rank, generator))


def lora_tensors(model: nn.Module) -> Mapping[str, Tensor]:
    """Returns the low-rank matrices by the names under which `merge_lora` finds them, in float16."""
    found = dict[str, Tensor]()
    for name, layer in model.named_modules():
        if isinstance(layer, LoraLinear):
            for suffix, matrix in ((DOWN, layer.down), (UP, layer.up)):
                found[name + suffix] = matrix.detach().cpu().half().contiguous()
    return found


def stacked(earlier: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns matrices whose product is the sum of both: those that a model started with, and those it has learned."""
    found = dict(earlier)
    for name, matrix in own.items():
        before = [earlier[name].to(matrix.dtype)] if name in earlier else []
        found[name] = torch.cat([*before, matrix], dim=0 if name.endswith(DOWN) else 1).contiguous()
    return found
