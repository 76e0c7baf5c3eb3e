from __future__ import annotations

import pytest
import torch

from retriever.models.graphs import graphed, padded_size


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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@torch.inference_mode()
def test_a_graph_gives_what_the_module_gives() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 8)).cuda().eval()
    run = graphed(module, (1, 4))
    for count in (1, 3, 4, 3, 1, 9):  # captured, padded, replayed, and too large for a graph
        given = torch.randn(count, 16, device="cuda")
        torch.testing.assert_close(run(given), module(given))
