"""Which operators launch kernels on a device, counted as PyTorch dispatches them on the CPU that takes its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

ONE_KERNEL = frozenset(
    {
        *("linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm", "einsum", "conv2d"),
        *("rms_norm", "layer_norm", "scaled_dot_product_attention", "tolist", "item"),
    }
)
"""Functions that are one operator on a GPU, and may be several on a CPU or in this pretended device."""
_NO_KERNEL = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "_unsafe_view", "lift_fresh"})


class Launches(TorchDispatchMode):
    """Counts the operators that launch kernels in the block: all but views and new memory.

    Args:
        counts: How often each has launched some.
    """

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # missing from torch's types
        self.counts = counts

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Counts an operator and runs it."""
        with self:  # operators that are others together are not decomposed without gradients
            if (result := func.decompose(*args, **(kwargs or {}))) is not NotImplemented:
                return result
        name: str = func.overloadpacket.__name__
        if not func.is_view and name not in _NO_KERNEL:
            self.counts[name] += 1
        run: Callable[..., Any] = func
        return run(*args, **(kwargs or {}))
