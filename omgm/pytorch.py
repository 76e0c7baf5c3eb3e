"""Installs PyTorch's CPU build where no NVIDIA driver is found: `python omgm/pytorch.py [--index URL] torch`.

`make` and the demo's image run this file before pip, which would otherwise install the build for CUDA. It therefore
needs nothing but Python and pip. Where the index of CPU builds cannot be reached, it says so, and the ordinary build
follows with the other packages.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import sys
import threading
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

INDEX = "https://download.pytorch.org/whl/cpu"
SMALL, LARGE = "0.2 GB to download, 0.8 GB on disk", "2.7 GB to download, 4.7 GB on disk"
PATIENCE = 8.0
"""Seconds within which the index must answer."""


def main(arguments: list[str] | None = None) -> None:
    """Installs the packages from the index of CPU builds, or says why the ordinary ones follow."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] if __doc__ else None)
    parser.add_argument("packages", nargs="+", help="torch, and torchvision if it is needed")
    parser.add_argument("--index", default=INDEX, help="package index with CPU builds (%(default)s)")
    parser.add_argument("--lock", type=Path, default=Path("requirements.lock"), help="the versions (%(default)s)")
    args = parser.parse_args(arguments)
    missing = [name for name in args.packages if find_spec(name) is None]
    if not missing or sys.platform != "linux":
        return  # only the ordinary wheels for Linux bring CUDA
    if "torch" not in missing and not version("torch").endswith("+cpu"):
        return  # the others must match it
    if driver := nvidia_driver():
        return print(f"An NVIDIA driver is here ({driver}): PyTorch with CUDA follows, {LARGE}.", flush=True)
    wanted = [locked(name, args.lock) for name in missing]
    if problem := unreachable(f"{args.index.rstrip('/')}/torch/"):
        return print(f"{args.index} cannot be used ({problem}): {ordinary()}", flush=True)
    print(f"No NVIDIA driver is here: PyTorch's CPU build is loaded from {args.index}, {SMALL}.", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--timeout", "15", "--retries", "1", "--index-url", args.index, *wanted]
    if subprocess.run(command).returncode:
        print(f"{args.index} has no {' '.join(wanted)} for this Python: {ordinary()}", flush=True)


def ordinary() -> str:
    """Returns the sentence about the build that pip installs by itself."""
    return f"PyTorch's ordinary build follows. On Linux it usually brings CUDA: {LARGE}. It runs without a GPU, too."


def nvidia_driver() -> str:
    """Looks for an NVIDIA driver; returns the file, program or library found, "" if there is none."""
    for path in ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"):
        if Path(path).exists():
            return path
    if tool := shutil.which("nvidia-smi"):
        return tool
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    return "libcuda.so.1"


def locked(name: str, lock: Path) -> str:
    """Returns the requirement of a package, with the version in a lock file if it has one."""
    lines = lock.read_text(encoding="utf-8").splitlines() if lock.is_file() else []
    return next((line for line in lines if line.startswith(f"{name}==")), name)


def unreachable(url: str) -> str:
    """Returns why an address does not answer within `PATIENCE`, or an empty text if it does."""
    problem = [f"no answer within {PATIENCE:g} s"]

    def ask() -> None:
        try:
            with urlopen(url, timeout=PATIENCE):
                problem[0] = ""
        except HTTPError as error:
            problem[0] = f"status {error.code}"
        except (OSError, ValueError) as error:
            problem[0] = str(getattr(error, "reason", error))

    asking = threading.Thread(target=ask, daemon=True)  # a resolver may hang for longer than any timeout of a socket
    asking.start()
    asking.join(PATIENCE)
    return problem[0]


if __name__ == "__main__":
    main()
