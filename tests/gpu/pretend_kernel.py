"""Triton kernels for a device that is not there: the same arguments, computed with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any, Protocol
from unittest import mock

import torch
from torch import Tensor

from retriever.kernels import fp8, maxsim_torch
from retriever.models import packed_roberta


class Device(Protocol):
    """What kernels need of the device: see `tests.gpu.pretend.PretendedDevice`."""

    def kernel(self, name: str, compute: Callable[..., Tensor | None], *args: Any) -> Any:
        """Launches a kernel."""


class _Kernel:
    """Stands in for a kernel of Triton."""

    def __init__(self, device: Device, compute: Callable[..., None]) -> None:
        self._device, self._compute = device, compute

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *args, **_: self._device.kernel(self._compute.__name__, self._compute, *args)


def _max_sim(*tensors: Tensor | None) -> None:
    queries, tokens, scales, query_of, first, counts, _ends, scores = tensors
    assert queries is not None and tokens is not None and query_of is not None and first is not None
    assert counts is not None and scores is not None
    pairs = torch.stack([query_of, first, counts]).numpy()
    scores.copy_(maxsim_torch.max_sim_pairs(queries, tokens, scales, pairs))


def _round_rows(rows: Tensor, *places: Tensor) -> None:
    for place, computed in zip(places, fp8.rounded_by_pytorch(rows), strict=True):
        place.copy_(computed)


def _flash_attention(*args: Any) -> Tensor:
    return packed_roberta.plain_attention(*args).contiguous()


def kernel_patches(device: Device) -> Iterator[AbstractContextManager[Any]]:
    """Yields what replaces FlashAttention, and the Triton kernels if Triton is installed."""

    def flash_attention(*args: Any) -> Any:
        return device.kernel("flash_attention", _flash_attention, *args)

    yield mock.patch.object(packed_roberta, "flash_attention", flash_attention)
    if find_spec("triton") is not None:
        from retriever.kernels import fp8_triton, maxsim_triton

        yield mock.patch.object(maxsim_triton, "kernel", _Kernel(device, _max_sim))
        yield mock.patch.object(fp8_triton, "kernel", _Kernel(device, _round_rows))
