"""A CUDA device that is not there: tensors in CPU memory that behave as if they were on `cuda:0`.

Commands and models run on it from beginning to end, on any machine, and meet the rules of a real device: operands are
on one device, `numpy()` and `pin_memory()` of a device tensor fail, a captured graph may not wait. Whatever makes the
host wait for the device is recorded, and launches of kernels are counted. Kernels and speed cannot be checked this way.

Functions of tensors are overridden in Python (`__torch_function__`), so what PyTorch's C++ functions do inside, their
backward passes included, is not seen.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from tests.gpu.pretend_kernel import kernel_patches
from tests.gpu.pretend_launches import ONE_KERNEL, Launches
from tests.gpu.pretend_runtime import Graph, runtime_patches
from tests.gpu.pretend_waits import ANY_DEVICE, COPIED_DATA, in_pinned_memory, on_device, tensors_in, waits

CUDA = torch.device("cuda", 0)
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Wait:
    """A moment at which the host waits for the device.

    Attributes:
        reason: The function that waits.
        place: The line of this project that called it, as "folder/file.py:line".
    """

    reason: str
    place: str


@dataclass
class PretendedDevice:
    """What happened on the pretended device.

    Attributes:
        waits: The moments at which the host waited for the device.
        graph: The graph that is being captured.
        launches: How often each operator has launched kernels, while that is counted.
    """

    waits: list[Wait] = field(default_factory=list)
    graph: Graph | None = None
    launches: Counter[str] | None = None

    @contextmanager
    def counting(self) -> Iterator[list[Wait]]:
        """Yields a list that has the block's waits once the block has ended."""
        found: list[Wait] = []
        before = len(self.waits)
        yield found
        found += self.waits[before:]

    @contextmanager
    def counting_launches(self) -> Iterator[Counter[str]]:
        """Yields how often each operator launches kernels in the block; copies and replays of a graph count, too.

        An operator counts once, also if its kernels are several, as those of `topk` are: what takes the host's time is
        the way from Python to the first.
        """
        self.launches = counts = Counter[str]()
        try:
            yield counts
        finally:
            self.launches = None

    @contextmanager
    def launched(self, name: str) -> Iterator[None]:
        """Counts the block as one launch."""
        counts, self.launches = self.launches, None
        if counts is not None:
            counts[name] += 1
        try:
            yield
        finally:
            self.launches = counts

    def kernel(self, name: str, compute: Callable[..., Tensor | None], *args: Any) -> Any:
        """Launches a kernel that the project or its libraries bring along, computed on the tensors' memory."""
        with self.launched(name), torch._C.DisableTorchFunctionSubclass():
            result = _wrapped(compute(*tree_map_only(Tensor, _plain, args)))
        return _recorded(lambda *args: compute(*tree_map_only(Tensor, _plain, args)), args, {}, result)

    def wait(self, reason: str) -> None:
        """Records that the host waits for the device.

        Raises:
            RuntimeError: A graph is being captured.
        """
        if self.graph is not None:
            raise RuntimeError(f"{reason}: operation not permitted when stream is capturing")
        self.waits.append(Wait(reason, _place()))


_device = PretendedDevice()


