"""EfficientNet-Lite0 (Liu 2020; the weights are those of TensorFlow's authors): what ImageNet's photographs look like.

A base model (`retriever.base_models`) that is never trained here, so only its fused form exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import torch
from torch import Tensor, nn
from torch.nn import functional

from retriever.models.fused_convolutions import Activation, FusedConvolution

MEAN, STD = (127 / 255, 127 / 255, 127 / 255), (128 / 255, 128 / 255, 128 / 255)
"""How pixels in 0..1 are shifted and scaled, per channel."""
_STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
"""Number of blocks of each stage, and the stride of its first block."""
_EPSILON = 1e-3  # of TensorFlow's batch norms


class EfficientNetLite:
    """The network without its classifier.

    Args:
        weights: The published tensors by name.
        device: The device to run on.
        dtype: Type of the weights and inputs.

    Raises:
        KeyError: A tensor is missing.
    """

    def __init__(self, weights: Mapping[str, Tensor], device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        def fused(name: str, norm: str, stride: int = 1, activation: Activation = "relu6") -> _Convolution:
            kernels = weights[f"{name}.weight"]
            sizes = {}
            for down, right in product(range(stride), repeat=2):
                padded = functional.pad(kernels, (stride - 1 - right, 0, stride - 1 - down, 0))
                conv, batch_norm = _layers(weights, padded, norm, stride)
                sizes[down, right] = FusedConvolution(conv, batch_norm, device, dtype, activation)
            return _Convolution(sizes, stride, len(kernels))

        self._stem = fused("_conv_stem", "_bn0", 2)
        self._blocks: list[tuple[list[_Convolution], _Convolution]] = []
        for stride in (first if not number else 1 for count, first in _STAGES for number in range(count)):
            block = f"_blocks.{len(self._blocks)}"
            widening = [fused(f"{block}._expand_conv", f"{block}._bn0")] if self._blocks else []
            depthwise = fused(f"{block}._depthwise_conv", f"{block}._bn1", stride)
            narrowing = fused(f"{block}._project_conv", f"{block}._bn2", activation="none")
            self._blocks.append(([*widening, depthwise], narrowing))
        self._head = fused("_conv_head", "_bn1")

    def __call__(self, pixels: Tensor) -> Tensor:
        """Encodes images, [B, 3, H, W], as vectors [B, FEATURES]: the mean over the last feature map."""
        return self.cells(pixels).mean((2, 3))

    def cells(self, pixels: Tensor) -> Tensor:
        """Returns the last feature map of images [B, 3, H, W]: [B, FEATURES, cells, cells]."""
        grid = self._stem(pixels.contiguous(memory_format=torch.channels_last))
        for convolutions, narrowing in self._blocks:
            hidden = grid
            for convolution in convolutions:
                hidden = convolution(hidden)
            same = grid.shape[1] == narrowing.width and grid.shape[2:] == hidden.shape[2:]
            grid = narrowing(hidden, grid if same else None)
        return self._head(grid)


class _Convolution:
    """A convolution that pads as TensorFlow's "SAME" does: what is odd, at the bottom and on the right.

    It pads no image, which would be copied for it. With stride 2, kernels begin with a row of zeros for images of even
    height, and with a column of zeros for images of even width.

    Args:
        fused: The convolution for each remainder of height and width, divided by the stride.
        stride: Its stride, 1 or 2.
        width: Length of the vectors in its result.
    """

    def __init__(self, fused: Mapping[tuple[int, int], FusedConvolution], stride: int, width: int) -> None:
        self._fused, self._stride, self.width = fused, stride, width

    def __call__(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        return self._fused[x.shape[2] % self._stride, x.shape[3] % self._stride](x, other)


def _layers(weights: Mapping[str, Tensor], kernels: Tensor, norm: str, stride: int) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    width, depth, *sides = kernels.shape
    groups = width if depth == 1 else 1
    padding = ((sides[0] - 1) // 2, (sides[1] - 1) // 2)
    conv = nn.Conv2d(depth * groups, width, (sides[0], sides[1]), stride, padding, groups=groups, bias=False)
    batch_norm = nn.BatchNorm2d(width, eps=_EPSILON)
    conv.load_state_dict({"weight": kernels})
    prefix = f"{norm}."
    batch_norm.load_state_dict({key.removeprefix(prefix): weights[key] for key in weights if key.startswith(prefix)})
    return conv, batch_norm
