"""Checks of a row's fields: every error names the place, the field and what was found there."""

from __future__ import annotations

import importlib
from typing import Any


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object's members as a dict; an `object_pairs_hook`.

    Raises:
        ValueError: A key occurs twice; json would silently keep the last.
    """
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice in one object")
    return result


def text(row: object, field: str, where: str, required: bool = True) -> str:
    """Returns a text field, "" if it is absent or null and not required.

    Raises:
        ValueError: It is missing or of another type.
    """
    value = _field(row, field, where, required)
    return "" if value is None else check_text(value, where, field)


def items(row: object, field: str, where: str, required: bool = True) -> list[Any]:
    """Returns a list field, [] if it is absent or null and not required.

    Raises:
        ValueError: It is missing or of another type.
    """
    value = _field(row, field, where, required)
    if not isinstance(value, list | None):
        raise ValueError(f"{where}: field {field!r}: expected a list, but found {kind(value)}")
    return value or []


def texts(row: object, field: str, where: str, required: bool = True) -> list[str]:
    """Returns a field that is a list of texts, [] if it is absent or null and not required.

    Raises:
        ValueError: It is missing, or it or a member is of another type.
    """
    values = items(row, field, where, required)
    return [check_text(value, where, f"{field}[{position}]") for position, value in enumerate(values)]


def check_text(value: object, where: str, field: str) -> str:
    """Returns `value` if it is text.

    Raises:
        ValueError: It is not, or it holds half a surrogate pair, which JSON can spell and no tokenizer accepts.
    """
    if not isinstance(value, str):
        raise ValueError(f"{where}: field {field!r}: expected text, but found {kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{where}: field {field!r}: not valid Unicode ({error.reason})") from error
    return value


def check_position(value: object, where: str, field: str) -> int | None:
    """Returns a section's number, or `None` for null.

    Raises:
        ValueError: It is not a whole number.
    """
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f"{where}: field {field!r}: expected a whole number, but found {kind(value)}")
    return value


def kind(value: object) -> str:
    """Describes the type of a JSON value in words."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def optional(module: str, extra: str) -> Any:
    """Imports a module that an extra installs.

    Raises:
        ValueError: It is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"this format needs {module}: pip install 'omgm[{extra}]'") from error


def _field(row: object, field: str, where: str, required: bool) -> Any:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected an object, but found {kind(row)}")
    if row.get(field) is None and required:
        raise ValueError(f"{where}: field {field!r} is missing")
    return row.get(field)
