"""The functions and classes of `torch.cuda` for a device that is not there: streams, events, graphs, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, Protocol
from unittest import mock

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

MEMORY = 80 * 2**30
"""Bytes of memory of the device, all of them free."""


class Device(Protocol):
    """What the runtime needs of the device: see `tests.gpu.pretend.PretendDevice`."""

    graph: Graph | None

    def launched(self, name: str) -> AbstractContextManager[None]:
        """Counts the block as one launch."""

    def wait(self, function: str) -> None:
        """Records that the host waits."""


class Graph:
    """A captured graph: a list of calls, run again on the same memory."""

    device: Device

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., Any], Sequence[Any], dict[str, Any], Any]] = []

    def record(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """Adds a call."""
        self.calls.append((func, args, kwargs, result))

    def replay(self) -> None:
        """Runs all calls again and writes their results to where they were first written."""
        with self.device.launched("replay"), torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            for func, args, kwargs, result in self.calls:
                again = func(*args, **kwargs)
                for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                    if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                        old.copy_(new.as_subclass(type(old)))

    def pool(self) -> tuple[int, int]:
        """Returns the identity of the memory pool."""
        return (0, 0)


class Stream:
    """A stream; work is finished at once, so that only waiting for it is of interest."""

    device: Device
    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def wait_stream(self, stream: Stream) -> None:
        """Makes the stream wait, not the host."""

    wait_event = record_event = wait_stream

    def synchronize(self) -> None:
        """Waits."""
        self.device.wait("Stream.synchronize")

    def query(self) -> bool:
        """Returns whether all work is finished."""
        return True


class Event(Stream):
    """An event."""

    def record(self, stream: Stream | None = None) -> None:
        """Records the event."""

    def wait(self, stream: Stream | None = None) -> None:
        """Makes the stream wait, not the host."""

    def elapsed_time(self, end: Event) -> float:
        """Returns milliseconds between two events."""
        return 1.0


def runtime_patches(device: Device) -> Iterator[AbstractContextManager[Any]]:
    """Yields what replaces the functions of `torch.cuda`, and autocasting, in a process without a device."""
    properties = SimpleNamespace(
        name="Pretended GPU", major=9, minor=0, total_memory=MEMORY, multi_processor_count=132, L2_cache_size=50 << 20
    )
    bound: dict[str, Any] = {"device": device}

    @contextmanager
    def graph(captured: Graph, *_: Any, **__: Any) -> Iterator[None]:
        device.graph = captured
        try:
            yield
        finally:
            device.graph = None

    functions: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *_, **__: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda _: None,
        "get_device_name": lambda *_: properties.name,
        "get_device_properties": lambda *_: properties,
        "get_device_capability": lambda *_: (9, 0),
        "mem_get_info": lambda *_: (MEMORY, MEMORY),
        "memory_allocated": lambda *_: 0,
        "memory_reserved": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "reset_peak_memory_stats": lambda *_: None,
        "empty_cache": lambda: None,
        "manual_seed": lambda _: None,
        "manual_seed_all": lambda _: None,
        "get_rng_state_all": list,
        "synchronize": lambda *_: device.wait("synchronize"),
        "Stream": type("Stream", (Stream,), bound),
        "Event": type("Event", (Event,), bound),
        "stream": lambda _: nullcontext(),
        "current_stream": lambda *_: type("Stream", (Stream,), bound)(),
        "default_stream": lambda *_: type("Stream", (Stream,), bound)(),
        "device": lambda _: nullcontext(),
        "device_of": lambda _: nullcontext(),
        "CUDAGraph": type("Graph", (Graph,), bound),
        "graph": graph,
        "graph_pool_handle": lambda: (0, 0),
        "_lazy_init": lambda: None,
    }
    for name, function in functions.items():
        yield mock.patch.object(torch.cuda, name, function)
    # Builds for CUDA would ask the driver which device is selected; those for the CPU know no accelerator.
    yield mock.patch.object(torch.accelerator, "current_accelerator", lambda check_available=False: None)
    grouped = torch._C._group_tensors_by_device_and_dtype

    def with_device(tensors: list[list[Tensor | None]], with_indices: bool = False) -> dict[Any, Any]:
        groups = grouped(tensors, with_indices)
        shown = [tensor.device for tensor in tensors[0] if tensor is not None]
        return {(shown[0], dtype): value for (_, dtype), value in groups.items()}

    yield mock.patch.object(torch._C, "_group_tensors_by_device_and_dtype", with_device)
    start = torch.autocast.__init__

    def on_cpu(self: torch.autocast, device_type: str, *args: Any, **kwargs: Any) -> None:
        start(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    yield mock.patch.object(torch.autocast, "__init__", on_cpu)
