"""Values that packages declare by entry points: readers of files, data sets, policies of agents, steps, encoders.

A package names them in its `pyproject.toml`, and an installed one is found without any change here:

    [project.entry-points."omgm.datasets"]
    quiz = "quiz_questions:QUIZ"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

T = TypeVar("T")


every = cache(entry_points)  # it takes tens of milliseconds, and nothing is installed into a running process


def declared(group: str, kind: type[T], ours: Iterable[str] = ()) -> tuple[T, ...]:
    """Loads the values of a group, those of other packages first, so that they can replace one of this project.

    Args:
        group: The group of entry points, such as `omgm.datasets`.
        kind: The type of its values.
        ours: This project's values, in the form of entry points: `module:NAME`.

    Raises:
        ValueError: An entry point cannot be imported, or names something else; the message says whose it is, and what
            to do.
    """
    points = (*every().select(group=group), *(EntryPoint(name, name, group) for name in ours))
    return tuple(_loaded(point, kind) for point in points)


def _loaded(point: EntryPoint, kind: type[T]) -> T:
    owner = "omgm" if point.dist is None else f"{point.dist.name} {point.dist.version}"
    where = f"entry point {point.name!r} of {point.group} ({owner})"
    try:
        value = point.load()
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{where}: {point.value} cannot be imported ({error}); install what it needs, or uninstall the package"
        ) from error
    if not isinstance(value, kind):
        raise ValueError(
            f"{where}: expected a {kind.__name__}, got {type(value).__name__}; name one as module:NAME in the "
            "package's pyproject.toml, and install it again"
        )
    return value


def names(group: str, ours: Iterable[str] = ()) -> tuple[str, ...]:
    """Returns the names in a group, this project's first; imports none of the values."""
    return tuple(dict.fromkeys((*ours, *sorted(point.name for point in every().select(group=group)))))


def targets(group: str) -> dict[str, str]:
    """Returns the values of a group's entry points, such as `package.module:NAME`, by their names; imports none.

    Raises:
        ValueError: There are none, although this project has some.
    """
    points = {point.name: point.value for point in every().select(group=group)}
    if not points:
        raise ValueError(f"no installed package has entry points {group}, not even omgm; install omgm again")
    return points


def named(group: str, name: str, ours: Mapping[str, str], kind: type[T]) -> T:
    """Loads the one value of a group that has a name, that of another package first.

    Args:
        group: The group of entry points, such as `omgm.encoders`.
        name: The name.
        ours: This project's values by their names, in the form of entry points: `module:NAME`.
        kind: The type of the value.

    Raises:
        ValueError: No value has the name; or it cannot be imported, see `declared`.
    """
    points = [*every().select(group=group, name=name)]
    if not points and name not in ours:
        raise ValueError(f"{name!r} is unknown; known are {', '.join(names(group, ours))}")
    return _loaded(points[0] if points else EntryPoint(name, ours[name], group), kind)
