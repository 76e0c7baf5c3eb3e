"""A fake GPU that fails where a real one would make the host wait: PyTorch's "meta" device, whose tensors have shapes
and no values. Nothing that needs a value runs; copies to the CPU are counted and give zeros."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = torch.device("meta")
_INDEXING = {torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default}


class UnreadDevice(TorchDispatchMode):
    """While active, lets tensors on `DEVICE` only be copied to the CPU, and counts that.

    Attributes:
        reads: Copies to the CPU.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reads = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with self:  # in inference mode, operations come here before they are split into basic ones
            if (result := func.decompose(*args, **kwargs)) is not NotImplemented:
                return result
        if func in _INDEXING and args[0].is_meta:
            for index in args[1]:
                assert index is None or index.is_meta, "an index on the CPU is copied, which waits"
                assert index is None or index.dtype != torch.bool, "the number of rows of a mask is read, which waits"
        if func is torch.ops.aten._to_copy.default and args[0].is_meta and kwargs.get("device", DEVICE).type == "cpu":
            self.reads += 1
            return torch.zeros(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype)
        return func(*args, **kwargs)
