"""The settings at the top of a Markdown file: YAML between `---`, TOML between `+++`, JSON, or lines `Key: value`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from indexes.knowledge.formats.facts import RIGHTS, facts_of, words_within
from indexes.knowledge.formats.fields import GUESSES, Names, field_of, folded, looks_like_image
from indexes.knowledge.formats.losses import Losses

_BEFORE = re.compile(r"(?:\s|\ufeff|<!--.*?-->)*", re.DOTALL)
"""What may precede the settings: empty lines, comments, and byte order marks."""
_YAML = re.compile(r"---[ \t]*(?:ya?ml)?[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_TOML = re.compile(r"(\+\+\+|---[ \t]*toml)[ \t]*\n(.*?)^(?:\+\+\+|---)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_JSON = re.compile(r"(;;;|---[ \t]*json5?)[ \t]*\n(.*?)^(?:;;;|---)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PAIR = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(\S.*?)|())[ \t]*")
_LINK = re.compile(r"^([ \t]*(?:-[ \t]+|[^\s:#'\"-][^:\n]*:[ \t]+))(!?\[\[(?!\[).*?)[ \t]*$", re.MULTILINE)
"""A value that is a wiki link, which YAML reads as a list in a list."""
_PLAIN = re.compile(
    r"^([ \t]*(?:-[ \t]+)?[^\s:#'\"-][^:\n]*:[ \t]+)"
    r"(?![\"'\[>|&*!]|\{(?![{%]))(?=[@`%{]|[^\n]*(?::(?:\s|$)|[ \t]#))(\S.*?)[ \t]*$",
    re.MULTILINE,
)
"""A value that needs quotation marks in YAML."""
_HEADER = re.compile(r"(?:[A-Za-z][\w -]*:(?:[ \t][^\n]*)?\n(?:[ \t]+\S[^\n]*\n)*)+(?=\s*(?:\n|\Z))")
"""Lines `Key: value` up to an empty one, as in MultiMarkdown and Pelican; one of them must be a title."""
_SETTINGS = frozenset(
    word
    for line in (
        "layout template draft date lastmod lastupdated updated created modified publishdate expirydate publish",
        "permalink slug aliases alias redirectfrom redirectto parent navorder haschildren nav sidebar",
        "sidebarposition sidebarlabel toc hide search comments math lang locale cssclass cssclasses outputs",
        "resources menu menus header footer head hero i18nready sortby paginateby insertanchorlinks inserttoc",
        "tableofcontents banner theme cascade icon share featured pagefind editurl prev next jupytext kernelspec",
    )
    for word in line.split()
)
"""Settings of site generators, which are not facts of an article."""
_NUMBERED = ("weight", "order")  # the same if they are numbers: a fox's weight has a unit
_CUSTOM = ("extra", "params", "taxonomies")  # tables with an author's own settings, of Zola and Hugo
_PROPERTIES = re.compile(r"(?:^[ \t]*(?:-[ \t]+)?[A-Za-z][\w.-]*::[^\n]*(?:\n|\Z))+", re.MULTILINE)
"""Properties at the top of a Logseq note."""
_SWITCHES = ("true", "false")
_WIKI_LINK = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]")
_PATH = re.compile(r"/\S*|\S+\.md|\d{4}-\d\d-\d\d[T ].*|<%.*|\w+://\S+")


class Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """Reads every YAML scalar as text, so that a title `1984` or an id `007` stays unchanged.

    Only a bare `null`, `~` or `.nan`, as programs write them, is a missing value; "Null" is a name.
    """


_MISSING = "tag:yaml.org,2002:null"
Loader.add_implicit_resolver(_MISSING, re.compile(r"(?:null|~|\.(?:nan|NaN|NAN))$"), ["n", "~", "."])
Loader.add_constructor(_MISSING, lambda loader, node: None)


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Returns the settings of a Markdown file, and the rest of its text.

    Text between two `---` rules without settings is part of the article. If settings are not valid YAML, such as
    `title: Foxes: a guide`, their values are read as text, or else their lines `key: value` alone. In a Logseq note,
    title and aliases are taken from the leading lines `key:: value`. Leading lines `Key: value` with a title are
    settings, too. The members of `extra` and `params` count as settings.
    """
    before = _BEFORE.match(text)
    begin = before.end() if before else 0
    found = _delimited(text[begin:]) or _in_header(text[begin:])
    if found is None:
        return _properties(text), text
    settings, rest = found
    for name in _CUSTOM:
        if isinstance(own := settings.get(name), Mapping):
            settings = {**{key: value for key, value in settings.items() if key != name}, **own, **settings}
            del settings[name]
    return settings, "\n".join(re.findall("<!--.*?-->", text[:begin], re.DOTALL)) + rest


