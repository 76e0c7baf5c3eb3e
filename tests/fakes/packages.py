"""Packages of strangers, as pip installs them: one file of code, and the entry points that name what is in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluation.datasets.dataset import datasets
from indexes.knowledge.readers.registry import readers
from indexes.store.columns import columns
from retriever.entry_points import every

Install = Callable[[str, str, str, str], Path]
"""Installs the package of a name with the code of its only module, and a group and an entry of its entry points."""


@contextmanager
def installing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Yields a function that installs packages into a folder, from which they are imported until the block ends."""
    installed: list[str] = []

    def install(name: str, code: str, group: str, entry: str) -> Path:
        about = folder / f"{name}-1.2.dist-info"
        about.mkdir(parents=True)
        (folder / f"{name}.py").write_text(code)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (about / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
        installed.append(name)
        _forget()
        return folder / f"{name}.py"

    monkeypatch.syspath_prepend(folder)
    try:
        yield install
    finally:
        sys.path.remove(str(folder))
        for name in installed:
            sys.modules.pop(name, None)
        _forget()


def _forget() -> None:
    every.cache_clear()
    readers.cache_clear()
    datasets.cache_clear()
    columns.cache_clear()
