"""The settings at the top of a Markdown file: YAML between `---` lines, or TOML between `+++` lines."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import yaml

_YAML = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_TOML = re.compile(r"\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PAIR = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:[ \t]+(\S.*?)[ \t]*")
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Takes every scalar as text, so that a title `1984` or an id `007` stays what it is."""


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Returns the settings of a Markdown file, and the rest of it.

    Text between two `---` rules that holds no settings is part of the article. Of settings that are not valid YAML,
    such as `title: Foxes: a guide`, the lines `key: value` are read.
    """
    if (found := _TOML.match(text)) is not None:
        try:
            return tomllib.loads(found[1]), text[found.end() :]
        except tomllib.TOMLDecodeError:
            return {}, text
    found = _YAML.match(text)
    if found is None:
        return {}, text
    try:
        settings = yaml.load(found[1], Loader=_LOADER)
    except yaml.YAMLError:
        pairs = filter(None, map(_PAIR.fullmatch, found[1].splitlines()))
        settings = {pair[1]: pair[2].strip("\"'") for pair in pairs}
    if isinstance(settings, dict):
        return {str(key): value for key, value in settings.items()}, text[found.end() :]
    return ({}, text) if found[1].strip() else ({}, text[found.end() :])
