"""Online retrieval: the three steps of OMGM, their models and kernels. Start reading at `retriever.pipeline`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
"""The operators that torchvision describes to PyTorch while it is imported, whether or not its library was loaded."""


class _BeforeTorchvision:
    """A finder that finds nothing, but declares torchvision's operators before it is imported where it cannot itself.

    The wheels of package indexes are made for CUDA: beside a PyTorch for CPUs their library does not load, and then
    `import torchvision` fails, and with it transformers and open_clip. Nothing here needs those operators.
    """

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns nothing, so that the search goes on."""
        if name == "torchvision":
            sys.meta_path.remove(cls)
            found = PathFinder.find_spec(name)
            if found is not None and found.origin is not None:
                _declare_operators(Path(found.origin).parent)
        return None


def _declare_operators(folder: Path) -> None:
    import torch

    for library in folder.glob("_C*.so"):
        try:
            torch.ops.load_library(library)
        except OSError:
            # It asks for CUDA libraries that this PyTorch does not have.
            continue
        return
    for name, schema in _SCHEMAS.items():
        torch.library.define(f"torchvision::{name}", schema)


if "torchvision" not in sys.modules and _BeforeTorchvision not in sys.meta_path:
    sys.meta_path.insert(0, _BeforeTorchvision)
