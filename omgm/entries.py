"""Entry points: what this package and others add to `omgm` by a line in their `pyproject.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any


@cache
def entries(group: str) -> Mapping[str, EntryPoint]:
    """Returns the entry points of a group by name.

    Raises:
        ValueError: There are none, although this package has some; or two packages have the same name.
    """
    named: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        other = named.setdefault(point.name, point)
        if other.value != point.value:
            raise ValueError(f"entry point {point.name!r} of {group} is both {other.value} and {point.value}")
    if not named:
        raise ValueError(f"no installed package has entry points {group}, not even omgm: install omgm again")
    return named


def load(group: str, name: str) -> Any:
    """Imports what an entry point names.

    Raises:
        ValueError: There is none of this name, or its module or value cannot be imported.
    """
    points = entries(group)
    if name not in points:
        raise ValueError(f"there is no {name!r} in {group}; there are {', '.join(points)}")
    try:
        return points[name].load()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"entry point {name!r} of {group}: {points[name].value}: {error}") from error
