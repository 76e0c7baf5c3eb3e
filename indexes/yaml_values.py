"""YAML, whose numbers and dates stay as written."""

from __future__ import annotations

import re
from typing import Any

import yaml


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """Reads every scalar as text, so that a title `1984` or an id `007` stays unchanged.

    Only a bare `null`, `~` or `.nan`, as programs write them, is a missing value; "Null" is a name.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        """Returns a mapping, in which a missing key is an empty one."""
        return {"" if key is None else key: value for key, value in super().construct_mapping(node, deep).items()}


_MISSING = "tag:yaml.org,2002:null"
_Loader.add_implicit_resolver(_MISSING, re.compile(r"(?:null|~|\.(?:nan|NaN|NAN))$"), ["n", "~", "."])
_Loader.add_constructor(_MISSING, lambda loader, node: None)


def yaml_value(text: str, where: str) -> Any:
    """Returns the value in YAML, or a list of them if there are several; `where` is its file, for messages.

    Raises:
        ValueError: The text is not YAML.
    """
    try:
        values = list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{where}: {line}not YAML ({error.problem})") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{where}: not YAML ({error})") from error
    except RecursionError as error:  # PyYAML before 6.0.4
        raise ValueError(f"{where}: not YAML that can be read (too many levels)") from error
    return values[0] if len(values) == 1 else values
