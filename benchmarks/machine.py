"""Where a benchmark runs: commit, device, driver and versions. `python benchmarks/machine.py` prints them as JSON."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from evaluation.commit import commit as commit_of_checkout
from omgm.machine import nvidia_driver

PACKAGES = ("torch", "triton", "transformers", "numpy", "pillow", "faiss-cpu", "faiss-gpu", "pydantic")


def commit() -> str | None:
    """Returns the commit: the environment variable COMMIT, for a copy without `.git`, else that of the checkout."""
    return os.environ.get("COMMIT") or commit_of_checkout()


def device_name() -> str:
    """Returns the name of the GPU, or of the processor if there is none."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return platform.processor() or platform.machine()


def version(package: str) -> str | None:
    """Returns the installed version of a package, or `None`."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Describes the machine of a measurement: device, driver, CUDA, packages, and the commit."""
    card = torch.cuda.is_available()
    properties: Any = torch.cuda.get_device_properties(0) if card else None
    return {
        "commit": commit(),
        "device": device_name(),
        "capability": f"{properties.major}.{properties.minor}" if card else None,
        "device_memory_gb": round(properties.total_memory / 1e9, 1) if card else None,
        "driver": nvidia_driver(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if card else None,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "packages": {package: version(package) for package in PACKAGES},
    }


if __name__ == "__main__":
    print(json.dumps(machine()))