class _RuledTensor(Tensor):
    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Runs a function of tensors by the rules of a device."""
        return _run(func, args, kwargs)


class DeviceTensor(_RuledTensor):
    """A tensor that says it is on `cuda:0`."""

    on_device = True


class PinnedTensor(_RuledTensor):
    """A tensor in pinned host memory, as are views of it."""

    pinned = True


class _Mode(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _run(func, args, kwargs)


@contextmanager
def pretend_cuda() -> Iterator[PretendedDevice]:
    """Pretends that this process has a CUDA device, in the block's thread and in those that start in the block."""
    _device.waits.clear()
    start: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
    apply: Any = torch.nn.Module._apply

    def started(thread: threading.Thread) -> None:
        with _Mode():
            start(thread)

    def applied(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        # By default `param.data = ...` moves a parameter, which cannot change its class; swapping also keeps ties.
        before = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return apply(module, *args, **kwargs)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(before)

    with ExitStack() as stack:
        for patch in (*runtime_patches(_device), *kernel_patches(_device)):
            stack.enter_context(patch)
        stack.enter_context(mock.patch.object(threading.Thread, "_bootstrap_inner", started))
        stack.enter_context(mock.patch.object(torch.nn.Module, "_apply", applied))
        stack.enter_context(_Mode())
        yield _device


def _run(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        return _ruled(func, _name(func), args, dict(kwargs or {}))


def _ruled(func: Callable[..., Any], name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if name == "_parse_to":  # reads what `Module.to` is asked for
        return func(*args, **kwargs)
    if name in ("to", "cuda", "cpu", "type_as") and (target := _target(name, args, kwargs)) is not None:
        return _moved(name, args[0], target, args[1:], kwargs)
    tensors = list(tensors_in([list(args), kwargs]))
    if not any(on_device(tensor) for tensor in tensors):
        return _on_host(func, name, args, kwargs)
    if on_device(args[0] if args else None) and name in _PROPERTIES:
        return _PROPERTIES[name]
    if name in ("numpy", "__array__", "__dlpack__"):
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy it to the host first."
        )
    if name == "pin_memory":
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
    if name not in ANY_DEVICE and any(not on_device(tensor) and tensor.dim() for tensor in tensors):
        raise RuntimeError(f"Expected all tensors to be on the same device: {name} got some on cpu, at {_place()}")
    for reason in waits(name, args, kwargs):
        _device.wait(reason)
    if _is_cuda(kwargs.get("device")):
        kwargs["device"] = "cpu"
    if name in _SUMS and "out" not in kwargs and _in_bfloat16(tensors[0]):
        func = _summed_in_float32(func)
    with _launches(name):
        result = func(*args, **kwargs)
    return _recorded(func, args, kwargs, _wrapped(result))


def _launches(name: str) -> AbstractContextManager[object]:
    """Returns a context that counts what a function launches."""
    if _device.launches is None or _device.graph is not None:
        return nullcontext()
    return _device.launched(name) if name in ONE_KERNEL else Launches(_device.launches)


_SUMS = frozenset(
    {"conv2d", "linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "einsum"}
)
"""Functions that sum products."""


def _in_bfloat16(tensor: Tensor) -> bool:
    """Tells whether a device would multiply a tensor in bfloat16, its own type or that of autocasting."""
    if torch.is_autocast_enabled("cpu"):
        return tensor.is_floating_point() and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return tensor.dtype == torch.bfloat16


def _summed_in_float32(func: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns a function of bfloat16 tensors that sums in float32, as a device does, and rounds the result.

    Most CPUs multiply bfloat16 ten times more slowly than float32.
    """

    def rounded(tensor: Tensor) -> Tensor:
        return tensor.bfloat16().float()

    def run(*args: Any, **kwargs: Any) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            given = tree_map_only(Tensor, rounded, (args, kwargs))
            return func(*given[0], **given[1]).bfloat16()

    return run


_PROPERTIES = {"device": CUDA, "is_cuda": True, "is_cpu": False, "is_pinned": False, "get_device": 0}


def _on_host(func: Callable[..., Any], name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Runs a function without device tensors among its arguments; it may create one."""
    if name == "pin_memory":
        return args[0].clone().as_subclass(PinnedTensor)
    if name == "is_pinned":
        return in_pinned_memory(args[0])
    if _is_cuda(kwargs.get("device")):
        kwargs["device"] = "cpu"
        leaf = kwargs.pop("requires_grad", False)
        if name in COPIED_DATA:
            _device.wait(f"{name} of data")
        with _launches(name):
            result = func(*args, **kwargs)
        result = _recorded(func, args, kwargs, _wrapped(result))
        return result.requires_grad_() if leaf else result
    pinned = kwargs.pop("pin_memory", False)
    result = func(*args, **kwargs)
    if isinstance(result, Tensor):
        pinned = pinned or any(in_pinned_memory(one) and _same_memory(one, result) for one in args)
        return result.as_subclass(PinnedTensor) if pinned else _plain(result)
    return result


def _target(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.device | None:
    """Returns the device that a call moves its tensor to, or `None` if it names none."""
    if name in ("cuda", "cpu"):
        return torch.device(name)
    for value in (*args[1:], kwargs.get("device"), kwargs.get("other")):
        if isinstance(value, Tensor):
            return CUDA if on_device(value) else torch.device("cpu")
        if isinstance(value, (str, torch.device)) or type(value) is int:
            return torch.device(value)
    return None


def _moved(name: str, tensor: Tensor, target: torch.device, others: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """Returns a tensor on a device, converted as `Tensor.to` was asked to."""
    dtypes = [one.dtype if isinstance(one, Tensor) else one for one in (*others, kwargs.get("dtype"))]
    dtype = next((one for one in dtypes if isinstance(one, torch.dtype)), tensor.dtype)
    memory_format, copy = kwargs.get("memory_format"), bool(kwargs.get("copy", False))
    other_device = (target.type == "cuda") != on_device(tensor)
    if not other_device and dtype == tensor.dtype and memory_format is None and not copy:
        return tensor
    # A conversion comes before the copy, so the copy is of a temporary tensor in pageable memory.
    pinned = in_pinned_memory(tensor) and dtype == tensor.dtype
    if _device.launches is not None:
        _device.launches["copy" if other_device else "to"] += other_device or on_device(tensor)
    result = tensor.to(dtype, copy=copy or other_device, memory_format=memory_format)
    non_blocking = kwargs.get("non_blocking", False) or any(one is True for one in others)
    # A graph would copy the same memory at each replay.
    if other_device and target.type == "cuda" and (_device.graph is not None or not (pinned and non_blocking)):
        _device.wait(f"{name}: copy to the device")
    if other_device and target.type == "cpu" and not non_blocking:
        _device.wait(f"{name}: copy to the host")
    return result.as_subclass(DeviceTensor) if target.type == "cuda" else _plain(result)


def _recorded(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Any:
    """Returns `result` after adding the call to the graph that is being captured, if any."""
    if _device.graph is not None:
        _device.graph.record(func, args, kwargs, result)
    return result


def _wrapped(result: Any) -> Any:
    """Returns a result with its tensors on the device."""
    if isinstance(result, Tensor):
        return result.as_subclass(DeviceTensor) if type(result) is Tensor else result
    return tree_map_only(Tensor, _wrapped, result) if type(result) is not torch.Size else result


def _plain(tensor: Tensor) -> Tensor:
    return tensor.as_subclass(Tensor) if isinstance(tensor, (DeviceTensor, PinnedTensor)) else tensor


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _is_cuda(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"


def _name(func: Any) -> str:
    """Returns the name of a function, method or property of tensors; that of a property's setter ends with "="."""
    name: str = getattr(func, "__name__", "")
    if name in ("__get__", "__set__"):
        return f"{func.__self__.__name__}{'=' if name == '__set__' else ''}"
    return name


def _place() -> str:
    """Returns the innermost line of this project, outside this folder, that is being run."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if (file := _file_of_project(frame.f_code.co_filename)) is not None:
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return "outside the project"


@cache
def _file_of_project(name: str) -> Path | None:
    """Returns the path in the project of a file outside this folder, or `None` if it is not such a file."""
    path = Path(name)
    if path.is_relative_to(ROOT) and path.parent != Path(__file__).parent and ".venv" not in path.parts:
        return path.relative_to(ROOT)
    return None
