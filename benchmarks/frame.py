"""What all benchmarks share: arguments, percentiles, tables, the machine, and results on disk.

`python -m benchmarks.frame` prints the machine as JSON. PyTorch is imported only when needed: `gpu_day.py` may have to
install it first.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.commit import commit as commit_of_checkout
from retriever.files import write_json

PACKAGES = ("torch", "triton", "transformers", "numpy", "pillow", "faiss-cpu", "faiss-gpu", "pydantic")
Row = dict[str, Any]
Record = Callable[[Mapping[str, Any]], None]


def arguments(about: str | None, *, out: str = "also write JSON", lines: bool = False) -> argparse.ArgumentParser:
    """Returns a parser described by a module's docstring.

    Args:
        about: The docstring.
        out: What `--out` is; without it, there is no such argument.
        lines: Whether there is `--lines`, the file for `recorder`.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    if out:
        parser.add_argument("--out", type=Path, metavar="FILE", help=out)
    if lines:
        about_lines = "append each result to a file of JSON lines at once"
        parser.add_argument("--lines", type=Path, metavar="FILE", help=about_lines)
    return parser


def recorder(path: Path | None, **always: Any) -> Record:
    """Returns a function that appends a result to a file of JSON lines at once, so that it outlives this process.

    Args:
        path: The file, to which several processes may append; without one, the function does nothing.
        **always: What every line says first, such as `benchmark="gpu"`.
    """

    def record(result: Mapping[str, Any]) -> None:
        if path is not None:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**always, **result}, ensure_ascii=False) + "\n")

    return record


def write_report(path: Path | None, report: Row) -> None:
    """Writes a report, if a file is given."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, report)


def as_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns rows with the keys of the first one as a Markdown table."""
    names = list(rows[0])
    return table([name.replace("_", " ") for name in names], ([row[name] for name in names] for row in rows))


def table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a Markdown table; `None` is an empty cell."""
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join('' if cell is None else str(cell) for cell in line)} |" for line in lines)


def default_device() -> str:
    """Returns "cuda" if there is a GPU, else "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def device_name() -> str:
    """Returns the name of the GPU, or of the processor if there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()


def processor() -> str:
    """Returns the processor's name, with the instructions for bfloat16 that it has, by Linux's /proc."""
    file = Path("/proc/cpuinfo")
    fields = dict(re.findall(r"^(model name|flags)\t+: (.*)$", file.read_text(), re.MULTILINE)) if file.exists() else {}
    name = re.sub(r"\((?:R|TM)\)|\bProcessor\b|\bCPU\b|@.*", "", fields.get("model name", platform.machine()))
    named = {"amx_bf16": "AMX", "avx512_bf16": "AVX512-BF16"}
    extra = next((word for flag, word in named.items() if flag in fields.get("flags", "").split()), None)
    return " ".join(name.split()) + (f" with {extra}" if extra else "")


def version(package: str) -> str | None:
    """Returns the installed version of a package, or `None`."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """Returns the commit: the environment variable COMMIT, for a copy without `.git`, else that of the checkout."""
    return os.environ.get("COMMIT") or commit_of_checkout()


def machine() -> Row:
    """Describes the machine of a measurement: device, driver, CUDA, packages, and the commit."""
    import torch

    from omgm.machine import nvidia_driver

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
        "threads": torch.get_num_threads(),
        "packages": {package: version(package) for package in PACKAGES},
    }


if __name__ == "__main__":
    print(json.dumps(machine()))
