"""A row of a table, or an object of a list, as an entity: usual fields by their names, all others as facts."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from indexes.formats.fields import GUESSES, Names, check_text, field_of, folded, images_of, kind, looks_like_image
from indexes.formats.html import FACTS
from indexes.formats.markdown_text import plain_html
from indexes.formats.skipped import Entry, SeenHashes, attempt
from indexes.ids import hash_id
from indexes.sections import split_article, split_text
from retriever.types import ArticleImage, Entity

Row = Mapping[str, Any]

_EMPTY = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "--", "\\n", "[]", "{}"})
"""How tables write that there is no value, in lower case."""
_SECTION = 250
"""Characters from which a value is a section of its own and no fact."""
_WRITTEN = (int, float, Decimal, date, time)
"""Types of values, those of columns in Parquet among them, that are facts as Python writes them."""
_LONGEST_LIST = 30
_LONGEST_NAME = 100
_DEEPEST = 3
_MARKUP = re.compile(r"</?(?:p|br|div|ul|ol|li|b|i|em|strong|a|h\d|span|img|table)\b[^<>]*>", re.IGNORECASE)
_LANGUAGES = ("en", "english", "eng", "en-us", "en_us", "common", "default", "value", "text", "label", "name", "title")
"""Keys of an object that holds one text in several languages or forms, the preferred ones first."""


def entities_of(
    rows: Iterable[tuple[str, Any]], names: Names, what: str, read: Callable[[Any, str, Names], Entity] | None = None
) -> Iterator[Entry]:
    """Yields the entities of rows with their places.

    A row without an id has its title as its id, with its number if an earlier row has the same title.

    Args:
        rows: Places, with a row or with the reason why there is none.
        names: The names of fields that are not the usual ones.
        what: What the rows are in, for messages.
        read: Reads a row, by default `entity_of`.

    Raises:
        ValueError: No row has a field that `names` names.
    """
    titles, unseen, number, columns = SeenHashes(), set(names), 0, list[str]()
    for where, row in rows:
        number += 1
        if isinstance(row, ValueError):
            yield where, row
            continue
        if not columns and isinstance(row, Mapping):  # the first that can be read
            columns = list(row)
            if "title" not in names and (title := _title_field(row)):
                names = {**names, "title": title}
        if unseen and isinstance(row, Mapping):
            unseen = {field for field in unseen if field_of(row, field, names)[1] is None}
        where = place_of(row, where, names)
        _, entry = attempt(where, partial(read or entity_of, row, where, names))
        if isinstance(entry, Entity) and not entry.id:
            new = titles.add(hash_id(entry.title))
            entry = replace(entry, id=entry.title if new else f"{entry.title} ({number})")
        yield where, entry
    for field in sorted(unseen) if columns else ():
        raise ValueError(f"{what}: --map {field}={names[field]}: no entry has it; fields are {_listed(columns)}")


def entity_of(row: Any, where: str, names: Names) -> Entity:
    """Returns the entity in a row; its id is "" if the row has none.

    The text, and every other text that is longer than a fact, is a section; all other values become lines
    `label: value` of a section "Facts".

    Raises:
        ValueError: It is no object, or has no title.
    """
    if not isinstance(row, Mapping):
        raise ValueError(f"{where}: expected an object, but found {kind(row)}")
    row = _lifted(row) if "title" not in names else row
    title_name, value = field_of(row, "title", names)
    titles = list(_texts(value))
    if not titles:
        missing = f"field {title_name!r} is missing" if "title" in names else "no title"
        raise ValueError(f"{where}: {missing}; if it has another name, pass --map title=NAME; it has {_listed(row)}")
    id_name, id = field_of(row, "id", names)
    url_name, url = field_of(row, "url", names)
    text_name, text = field_of(row, "text", names)
    image_name, images = _images(row, where, names)
    used = {name if name in row else name.partition(".")[0] for name in (title_name, image_name)}
    used |= {name for name, given in ((id_name, id), (url_name, url), (text_name, text)) if _scalar(given) is not None}
    sections = list(split_text(titles[0], plain(_text(text))))
    facts: list[str] = []
    for name, value in row.items():
        if name in used or name.startswith("_"):
            continue
        for label, line in facts_of(name, value):
            if len(line) > _SECTION or "\n" in line:
                sections += [(label, plain(line))]
            else:
                facts.append(f"{label}: {line}")
    others = row.get("names")  # what else it may be in a file of another's
    other_names = [*titles[1:], *(others if isinstance(others, list) else ())]
    return Entity(
        id=_scalar(id) or "",
        title=check_text(titles[0], where, title_name),
        sections=split_article([*sections, (FACTS, "\n".join(facts))]),
        image=images[0] if images else None,
        url=_scalar(url) or "",
        images=tuple(map(ArticleImage, images[1:])),
        names=tuple(dict.fromkeys(one for one in other_names if isinstance(one, str) and one != titles[0])),
    )


def place_of(row: Any, where: str, names: Names) -> str:
    """Returns the place of a row with its id, if it has one."""
    found = field_of(row, "id", names)[1] if isinstance(row, Mapping) else None
    return f"{where} ({str(found)!r})" if isinstance(found, str | int) and not isinstance(found, bool) else where


def plain(text: str) -> str:
    """Returns a text without HTML; its headings become lines `== heading ==`."""
    return plain_html(text) if _MARKUP.search(text) else text


def _lifted(row: Row) -> Row:
    """Returns a row with the members of the only object in it that has a title, if the row itself has none.

    So are the features of GeoJSON ("properties") and the entries of some content systems ("attributes", "fields").
    """
    if _has_title(row):
        return row
    inner = [name for name, value in row.items() if isinstance(value, Mapping) and _has_title(value)]
    if len(inner) != 1:
        return row
    return {**{name: value for name, value in row.items() if name not in (*inner, "geometry")}, **row[inner[0]]}


def _has_title(row: Row) -> bool:
    return any(_texts(field_of(row, "title", {})[1]))


def _title_field(row: Row) -> str:
    """Returns the field that is the title of rows without a usual one, "" if there is one, or none that may be.

    It is the first whose name ends with "name" or "title" ("Airport name"), or else the first that is a short text.
    """
    if _has_title(_lifted(row)) or any(folded(name) in map(folded, GUESSES["title"]) for name in row):
        return ""
    usual = {field_of(row, field, {})[0] for field in ("id", "url", "text", "image")}
    texts = [name for name, value in row.items() if name not in usual and isinstance(value, str) and _is_name(value)]
    named = (name for name in texts if folded(name).endswith(("title", "name")))
    return next(named, texts[0] if texts else "")


def _is_name(value: str) -> bool:
    words = any(map(str.isalpha, value)) and len(value) <= _LONGEST_NAME and value.lower() not in _EMPTY
    return words and not looks_like_image(value) and "://" not in value


def _images(row: Row, where: str, names: Names) -> tuple[str, list[str]]:
    """Returns the field of a row's images, and what it names; without a usual one, the first that names an image."""
    name, found = images_of({name: _parsed(value) for name, value in row.items()}, where, names)
    if found:
        return name, [image for one in found for image in _split(one)]
    for name, value in row.items() if "image" not in names else ():
        if isinstance(value, str) and looks_like_image(value):
            return name, _split(value)
        if isinstance(value, list) and value and all(isinstance(one, str) and looks_like_image(one) for one in value):
            return name, list(value)
    return "", []


