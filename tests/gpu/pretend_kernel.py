"""Triton kernels for a device that is not there: the same arguments, computed with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from retriever.kernels import fp8, maxsim_torch
from retriever.models import packed_roberta


class _Kernel:
    """Stands in for a kernel."""

    def __init__(self, launch: Callable[..., None]) -> None:
        self._launch = launch

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return self._launch


def _max_sim(*tensors: Tensor | None, **_: Any) -> None:
    queries, tokens, scales, query_of, first, counts, _ends, scores = (
        None if tensor is None else tensor.as_subclass(Tensor) for tensor in tensors
    )
    assert queries is not None and tokens is not None and query_of is not None and first is not None
    assert counts is not None and scores is not None
    pairs = torch.stack([query_of, first, counts]).numpy()
    scores.copy_(maxsim_torch.max_sim_pairs(queries, tokens, scales, pairs))


def _round_rows(rows: Tensor, *places: Tensor, **_: Any) -> None:
    for place, computed in zip(places, fp8.rounded_by_pytorch(rows), strict=True):
        place.copy_(computed)


def _flash_attention(query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int) -> Tensor:
    return packed_roberta.plain_attention(query, key, value, ends.as_subclass(Tensor), longest)


def kernel_patches() -> Iterator[AbstractContextManager[Any]]:
    """Yields what replaces FlashAttention, and the Triton kernels if Triton is installed."""
    yield mock.patch.object(packed_roberta, "flash_attention", _flash_attention)
    if find_spec("triton") is not None:
        from retriever.kernels import fp8_triton, maxsim_triton

        yield mock.patch.object(maxsim_triton, "kernel", _Kernel(_max_sim))
        yield mock.patch.object(fp8_triton, "kernel", _Kernel(_round_rows))
