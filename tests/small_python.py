"""A Python with few packages, as a borrowed GPU machine may have: PyTorch and what this project's GPU code needs."""

from __future__ import annotations

import re
import sys
import venv
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

GPU_MACHINE = ("torch", "triton", "transformers", "numpy", "pillow", "faiss-cpu", "pydantic", "pytest")


def python_with(folder: Path, packages: Iterable[str] = GPU_MACHINE) -> Path:
    """Creates an environment that has only some packages of this one and what they require; returns its Python.

    Args:
        folder: Where to create it.
        packages: Names of the packages. One that is not installed here is left out.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    site = next((folder / "lib").glob("python*/site-packages"))
    for distribution in _required(packages):
        for file in distribution.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(str(distribution.locate_file(top)))
    assert python.resolve() == Path(sys.executable).resolve()
    return python


def _required(packages: Iterable[str]) -> Iterator[metadata.Distribution]:
    """Yields the packages that are installed here, and those that they require without extras."""
    seen: set[str] = set()
    waiting = list(packages)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        for distribution in metadata.distributions(name=name):
            requirements = map(Requirement, distribution.requires or ())
            waiting += [one.name for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]
            yield distribution
            break
