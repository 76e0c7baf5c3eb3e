"""TOML files that name a knowledge base which is no file: a database's query, or a data set of Hugging Face."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from indexes.knowledge.understanding.fields import parse_names

HELP = (
    'a knowledge base in TOML has url = "sqlite:///animals.db" and query = "SELECT …", or dataset = "owner/name"; '
    "see docs/data-formats.md"
)
_KEYS = {"query": (("url", "query"), ("map",)), "dataset": (("dataset",), ("config", "split", "revision", "map"))}
"""Keys of each kind of file, required ones first."""


def describes(start: bytes, kind: str) -> bool:
    """Returns whether a file that begins so is TOML of a kind: "query" or "dataset"."""
    names = {line.partition(b"=")[0].strip(b" \t\"'").decode("latin-1") for line in start.splitlines() if b"=" in line}
    return kind in names or (kind == "query" and "url" in names and "dataset" not in names)


def settings_in(file: Path) -> dict[str, Any]:
    """Returns the settings in a file, checked; `map` is a mapping of an entity's fields to names.

    Raises:
        ValueError: The file is not TOML, or has invalid keys or values.
    """
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: not TOML: {error}") from error
    kind = "dataset" if "dataset" in settings else "query"
    if kind == "query" and not settings.keys() & {"url", "query"}:
        raise ValueError(f"{file}: does not describe a knowledge base: {HELP}")
    required, others = _KEYS[kind]
    for key, value in settings.items():
        if key not in (*required, *others):
            raise ValueError(f"{file}: unknown key {key!r}; known are {', '.join((*required, *others))}")
        if key != "map" and not isinstance(value, str):
            raise ValueError(f"{file}: {key}: expected text")
    if missing := [key for key in required if key not in settings]:
        raise ValueError(f"{file}: {missing[0]} is missing; {HELP}")
    names = settings.get("map", {})
    if not isinstance(names, dict):
        raise ValueError(f"{file}: map: expected a table, FIELD = NAME")
    try:
        return settings | {"map": parse_names(f"{field}={name}" for field, name in names.items())}
    except ValueError as error:
        raise ValueError(f"{file}: {str(error).removeprefix('--')}") from error
