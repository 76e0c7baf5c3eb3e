"""Makes torchvision importable with a CPU build of PyTorch; transformers and open_clip need that.

torchvision's wheels on PyPI are built for CUDA. With a CPU build of PyTorch, their library does not load, so
`import torchvision` fails with "operator torchvision::nms does not exist". Every model class of transformers then fails
to import, too, because transformers finds torchvision installed. No model here uses those operators, so declaring them
is enough.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

_SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
"""The operators for which `import torchvision` registers implementations even if its library did not load."""


def declare_missing_operators() -> None:
    """Declares torchvision's operators if torchvision is installed but its library does not load.

    Does nothing if torchvision is missing or already imported, or with a CUDA or ROCm build of PyTorch.
    """
    if "torchvision" in sys.modules:
        return
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    import torch

    if torch.version.cuda or torch.version.hip or hasattr(torch.ops.torchvision, "nms"):
        return
    for library in Path(spec.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(library)
        except OSError:
            continue  # it needs CUDA libraries that this PyTorch does not have
        return
    for name, schema in _SCHEMAS.items():
        torch.library.define(f"torchvision::{name}", schema)
