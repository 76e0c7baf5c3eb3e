"""Linear layers in FP8: half the memory of bfloat16, and twice its rate, on GPUs of compute capability 8.9 and higher.

A weight is rounded to float8_e4m3fn (4 significant bits, up to 448) once, with one scale per output; an input as it
comes, with one scale per row. Sums are in float32. What is not a linear layer stays as it is. On a CPU the same numbers
are computed in float32, slowly, so that their error can be measured anywhere.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from retriever.kernels.fp8 import rounded

_CAPABILITY = (8, 9)
_MULTIPLE = 16


def check_fp8(device: str, dtype: torch.dtype) -> None:
    """Checks that a device can run FP8 layers beside others of a dtype.

    Raises:
        ValueError: It is a GPU that cannot; the message says why.
    """
    if not device.startswith("cuda"):
        return
    found = torch.cuda.get_device_capability(device)
    if found < _CAPABILITY:
        raise ValueError(
            f"FP8 needs a GPU of compute capability 8.9 or higher, but {torch.cuda.get_device_name(device)} has "
            f"{found[0]}.{found[1]}"
        )
    if dtype != torch.bfloat16:
        given = str(dtype).removeprefix("torch.")
        raise ValueError(f'FP8 layers give bfloat16 on a GPU, not {given}; set dtype = "bfloat16"')


def use_fp8(module: nn.Module, device: torch.device | str) -> None:
    """Replaces every linear layer inside a module by an `FP8Linear` on a device, one after another.

    Raises:
        ValueError: A layer has a size that the matrix units do not take.
    """
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            try:
                setattr(module, name, FP8Linear(child, device))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        else:
            use_fp8(child, device)


class FP8Linear(nn.Module):
    """A linear layer in FP8, for inference.

    Args:
        linear: The layer to round.
        device: Where to keep the result.

    Raises:
        ValueError: A size is no multiple of 16.
    """

    weight: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear, device: torch.device | str) -> None:
        super().__init__()
        if linear.in_features % _MULTIPLE or linear.out_features % _MULTIPLE:
            sizes = f"{linear.in_features} to {linear.out_features}"
            raise ValueError(f"FP8 needs sizes that are multiples of {_MULTIPLE}, got {sizes}")
        values, scales = rounded(linear.weight.detach().to(device))
        self.register_buffer("weight", values)
        self.register_buffer("scales", scales.view(1, -1))
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().to(device))

    def forward(self, x: Tensor) -> Tensor:
        """Applies the layer to vectors [..., in_features]; the result has their dtype."""
        rows = x.reshape(-1, x.shape[-1])
        values, scales = rounded(rows)
        if x.is_cuda:
            # Without fast accumulation, which keeps fewer bits of a sum.
            y = torch._scaled_mm(
                values, self.weight.t(), scale_a=scales, scale_b=self.scales, bias=self.bias, out_dtype=x.dtype
            )
        else:
            sums = (values.float() @ self.weight.float().t()) * scales * self.scales
            y = (sums if self.bias is None else sums + self.bias.float()).to(x.dtype)
        return y.view(*x.shape[:-1], y.shape[-1])
