"""Which functions of tensors make the host wait for a device: results that it needs, and copies that block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

VALUES = frozenset(
    {
        *("item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__"),
        *("__repr__", "__format__", "equal", "allclose", "is_nonzero"),
        *("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "_unique2", "bincount"),
    }
)
"""Functions of a device tensor whose result is needed by the host, or has a shape that depends on values."""
COPIED_DATA = frozenset({"tensor", "as_tensor", "asarray", "new_tensor", "scalar_tensor"})
"""Functions that copy values of Python objects to the device."""
ANY_DEVICE = frozenset(
    {
        *("copy_", "__getitem__", "__setitem__", "index_put_", "type_as"),
        *("is_same_size", "_has_compatible_shallow_copy_type"),
    }
)
"""Functions that accept tensors of several devices."""


def on_device(value: object) -> bool:
    """Tells whether a value is a tensor on the pretended device."""
    return bool(getattr(type(value), "on_device", False))


def in_pinned_memory(value: object) -> bool:
    """Tells whether a value is a tensor in pinned host memory."""
    return bool(getattr(type(value), "pinned", False))


def tensors_in(value: object) -> Iterator[Tensor]:
    """Yields the tensors in nested lists, tuples and mappings."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors_in(one)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def waits(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    """Yields why a call makes the host wait; at least one of its arguments is on the device.

    Args:
        name: The function's name.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
    """
    if name in VALUES and on_device(args[0]):
        yield name
    elif name == "new_tensor" or (name in COPIED_DATA and not on_device(args[0])):
        yield f"{name} of data"
    elif name in _OTHERS:
        yield from _OTHERS[name](args, kwargs)


def _copy(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    target, source, *rest = [*args, *(kwargs[key] for key in ("src",) if key in kwargs)]
    non_blocking = kwargs.get("non_blocking", False) or any(rest)
    if not on_device(target):
        if not non_blocking:
            yield "copy_: copy to the host"
    elif not on_device(source) and not (non_blocking and in_pinned_memory(source)):
        yield "copy_: copy to the device"


def _get(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    if on_device(args[0]):
        yield from _index(args[1] if isinstance(args[1], tuple) else (args[1],))


def _set(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    target, index, value = args[:3]
    if not on_device(target):
        return
    index = index if isinstance(index, tuple) else (index,)
    filled = not isinstance(value, Tensor) or not value.dim()
    yield from _index(() if filled and len(index) == 1 and _is_mask(index[0]) else index)
    if not filled and not on_device(value):
        yield "__setitem__: value copied to the device"


def _index(index: Sequence[Any]) -> Iterator[str]:
    for one in index:
        if isinstance(one, (list, range)) or (isinstance(one, Tensor) and not on_device(one) and one.dim()):
            yield "index copied to the device"
        elif _is_mask(one):
            yield "index is a mask"
        elif on_device(one) and not one.dim():
            yield "index is a device scalar"


def _is_mask(index: object) -> bool:
    return isinstance(index, Tensor) and on_device(index) and index.dtype in (torch.bool, torch.uint8)


def _repeat(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    repeats = kwargs.get("repeats", args[1] if len(args) > 1 else args[0])
    if on_device(repeats) and kwargs.get("output_size") is None:
        yield "repeat_interleave without output_size"


def _one_hot(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    if kwargs.get("num_classes", args[1] if len(args) > 1 else -1) == -1:
        yield "one_hot without num_classes"


def _where(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    if len(args) + len(kwargs) == 1:
        yield "where(condition)"


def _sized(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    yield "a size is a device tensor"


def _split(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    if any(tensors_in([args[1:], kwargs])):
        yield "sizes are device tensors"


_OTHERS: dict[str, Callable[[Sequence[Any], Mapping[str, Any]], Iterator[str]]] = {
    "copy_": _copy,
    "__getitem__": _get,
    "__setitem__": _set,
    "index_put_": lambda args, _: _index(args[1]),
    "repeat_interleave": _repeat,
    "one_hot": _one_hot,
    "where": _where,
    "arange": _sized,
    "linspace": _sized,
    "full": _sized,
    "split": _split,
    "split_with_sizes": _split,
    "tensor_split": _split,
}
