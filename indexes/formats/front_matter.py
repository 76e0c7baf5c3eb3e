"""The settings at the top of a Markdown file: YAML between `---` lines, TOML between `+++` lines, or `Key: value`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import yaml

from indexes.formats.facts import facts_of
from indexes.formats.fields import GUESSES, Names, field_of, folded, looks_like_image

_YAML = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_TOML = re.compile(r"\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PAIR = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:[ \t]+(\S.*?)[ \t]*")
_HEADER = re.compile(r"(?:[A-Za-z][\w -]*:(?:[ \t][^\n]*)?\n(?:[ \t]+\S[^\n]*\n)*)+(?=\s*(?:\n|\Z))")
"""Lines `Key: value` up to an empty one, as in MultiMarkdown and Pelican; one of them must be a title."""
_SETTINGS = frozenset(
    {
        "layout",
        "template",
        "type",
        "kind",
        "weight",
        "order",
        "draft",
        "date",
        "lastmod",
        "lastupdated",
        "updated",
        "created",
    }
    | {
        "modified",
        "publishdate",
        "expirydate",
        "published",
        "publish",
        "tags",
        "tag",
        "categories",
        "category",
        "keywords",
    }
    | {
        "permalink",
        "slug",
        "aliases",
        "alias",
        "redirectfrom",
        "redirectto",
        "parent",
        "navorder",
        "haschildren",
        "nav",
    }
    | {
        "sidebar",
        "sidebarposition",
        "sidebarlabel",
        "toc",
        "hide",
        "search",
        "comments",
        "math",
        "lang",
        "locale",
        "status",
    }
    | {"cssclass", "cssclasses", "outputs", "resources", "menu", "menus", "header", "footer", "head", "hero", "params"}
    | {
        "i18nready",
        "sortby",
        "paginateby",
        "insertanchorlinks",
        "inserttoc",
        "tableofcontents",
        "banner",
        "excerpt",
        "subtitle",
        "subject",
        "theme",
        "version",
        "author",
        "authors",
    }
    | {
        "cascade",
        "topic",
        "related",
        "sources",
        "source",
        "icon",
        "share",
        "featured",
        "series",
        "summary",
        "description",
    }
)
"""Settings of site generators, which are not facts of an article."""
_PROPERTIES = re.compile(r"(?:^[ \t]*(?:-[ \t]+)?[A-Za-z][\w.-]*::[^\n]*(?:\n|\Z))+", re.MULTILINE)
"""Properties at the top of a Logseq note."""
_SWITCHES = ("true", "false", "yes", "no")
_LONGEST_FACT = 300
_WIKI_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]")
_PATH = re.compile(r"/\S*|\S+\.md|\d{4}-\d\d-\d\d[T ].*|<%.*")
LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Reads every YAML scalar as text, so that a title `1984` or an id `007` stays unchanged."""


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Returns the settings of a Markdown file, and the rest of its text.

    Text between two `---` rules without settings is part of the article. If settings are not valid YAML, such as
    `title: Foxes: a guide`, their lines `key: value` are read. In a Logseq note, title and aliases are taken from the
    leading lines `key:: value`. Leading lines `Key: value` with a title are settings, too.
    """
    if (found := _TOML.match(text)) is not None:
        try:
            return tomllib.loads(found[1]), text[found.end() :]
        except (tomllib.TOMLDecodeError, RecursionError):
            return {}, text
    found = _YAML.match(text)
    if found is None:
        return _in_header(text) or (_properties(text), text)
    try:
        settings = yaml.load(found[1], Loader=LOADER)
    except (yaml.YAMLError, RecursionError):
        pairs = filter(None, map(_PAIR.fullmatch, found[1].splitlines()))
        settings = {pair[1]: pair[2].strip("\"'") for pair in pairs}
    if isinstance(settings, dict):
        return {str(key): value for key, value in settings.items()}, text[found.end() :]
    return ({}, text) if found[1].strip() else ({}, text[found.end() :])


def _in_header(text: str) -> tuple[dict[str, Any], str] | None:
    """Returns the settings in lines `Key: value` at the top of a file, and the rest; `None` if they have no title."""
    found = _HEADER.match(text)
    pairs = [line.partition(":") for line in re.sub(r"\n[ \t]+", " ", found[0]).splitlines()] if found else []
    settings = {key.strip().lower(): value.strip() for key, _, value in pairs}
    return (settings, text[found.end() :]) if found and settings.get("title") else None


def _properties(text: str) -> dict[str, Any]:
    """Returns title and aliases of a note that begins with properties."""
    found = _PROPERTIES.match(text)
    pairs = (line.strip("- \t").partition("::") for line in found[0].splitlines()) if found else ()
    given = {key.strip().lower(): value.strip() for key, _, value in pairs}
    settings = {"title": given.get("title"), "aliases": given.get("alias") or given.get("aliases")}
    return {key: _WIKI_LINK.sub(r"\1", value) for key, value in settings.items() if value}


def facts_in(settings: dict[str, Any], names: Names) -> Iterator[str]:
    """Yields lines `label: value` for settings of a file that describe its subject rather than configure a program."""
    used = {field_of(settings, field, names)[0] for field in GUESSES}
    for name, value in settings.items():
        if name in used or folded(name) in _SETTINGS or isinstance(value, dict) or name.startswith(("_", "dg-")):
            continue
        for label, fact in facts_of(name, value):
            words = " ".join(_WIKI_LINK.sub(r"\1", fact).split())
            is_setting = words.lower() in _SWITCHES or looks_like_image(words) or _PATH.fullmatch(words)
            if not is_setting and len(words) <= _LONGEST_FACT:
                yield f"{label}: {words}"