def _delimited(text: str) -> tuple[dict[str, Any], str] | None:
    """Returns the settings between delimiters at the top of a file, and the rest; `None` if there are none."""
    try:
        if (found := _TOML.match(text)) is not None:
            return tomllib.loads(found[2]), text[found.end() :]
        if (found := _JSON.match(text)) is not None or text.startswith("{"):
            settings, end = json.JSONDecoder().raw_decode(found[2].lstrip() if found else text)
            rest = text[found.end() if found else end :]
            return (
                (settings, rest)
                if (isinstance(settings, dict) and settings and rest[:1] in ("", "\n")) or found
                else None
            )
    except (ValueError, RecursionError):
        return None
    if (found := _YAML.match(text)) is None:
        return _in_header(text.partition("\n")[2]) if text.startswith("---\n") else None
    settings = _yaml(_LINK.sub(_quoted, found[1]))
    if isinstance(settings, dict):
        return {str(key): value for key, value in settings.items()}, text[found.end() :]
    return None if found[1].strip() else ({}, text[found.end() :])


def _yaml(text: str) -> Any:
    spaced = "\n".join(line.replace("\t", "  ", 1) if line[:1] == "\t" else line for line in text.split("\n"))
    for candidate in (text, _PLAIN.sub(_quoted, text), _PLAIN.sub(_quoted, spaced)):
        try:
            return yaml.load(candidate, Loader=Loader)
        except (yaml.YAMLError, RecursionError):
            continue
    return dict(_pairs(text.split("\n")))


def _pairs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields (key, value) of lines `key: value`; the lines below that are none belong to the one above."""
    key, value = "", list[str]()
    for line in lines:
        if (found := _PAIR.fullmatch(line)) is None:
            value.append(line.strip())
            continue
        if key:
            yield key, "\n".join(filter(None, value))
        key, value = found[1], [re.sub(r"^([\"'])(.*)\1$", r"\2", found[2] or "")]
    if key:
        yield key, "\n".join(filter(None, value))


def _quoted(found: re.Match[str]) -> str:
    return found[1] + json.dumps(found[2], ensure_ascii=False)


def _in_header(text: str) -> tuple[dict[str, Any], str] | None:
    """Returns the settings in lines `Key: value` at the top of a file, and the rest; `None` if they have no title."""
    found = _HEADER.match(text)
    pairs = [line.partition(":") for line in re.sub(r"\n[ \t]+", " ", found[0]).splitlines()] if found else []
    settings = {key.strip().lower(): value.strip() for key, _, value in pairs}
    return (settings, text[found.end() :]) if found and settings.get("title") else None


def without_links(text: str) -> str:
    """Returns a text with the words of its wiki links."""
    return _WIKI_LINK.sub(r"\1", text)


def _properties(text: str) -> dict[str, Any]:
    """Returns title and aliases of a note that begins with properties."""
    found = _PROPERTIES.match(text)
    pairs = (line.strip("- \t").partition("::") for line in found[0].splitlines()) if found else ()
    given = {key.strip().lower(): value.strip() for key, _, value in pairs}
    settings = {"title": given.get("title"), "aliases": given.get("alias") or given.get("aliases")}
    return {key: without_links(value) for key, value in settings.items() if value}


def facts_in(
    settings: Mapping[str, Any], used: Iterable[str], names: Names, losses: Losses
) -> Iterator[tuple[str, str]]:
    """Yields (label, value) for settings of a file that describe its subject rather than configure a program."""
    used = {*used, *(field_of(settings, field, names)[0] for field in GUESSES if field != "text")}
    for name, value in settings.items():
        if name not in used and _is_setting(name, value):
            losses.leave_out("settings of site generators", words_within(value))
        elif name not in used:
            yield from property_facts(name, value, losses)


def property_facts(name: str, value: Any, losses: Losses) -> Iterator[tuple[str, str]]:
    """Yields (label, value) for a property of a note; links are their words, and files and switches are left out."""
    for label, fact in facts_of(name, value, losses):
        words = "\n".join(" ".join(line.split()) for line in without_links(fact).splitlines())
        if words in _SWITCHES or isinstance(value, bool):
            losses.leave_out("settings of site generators", words)
        elif looks_like_image(words) or _PATH.fullmatch(words):
            losses.leave_out("addresses and file names", words)
        else:
            yield label, words


def _is_setting(name: str, value: Any) -> bool:
    key = folded(name)
    is_number = key in _NUMBERED and str(value).isdigit()
    return (
        key in _SETTINGS
        or is_number
        or (key == "build" and isinstance(value, Mapping))  # Hugo's
        or RIGHTS.fullmatch(key) is not None
        or name.startswith(("_", "dg-", "excalidraw-", "kanban-"))
    )


def resources_in(settings: Mapping[str, Any]) -> list[str]:
    """Returns the files of a Hugo page's `resources`, its cover first; patterns such as `*.jpg` name none."""
    listed = settings.get("resources")
    found = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    named = sorted(found, key=lambda one: not re.search("cover|feature|thumb", str(one.get("name", "")), re.IGNORECASE))
    return [src for one in named if isinstance(src := one.get("src"), str) and looks_like_image(src) and "*" not in src]
