"""The pretended device itself: it refuses and counts what a real one would."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.gpu.conftest import Device
from tests.gpu.pretend import pretend_cuda

CPU = torch.device("cpu")


def test_without_it_there_is_no_device() -> None:
    before = torch.cuda.is_available()
    with pretend_cuda():
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    assert torch.cuda.is_available() == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, 3).to("cuda"),
        lambda: torch.ones(2, 3).cuda(),
        lambda: torch.ones(2, 3).to(torch.device("cuda", 0), torch.float16),
        lambda: torch.zeros(2, 3, device="cuda") + 1,
        lambda: torch.tensor([[1.0] * 3] * 2, device="cuda"),
        lambda: torch.stack([torch.ones(3, device="cuda")] * 2),
        lambda: torch.ones(2, 3).pin_memory().to("cuda", non_blocking=True),
        lambda: torch.empty(2, 3, device="cuda").copy_(torch.ones(2, 3)),
        lambda: torch.ones(4, 3, device="cuda").split([2, 2])[0],
        lambda: torch.nn.Linear(3, 3).to("cuda").weight.detach()[:2] * 0 + 1,
    ],
)
def test_tensors_are_on_the_device_and_have_their_values(cuda: Device, make: Callable[[], Tensor]) -> None:
    made = make()
    assert made.device == torch.device("cuda", 0) and made.is_cuda
    assert made.cpu().device == CPU and made.tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda x: x.numpy(), "can't convert cuda:0"),
        (lambda x: x.__array__(), "can't convert cuda:0"),
        (lambda x: x.pin_memory(), "cannot pin"),
        (lambda x: x + torch.ones(3), "same device"),
        (lambda x: torch.cat([x, torch.ones(3)]), "same device"),
        (lambda x: torch.nn.functional.linear(torch.ones(3), x[None]), "same device|on cpu"),
    ],
)
def test_what_a_device_refuses(cuda: Device, use: Callable[[Tensor], object], words: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=words):
        use(torch.ones(3, device="cuda"))


@pytest.mark.parametrize(
    ("use", "waits"),
    [
        (lambda x: x.sum().item(), 1),
        (lambda x: x.tolist(), 1),
        (lambda x: float(x[0]), 1),
        (lambda x: bool((x > 0).all()), 1),
        (lambda x: x.cpu(), 1),
        (lambda x: x.to("cpu"), 1),
        (lambda x: x[x > 0], 1),
        (lambda x: x.nonzero(), 1),
        (lambda x: torch.ones(3).to("cuda"), 1),
        (lambda x: x.copy_(torch.ones(3)), 1),
        (lambda x: x[:2] * x[1:] + x.mean(), 0),
        (lambda x: x[None, ..., 0], 0),
        (lambda x: x.to("cuda", torch.float16).argmax(), 0),
        (lambda x: x.index_select(0, x.long()), 0),
        (lambda x: torch.ones(3).pin_memory().to("cuda", non_blocking=True), 0),
        (lambda x: torch.where(x > 0, x, 0), 0),
        (lambda x: torch.zeros(3, device="cuda"), 0),
        (lambda x: x.repeat_interleave(x.long(), output_size=3), 0),
    ],
)
def test_what_the_host_waits_for(cuda: Device, use: Callable[[Tensor], object], waits: int) -> None:
    x = torch.ones(3, device="cuda")
    with cuda.counting() as found:
        use(x)
    assert len(found) == waits, found


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x[[0, 1]],  # a list is copied from pageable memory, of which a real device does not warn
        lambda x: x[torch.tensor([0, 1])],
        lambda x: torch.ones(3).to("cuda", non_blocking=True),
        lambda x: torch.tensor([1, 2], device="cuda"),
        lambda x: x.new_tensor([1, 2]),
    ],
)
def test_copies_of_pageable_memory_count(use: Callable[[Tensor], object]) -> None:
    with pretend_cuda() as device, device.counting() as found:
        use(torch.ones(3, device="cuda"))
    [wait] = found
    assert wait.place == "outside the project"


def test_only_views_of_pinned_memory_are_pinned() -> None:
    with pretend_cuda():
        pinned = torch.empty(4, pin_memory=True)
        assert pinned.is_pinned() and pinned[1:].is_pinned() and pinned.view(2, 2).is_pinned()
        assert not (pinned + 1).is_pinned() and not pinned.clone().is_pinned() and not torch.empty(4).is_pinned()


def test_threads_that_start_meanwhile_see_the_device(cuda: Device) -> None:
    devices: list[torch.device] = []
    thread = threading.Thread(target=lambda: devices.append(torch.zeros(1, device="cuda").device))
    thread.start()
    thread.join()
    assert devices == [torch.device("cuda", 0)]


def test_gradients_and_tied_parameters(cuda: Device) -> None:
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3, bias=False)
    second.weight = first.weight
    model = torch.nn.Sequential(first, second).to("cuda")
    assert second.weight is first.weight and isinstance(first.weight, torch.nn.Parameter)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(torch.ones(2, 3, device="cuda")).sum().backward()
    assert first.bias.grad is not None and first.bias.grad.is_cuda
    before, gradient = first.bias.tolist(), first.bias.grad.tolist()
    optimizer.step()
    assert first.bias.tolist() == pytest.approx([b - 0.5 * g for b, g in zip(before, gradient, strict=True)])


def test_graphs_replay_on_their_memory(cuda: Device) -> None:
    given, graph = torch.ones(3, device="cuda"), torch.cuda.CUDAGraph()
    given * 2  # before the capture, as CUDA wants
    with torch.cuda.graph(graph):
        doubled = given * 2
        result = doubled[1:] + 1
    given.fill_(5)
    graph.replay()
    assert result.tolist() == [11, 11]


def test_a_graph_may_not_wait() -> None:
    with pretend_cuda(), torch.cuda.graph(torch.cuda.CUDAGraph()):
        given = torch.ones(3, device="cuda")
        with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
            given.tolist()