def _split(value: str) -> list[str]:
    """Returns the images that a text names: separated by `|`, or by commas or semicolons if each is an image."""
    parts = [part.strip() for part in value.split("|")]
    if len(parts) == 1:
        listed = [part.strip() for part in re.split(r"[;,]\s*", value)]
        parts = listed if all(map(looks_like_image, listed)) else parts
    return [part for part in parts if part]


def _facts(label: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields (label, value) of what a field says; that of an object's members begins with the object's."""
    value = _parsed(value)
    if isinstance(value, Mapping):
        if len(value) > 1 and all(isinstance(one, Mapping) for one in value.values()):
            yield from _facts(label, list(value.values()), depth)  # such as languages by their codes
        elif depth < _DEEPEST:
            for name, one in value.items():
                if folded(name) not in ("id", "url"):
                    yield from _facts(f"{label}, {_label(name, first=False)}", one, depth + 1)
    elif isinstance(value, list | tuple):
        listed = list(dict.fromkeys(text for one in value if (text := _item(one))))
        described = any(isinstance(one, Mapping) for one in value) and all(": " in text for text in listed)
        if listed and (described or len(listed) <= _LONGEST_LIST):
            long = sum(map(len, listed)) > _SECTION  # such as the steps of a recipe
            yield (
                label,
                ("\n" if described or long else "; " if any("," in one for one in listed) else ", ").join(listed),
            )
    elif (fact := _scalar(value)) and not re.fullmatch(r"\w+://\S+", fact):
        yield label, fact


def _item(value: Any) -> str:
    """Returns an item of a list as text: of an object, its title, and its text if it has one."""
    if not isinstance(value, Mapping):
        return " ".join((_scalar(value) or "").split())
    title = next(_texts(field_of(value, "title", {})[1]), "")
    about = " ".join(plain(_text(field_of(value, "text", {})[1])).split())
    return f"{title}: {about}" if title and about else title or about


def _texts(value: Any) -> Iterator[str]:
    """Yields the texts in a value, the preferred one first: an object has one in several languages or forms."""
    if isinstance(value, Mapping):
        keys = {folded(key): key for key in reversed(value)}
        first = [keys[folded(name)] for name in _LANGUAGES if folded(name) in keys]
        for key in dict.fromkeys([*first, *value]):
            if isinstance(value[key], str):
                yield from _texts(value[key])
    elif isinstance(value, list | tuple):
        yield from (text for one in value if isinstance(one, str) for text in _texts(one))
    elif (text := _scalar(value)) is not None:
        yield " ".join(text.split())


def _text(value: Any) -> str:
    """Returns the text of an article: paragraphs if it is a list, of an object the preferred one."""
    if isinstance(value, list | tuple):
        return "\n".join(filter(None, map(_text, value)))
    if isinstance(value, Mapping):
        return next(_texts(value), "")
    return _scalar(value) or ""


def _scalar(value: Any) -> str | None:
    """Returns a text, a number, a date or a truth value as text, `None` if it says nothing."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = value.strip() if isinstance(value, str) else str(value) if isinstance(value, _WRITTEN) else ""
    return None if text.lower() in _EMPTY else text


def _parsed(value: Any) -> Any:
    """Returns a list or an object that a table holds as text, written in JSON or as Python writes it."""
    if not isinstance(value, str) or value[:1] + value[-1:] not in ("[]", "{}"):
        return value
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return value


def facts_of(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yields (label, value) of what a field says."""
    yield from _facts(_label(name), value)


@lru_cache(maxsize=4096)
def _label(name: str, first: bool = True) -> str:
    """Returns the name of a field as words: `yearOfBirth` and `year_of_birth` as "Year of birth"."""
    if not re.search(r"\s", name):
        name = re.sub(r"(?<=[a-z\d])(?=[A-Z][a-z])", " ", name.replace("_", " ").replace("-", " ")).strip()
        words = [word.lower() if re.fullmatch(r"[A-Z][a-z]+", word) else word for word in name.split()]
        name = " ".join(words)
    return name[:1].upper() + name[1:] if first else name


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(map(str, shown[:_LONGEST_LIST])) + (", …" if len(shown) > _LONGEST_LIST else "")
