"""CUDA graphs give what their modules give."""

from __future__ import annotations

import torch

from retriever.models.graphs import graphed
from tests.gpu.conftest import Device


@torch.inference_mode()
def test_a_graph_gives_what_the_module_gives(cuda: Device) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 8)).to("cuda").eval()
    run = graphed(module, (1, 4))
    for count in (1, 3, 4, 3, 1, 9):  # captured, padded, replayed, and too large for a graph
        given = torch.randn(count, 16, device="cuda")
        torch.testing.assert_close(run(given).cpu(), module(given).cpu())
