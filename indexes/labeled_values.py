"""Values with labels, such as rows of tables and JSON objects: how their fields are named, compared and followed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

Names = Mapping[str, str]
"""The names of fields in a file, as far as they are given; dots lead into objects.

For an entity's `image`, this may also be a rule of `indexes.knowledge.image_rules`, or `NO_IMAGES`.
"""
NO_NAMES: Names = MappingProxyType({})


def parse_names(pairs: Iterable[str], fields: Collection[str], flag: str = "--map") -> dict[str, str]:
    """Parses the `field=name` pairs of a flag; `fields` are those that may be named.

    Raises:
        ValueError: A pair is malformed, or there is no such field.
    """
    names = {}
    for pair in pairs:
        field, equals, name = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{flag}: expected FIELD=NAME, such as {next(iter(fields))}=name, got {pair!r}")
        if field.strip() not in fields:
            raise ValueError(f"{flag}: unknown field {field.strip()!r}; fields are {', '.join(fields)}")
        names[field.strip()] = name.strip()
    return names


def value_at(values: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a field, whose name may lead into objects by dots, or `None`."""
    return values[name] if name in values else _inside(values, name.split("."))


def _inside(value: Any, path: list[str]) -> Any:
    """Returns the value at a path of field names, or `None`; for a list, that of the first item with a value there.

    List items may skip leading names of the path, because `<titles><title>` in XML is read as a list named `titles`.
    """
    if not path:
        return value
    if isinstance(value, dict):
        return _inside(value.get(path[0]), path[1:])
    if not isinstance(value, list | tuple):
        return None
    rests = (path[start:] for start in range(len(path) + 1))
    inner = (_inside(item, rest) for rest in rests for item in value if rest or isinstance(item, str | int | float))
    return next((item for item in inner if item is not None), None)


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """Normalizes the name of a field: ignores case, spaces, `_` and `-`."""
    return re.sub(r"[\s_-]+", "", name).casefold()


def kind(value: object) -> str:
    """Describes the type of a JSON value in words."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
