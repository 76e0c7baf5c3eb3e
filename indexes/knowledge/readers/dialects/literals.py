"""The texts that a component of MDX shows: its literal values, apart from those that are settings or code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any

from indexes.knowledge.readers.dialects import pipe_table
from indexes.knowledge.readers.dialects.templates import is_image

_NAMES = r"(?i)label|name|term|key|title|heading|header|question|year|date|step|subject|property"  # of the next value
_WORDS = rf"{_NAMES}|value|text|desc\w*|caption|answer|definition|summary|content|\w*title|"
_SETTING = (
    r"(?i)class|style|id|type|variant|kind|size|colou?r|icon\w*|href|to|src\w*|url|link|target|rel|lang(uage)?|slot|theme"
    r"|layout|align\w*|client.*|data-.*|on[a-z]+|\w+(class|name|id|color|icon|path|url)|path|file|code|width|height"
)
_CODE = r"[a-z][\w.:/-]*|[\w-]*[_=<>{}]\S*|[\W\d_]*"  # what may be code, unless its name says more


def shown(values: Any, code: list[str]) -> Iterator[str]:
    """Yields the texts of an object or an array as Markdown; those that may be code are added to `code`."""
    members = list(values.items()) if isinstance(values, dict) else [("", value) for value in values]
    texts = [(name, value) for name, value in members if _is_text(name, value)]
    code += [str(value) for name, value in members if (name, value) not in texts]
    words = [_escaped(value) for _, value in texts if isinstance(value, str)]
    if len(words) > 1 and re.fullmatch(_NAMES, texts[0][0]):
        words = [f"{words[0]}: {', '.join(words[1:])}"]
    yield from words if isinstance(values, list) else filter(None, [", ".join(words)])
    nested = [value for _, value in texts if not isinstance(value, str)]
    tables = [value for value in nested if isinstance(value, list) and value and all(map(_is_row, value))]
    head = [value for name, value in texts if tables and re.match("head|column", name) and _is_row(value)][:1]
    for value in (other for other in nested if other not in head):
        is_table = value in tables
        yield from ["\n".join(pipe_table([*head, *value], len(head)))] if is_table else shown(value, code)


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", escape(" ".join(text.split()), False))


def _is_row(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(cell, str) for cell in value)


def _is_text(name: str, value: Any) -> bool:
    """Returns whether a value is text, or may hold some."""
    is_words = re.fullmatch(_WORDS, name) is not None
    if not isinstance(value, str) or (not is_words and re.fullmatch(_SETTING, name)):
        return is_words or re.fullmatch(_SETTING, name) is None
    is_address = is_image(value) or re.fullmatch(r"[/.#@][^\s]*|\w+:\S+|[\W_]*", value.strip()) is not None
    return not is_address and (is_words or re.fullmatch(_CODE, value.strip()) is None)
