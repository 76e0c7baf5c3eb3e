"""Convolutions of image towers for inference, each fused with the batch norm, sum and activation that follow it.

As separate operations, they would contend for Python's GIL, and each would read and write a whole feature map.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_weights

from retriever.models.precision import onednn_computes

_PACKED_IMAGES = 4
"""Largest batch, in images, for which weights are kept in oneDNN's layout. The layout may differ between batch sizes,
and reordering in each call takes 0.5 ms for all layers, which only matters for small batches."""


Activation = Literal["relu", "relu6", "none"]
_ONEDNN: dict[Activation, tuple[str, list[float]]] = {"relu": ("relu", []), "relu6": ("hardtanh", [0.0, 6.0])}
"""oneDNN's name and arguments for an activation."""


class FusedConvolution:
    """A convolution without a bias, its batch norm and its activation: `activation(norm(conv(x)) + other)`.

    The batch norm is folded into a copy of the weights in float32, before they are rounded to `dtype`. There are no
    gradients.

    Args:
        conv: The convolution: no dilation, zero padding.
        norm: Its batch norm; the running statistics are used.
        device: The device to run on.
        dtype: Type of the inputs.
        activation: What follows.
    """

    def __init__(
        self,
        conv: nn.Conv2d,
        norm: nn.BatchNorm2d,
        device: str,
        dtype: torch.dtype,
        activation: Activation = "relu",
    ) -> None:
        assert norm.running_mean is not None and norm.running_var is not None
        tensors = (conv.weight, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        weight, mean, variance, scale, shift = (tensor.detach().float() for tensor in tensors)
        folded, bias = fuse_conv_bn_weights(weight, None, mean, variance, norm.eps, scale, shift)
        self._weight = folded.detach().to(device, dtype).contiguous(memory_format=torch.channels_last)
        self._bias = bias.detach().to(device, dtype)
        self._padding, self._stride, self._groups = [int(side) for side in conv.padding], list(conv.stride), conv.groups
        self._activation = activation
        self._by_onednn = onednn_computes(device, dtype)
        self._packed: dict[torch.Size, Tensor] = {}

    def __call__(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        """Returns the result, [B, C, H, W], in the memory format `channels_last`; `x` must have it, too."""
        if not self._by_onednn:
            result = functional.conv2d(x, self._weight, self._bias, self._stride, self._padding, groups=self._groups)
            result = result if other is None else result + other
            return result if self._activation == "none" else getattr(functional, self._activation)(result)
        how = (self._weight_for(x), self._bias, self._padding, self._stride, [1, 1], self._groups)
        name, arguments = _ONEDNN.get(self._activation, (None, []))
        fused: Tensor
        if other is None:
            fused = torch.ops.mkldnn._convolution_pointwise(x, *how, name or "none", arguments, "")
        else:
            fused = torch.ops.mkldnn._convolution_pointwise(x, other, *how, "add", 1.0, name, arguments, "")
        return fused

    def __getstate__(self) -> dict[str, object]:
        """Leaves out the weights in oneDNN's layout, which can be neither copied nor saved."""
        return self.__dict__ | {"_packed": {}}

    def _weight_for(self, x: Tensor) -> Tensor:
        if len(x) > _PACKED_IMAGES:
            return self._weight
        if x.shape not in self._packed:
            self._packed[x.shape] = torch.ops.mkldnn._reorder_convolution_weight(
                self._weight, self._padding, self._stride, [1, 1], self._groups, list(x.shape)
            )
        return self._packed[x.shape]
