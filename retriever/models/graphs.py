"""CUDA graphs: a tower's hundreds of kernel launches replayed as one, which is what bounds it at batch 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

SIZES = (1, 2, 4, 8, 16, 32)
"""Batch sizes that are captured; a batch in between is padded to the next, a larger one runs without a graph."""

Forward = Callable[..., Tensor]


def graphed(forward: Forward, sizes: tuple[int, ...] = SIZES) -> Forward:
    """Returns `forward`, captured as a CUDA graph for each batch size and shape when it is first met.

    Tensors that are not on a GPU go to `forward` as they are. Rows of a batch must not depend on each other.

    Args:
        forward: Takes tensors that agree in their first dimension and returns one that does; waits for nothing on the
            host, and is called without gradients.
        sizes: Batch sizes to capture, ascending.
    """
    captured: dict[tuple[torch.Size, ...], _Captured] = {}

    def run(*given: Tensor) -> Tensor:
        count = len(given[0])
        size = padded_size(count, sizes)
        if size is None or not given[0].is_cuda:
            return forward(*given)
        key = tuple(torch.Size((size, *tensor.shape[1:])) for tensor in given)
        if key not in captured:
            captured[key] = _Captured(
                forward, [tensor.new_zeros(shape) for tensor, shape in zip(given, key, strict=True)]
            )
        return captured[key](given, count)

    return run


def padded_size(count: int, sizes: tuple[int, ...]) -> int | None:
    """Returns the smallest of `sizes` that holds `count` rows; `None` for no rows or too many."""
    return next((size for size in sizes if size >= count), None) if count else None


class _Captured:
    """One graph with the memory that it reads and writes."""

    def __init__(self, forward: Forward, inputs: list[Tensor]) -> None:
        self._inputs = inputs
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # lazy set-up (workspaces, plans) must not end up in the graph
                forward(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph: Any = torch.cuda.CUDAGraph()
        # other threads may be loading pictures onto the device meanwhile
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._output = forward(*inputs)

    def __call__(self, given: tuple[Tensor, ...], count: int) -> Tensor:
        for memory, tensor in zip(self._inputs, given, strict=True):
            memory[:count].copy_(tensor)
        self._graph.replay()
        return self._output[:count].clone()
