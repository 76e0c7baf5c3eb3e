from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import ClassVar
from unittest.mock import MagicMock

import pytest
import torch

from retriever.models.graphs import SIZES, graphed, padded_size, warm_up_sizes


def test_batches_are_padded_to_the_next_size() -> None:
    assert [padded_size(count, (1, 4, 8)) for count in (0, 1, 2, 4, 5, 8, 9)] == [None, 1, 4, 4, 8, 8, None]


def test_on_the_cpu_it_is_the_function_itself() -> None:
    seen: list[int] = []

    def double(x: torch.Tensor) -> torch.Tensor:
        seen.append(len(x))
        return 2 * x

    run = graphed(double)
    assert run(torch.ones(3, 2)).tolist() == [[2, 2]] * 3
    assert run(torch.ones(0, 2)).shape == (0, 2)
    assert seen == [3, 0]


class OnGPU(torch.Tensor):
    """A fake: a tensor on the CPU that says it is on a GPU."""

    is_cuda = True


class FakeGraph:
    """A fake of `torch.cuda.CUDAGraph`: it computes nothing when replayed."""

    captured: ClassVar[list[FakeGraph]] = []

    def replay(self) -> None:
        pass

    def pool(self) -> object:
        return self.given or self

    @contextmanager
    def capture(self, pool: object, capture_error_mode: str) -> Iterator[None]:
        self.given = pool
        self.captured.append(self)
        yield


def test_graphs_of_all_sizes_share_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeGraph, "captured", [])
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "graph", FakeGraph.capture)
    monkeypatch.setattr(torch.cuda, "Stream", MagicMock())
    monkeypatch.setattr(torch.cuda, "current_stream", MagicMock())
    monkeypatch.setattr(torch.cuda, "stream", nullcontext)
    seen: list[int] = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        seen.append(len(x))
        return x + 1

    run, other = graphed(forward), graphed(forward)
    for size in warm_up_sizes(8):
        assert run(torch.ones(size, 2).as_subclass(OnGPU)).shape == (size, 2)
    assert list(dict.fromkeys(seen)) == [8, 4, 2, 1]
    assert run(torch.ones(7, 2).as_subclass(OnGPU)).shape == (7, 2)
    assert len(FakeGraph.captured) == 4  # nothing is captured after warming up
    other(torch.ones(8, 2).as_subclass(OnGPU))
    first, *later, others = FakeGraph.captured
    assert [graph.given for graph in (first, *later, others)] == [None, first, first, first, None]


def test_each_padded_size_is_warmed_up_largest_first() -> None:
    assert warm_up_sizes(1) == [1]
    assert warm_up_sizes(12) == [12, 8, 4, 2, 1]
    assert warm_up_sizes(16) == [16, 8, 4, 2, 1]
    assert warm_up_sizes(100) == [100, 16, 8, 4, 2, 1]
    for most in range(1, 70):
        padded = {padded_size(size, SIZES) for size in warm_up_sizes(most)}
        assert padded == {padded_size(count, SIZES) for count in range(1, most + 1)}
