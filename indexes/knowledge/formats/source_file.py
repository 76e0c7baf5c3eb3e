"""Knowledge bases that are not files: a TOML file says what to read from a database or a Hugging Face data set."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from indexes.knowledge.formats.fields import Names, parse_names

HELP = (
    'a knowledge base in TOML has url = "sqlite:///animals.db" and query = "SELECT …", or dataset = "owner/name"; '
    "see docs/data-formats.md"
)
_KEYS = {"sql": (("url", "query"), ("map",)), "huggingface": (("dataset",), ("config", "split", "revision", "map"))}
"""Keys of each format, required ones first."""


def read_source_file(path: Path) -> dict[str, Any]:
    """Returns the settings in a file, checked; `map` is a mapping of fields to names.

    Raises:
        ValueError: The file is not TOML, or has invalid keys or values.
    """
    settings = _table(path)
    required, others = _KEYS[format_of(path, settings)]
    for key, value in settings.items():
        if key not in (*required, *others):
            raise ValueError(f"{path}: unknown key {key!r}; known are {', '.join((*required, *others))}")
        if key != "map" and not isinstance(value, str):
            raise ValueError(f"{path}: {key}: expected text")
    if missing := [key for key in required if key not in settings]:
        raise ValueError(f"{path}: {missing[0]} is missing; {HELP}")
    names = settings.get("map", {})
    if not isinstance(names, dict):
        raise ValueError(f"{path}: map: expected a table, FIELD = NAME")
    try:
        return settings | {"map": parse_names(f"{field}={name}" for field, name in names.items())}
    except ValueError as error:
        raise ValueError(f"{path}: {str(error).removeprefix('--')}") from error


def format_of(path: Path, settings: dict[str, Any] | None = None) -> str:
    """Returns the format of the knowledge base that a file describes.

    Raises:
        ValueError: The file does not describe one.
    """
    if settings is None:
        settings = _table(path) if path.is_file() else {}
    if "dataset" in settings:
        return "huggingface"
    if "query" in settings or "url" in settings:
        return "sql"
    raise ValueError(f"{path}: does not describe a knowledge base: {HELP}")


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not TOML: {error}") from error


def names_in(settings: dict[str, Any], given: Names) -> Names:
    """Returns the names of fields; `given` ones override those of the file."""
    return {**settings["map"], **given}
