"""CUDA graphs: replay a model's hundreds of kernel launches, which dominate its time at batch 1, as a single one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

LARGEST = 16
"""Queries in the largest batch with graphs: on an H200, batches of 32 took 693 ms with and 566 ms without them."""
SIZES = (1, 2, 4, 8, LARGEST)
"""Batch sizes to capture; a batch in between is padded to the next size, a larger one runs without a graph."""

Forward = Callable[..., Tensor]


def graphed(forward: Forward, sizes: tuple[int, ...] = SIZES) -> Forward:
    """Wraps `forward` to run as a CUDA graph, captured at the first batch of each size and shape.

    On a CPU `forward` is called directly. Rows of a batch must not depend on each other. Calls must not overlap on the
    device, because all graphs compute in the same memory. They take the least if the largest is captured first.

    Args:
        forward: A function of tensors with the same first dimension that returns one tensor with that dimension. It
            must not synchronize with the host or need gradients.
        sizes: Batch sizes to capture, ascending.
    """
    captured: dict[tuple[torch.Size, ...], Graph] = {}

    def run(*given: Tensor) -> Tensor:
        count = len(given[0])
        size = padded_size(count, sizes)
        if size is None or not given[0].is_cuda:
            return forward(*given)
        key = tuple(torch.Size((size, *tensor.shape[1:])) for tensor in given)
        if key not in captured:
            inputs = [tensor.new_zeros(shape) for tensor, shape in zip(given, key, strict=True)]
            captured[key] = Graph(forward, inputs, next(iter(captured.values())).pool if captured else None)
        return captured[key](given, count)

    return run


def padded_size(count: int, sizes: tuple[int, ...]) -> int | None:
    """Returns the smallest of `sizes` that holds `count` rows, or `None` for no rows or too many."""
    return next((size for size in sizes if size >= count), None) if count else None


def warm_up_sizes(most: int) -> list[int]:
    """Returns batch sizes up to `most` such that a graph for each padded size is captured, largest first.

    Example:
        >>> warm_up_sizes(12)
        [12, 8, 4, 2, 1]
    """
    return sorted({min(size, most) for size in (*SIZES, most)}, reverse=True)


class Graph:
    """One CUDA graph with the memory that it reads and writes.

    Args:
        forward: The function to capture.
        inputs: The memory that it reads, on the device, with values that `forward` accepts.
        pool: The memory that it computes in, of another graph; by default new memory.
    """

    def __init__(self, forward: Forward, inputs: list[Tensor], pool: Any = None) -> None:
        self._inputs = inputs
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # lazy initialization (workspaces, plans) must not be captured
                forward(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph: Any = torch.cuda.CUDAGraph()
        # other threads may copy images to the device meanwhile
        with torch.cuda.graph(self._graph, pool=pool, capture_error_mode="thread_local"):
            self._output = forward(*inputs)
        self.pool = self._graph.pool()

    def __call__(self, given: tuple[Tensor, ...], count: int) -> Tensor:
        """Replays the graph on tensors that are copied to the start of its memory; returns `count` rows."""
        for memory, tensor in zip(self._inputs, given, strict=True):
            memory[: len(tensor)].copy_(tensor)
        self._graph.replay()
        return self._output[:count].clone()
