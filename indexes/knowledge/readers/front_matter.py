"""The settings at the top of a Markdown file: YAML between `---`, TOML between `+++`, JSON, or lines `Key: value`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from indexes.decoding import decoded

_BEFORE = re.compile(r"(?:\s|\ufeff|<!--.*?-->)*", re.DOTALL)
"""What may precede the settings: empty lines, comments, and byte order marks."""
_DELIMITED = re.compile(
    r"(?P<mark>---|\+\+\+|;;;)[ \t]*(?P<name>ya?ml|toml|json5?)?[ \t]*\n"
    r"(?P<text>.*?)^(?:(?P=mark)|(?P<dots>\.\.\.))[ \t]*(?:\n|\Z)",
    re.DOTALL | re.MULTILINE,
)
_LINK = re.compile(r"^([ \t]*(?:-[ \t]+|[^\s:#'\"-][^:\n]*:[ \t]+))(!?\[\[(?!\[).*?)[ \t]*$", re.MULTILINE)
"""A value that is a wiki link, which YAML reads as a list in a list."""
_PLAIN = re.compile(
    r"^([ \t]*(?:-[ \t]+)?[^\s:#'\"-][^:\n]*:[ \t]+)"
    r"(?![\"'\[>|&*!]|\{(?![{%]))(?=[@`%{]|[^\n]*(?::(?:\s|$)|[ \t]#))(\S.*?)[ \t]*$",
    re.MULTILINE,
)
"""A value that needs quotation marks in YAML, such as `Foxes: a guide`."""
_HEADER = re.compile(r"(?:[A-Za-z][\w -]*:(?:[ \t][^\n]*)?\n(?:[ \t]+\S[^\n]*\n)*)+(?=\s*(?:\n|\Z))")
"""Lines `Key: value` up to an empty one, as in MultiMarkdown and Pelican; one of them must be a title."""
_CUSTOM = ("extra", "params", "taxonomies")  # tables with an author's own settings, of Zola and Hugo
_MOST_VALUES = 100_000


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """Reads every YAML scalar as text, so that a title `1984` or an id `007` stays unchanged.

    Only a bare `null`, `~` or `.nan`, as programs write them, is a missing value; "Null" is a name.
    """


_MISSING = "tag:yaml.org,2002:null"
_Loader.add_implicit_resolver(_MISSING, re.compile(r"(?:null|~|\.(?:nan|NaN|NAN))$"), ["n", "~", "."])
_Loader.add_constructor(_MISSING, lambda loader, node: None)


def read_note(file: Path) -> tuple[dict[str, Any], str]:
    """Returns the settings of a text file, and the rest of its text, with its line ends as newlines.

    Raises:
        ValueError: The file cannot be read or decoded, or its settings are broken.
    """
    try:
        text = decoded(file.read_bytes(), str(file))
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from error
    return split_front_matter(text.replace("\r\n", "\n").replace("\r", "\n"), str(file))


def split_front_matter(text: str, where: str) -> tuple[dict[str, Any], str]:
    """Returns the settings of a Markdown file, of JSON's types and as written, and the rest of its text.

    Text between two rules without settings is part of the note. The members of `extra` and `params` count as settings.

    Args:
        text: The file's text.
        where: The file's name, for messages.

    Raises:
        ValueError: The settings are broken, or too many.
    """
    before = _BEFORE.match(text)
    start = before.end() if before else 0
    settings, rest = _settings(text, start, where)
    if settings is None:
        return {}, text.lstrip("\ufeff")
    _count(settings, where)
    for name in _CUSTOM:
        if isinstance(table := settings.get(name), Mapping):
            settings = {**{key: value for key, value in settings.items() if key != name}, **table, **settings}
            del settings[name]
    return settings, "".join(f"{comment}\n" for comment in re.findall("<!--.*?-->", text[:start], re.DOTALL)) + rest


def _settings(text: str, start: int, where: str) -> tuple[dict[str, Any] | None, str]:
    if text.startswith("{", start):
        return _json_object(text, start)
    match = _DELIMITED.match(text, start)
    if match is None or (match["dots"] and match["mark"] != "---"):
        return _header(text, text.find("\n", start) + 1 if text.startswith("---\n", start) else start)
    language = (match["name"] or {"+++": "toml", ";;;": "json"}.get(match["mark"], "yaml"))[:4]
    try:
        if language == "toml":
            settings = json.loads(
                json.dumps(tomllib.loads(match["text"], parse_float=str), default=lambda moment: moment.isoformat())
            )
        else:
            settings = json.loads(match["text"], parse_float=str) if language == "json" else _yaml(match["text"])
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        if not re.search(r"^[\w\"'-]+[ \t]*[:=]", match["text"], re.MULTILINE):
            return None, text  # a text between rules
        mark, number = getattr(error, "problem_mark", None), re.search(r"line (\d+)", str(error))
        line = text.count("\n", 0, match.start("text")) + (mark.line + 1 if mark else int(number[1]) if number else 1)
        problem = getattr(error, "problem", None) or (str(error) or "nested too deeply").splitlines()[0]
        raise ValueError(f"{where}: line {line}: the front matter is not {language.upper()}: {problem}") from error
    if isinstance(settings, dict):
        return {str(key): value for key, value in settings.items()}, text[match.end() :]
    return (None, text) if match["text"].strip() else ({}, text[match.end() :])


def _yaml(text: str) -> Any:
    """Parses YAML; if that fails, parses it again with tabs as spaces and plain values in quotes."""
    text = _LINK.sub(_quoted, text)
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError:
        return yaml.load(_PLAIN.sub(_quoted, re.sub(r"^\t", "  ", text, flags=re.MULTILINE)), Loader=_Loader)


def _quoted(match: re.Match[str]) -> str:
    return match[1] + json.dumps(match[2], ensure_ascii=False)


def _json_object(text: str, start: int) -> tuple[dict[str, Any] | None, str]:
    try:
        settings, end = json.JSONDecoder(parse_float=str).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, text  # a text that begins with a brace
    return (settings, text[end:]) if settings and text[end : end + 1] in ("", "\n") else (None, text)


def _header(text: str, start: int) -> tuple[dict[str, Any] | None, str]:
    match = _HEADER.match(text, start)
    pairs = [line.partition(":") for line in re.sub(r"\n[ \t]+", " ", match[0]).splitlines()] if match else []
    settings = {key.strip().lower(): value.strip() for key, _, value in pairs}
    return (settings, text[match.end() :]) if match and settings.get("title") else (None, text)


def _count(settings: dict[str, Any], where: str) -> None:
    """Refuses settings whose references to each other stand for too many values."""
    values: list[Any] = [settings]
    for _ in range(_MOST_VALUES):
        if not values:
            return
        value = values.pop()
        values += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    raise ValueError(f"{where}: the front matter stands for more than {_MOST_VALUES:,} values")
