"""Entry points: what this package and others add to `omgm` by a line in their `pyproject.toml`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any


@cache
def entries(group: str) -> Mapping[str, str]:
    """Returns the entry points of a group: their values, such as `package.module:function`, by name.

    Raises:
        ValueError: There are none, although this package has some; or two packages have the same name.
    """
    named: dict[str, tuple[str, str]] = {}
    for package, text in _tables():
        section = text.partition(f"[{group}]\n")[2].partition("\n[")[0]
        for name, equals, value in (line.partition("=") for line in section.splitlines()):
            other = named.setdefault(name.strip(), (value.strip(), package))
            if equals and other[1] != package:
                raise ValueError(f"{other[1]} and {package} both have an entry point {name.strip()!r} in {group}")
    named.pop("", None)
    if not named:
        raise ValueError(f"no installed package has entry points {group}, not even omgm; install omgm again")
    return {name: named[name][0] for name in sorted(named)}


def _tables() -> Iterator[tuple[str, str]]:
    """Yields the names of the installed packages with their tables of entry points.

    The files are read here, because `importlib.metadata` takes longer to import than all else that `omgm --help` needs.
    """
    seen = set()
    for folder in sys.path:
        try:
            names = sorted(name for name in os.listdir(folder or ".") if name.endswith(".dist-info"))
        except OSError:  # a zip archive, or a path that does not exist
            continue
        for name in names:
            package = name.partition("-")[0]
            if package in seen:  # the first one on the path is imported
                continue
            seen.add(package)
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8") as file:
                    yield package, file.read()
            except FileNotFoundError:
                pass


def load(group: str, name: str) -> Any:
    """Imports what an entry point names.

    Raises:
        ValueError: There is none of this name, or its module or value cannot be imported.
    """
    points = entries(group)
    if name not in points:
        raise ValueError(f"there is no {name!r} in {group}; there are {', '.join(points)}")
    module, _, attribute = points[name].partition(":")
    try:
        loaded = importlib.import_module(module)
        return getattr(loaded, attribute) if attribute else loaded
    except (ImportError, AttributeError) as error:
        raise ValueError(f"entry point {name!r} of {group}, {points[name]}, cannot be imported: {error}") from error
