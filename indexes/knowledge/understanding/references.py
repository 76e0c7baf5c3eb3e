"""References between records: values that are keys of others, which make rows parts of rows, or say their titles."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any

from indexes.knowledge.image_names import words_of
from indexes.knowledge.understanding.facts import label_of, scalar_of, texts_in
from indexes.knowledge.understanding.fields import GUESSES, field_of, looks_like_image
from indexes.knowledge.understanding.image_texts import OF_OTHERS, pictures_in
from indexes.knowledge.understanding.settings import RIGHTS, local_name
from indexes.knowledge.understanding.shapes import has_title, named_titles
from indexes.labeled_values import Names, folded

Rows = Mapping[int, Mapping[str, Any]]
Column = tuple[str, str]  # the file and the name of a field
Columns = dict[Column, dict[str, list[int]]]  # the numbers of the rows with each value of a field

_KINDS = ("format", "type", "mimetype", "displaytemplate", "dcformat", "dctype", "mediatype")
_IMAGE = re.compile(r"image/[\w.+-]+|(?:still\s?)?image|photo(?:graph)?|picture", re.IGNORECASE)
PARENTS = frozenset({"parentid", "parentobjectid", "parentidentifier", "parent", "coreid", "postparent"})
"""Names of fields with the id of another record, as by `local_name`."""
_REFERENCES = frozenset({"id", "ids", "ref", "refs", "key", "keys", "parent", "handle", "code", "thumbnail"})
"""Last words of the names of fields whose numbers are keys, not counts."""
_NOTHING, _MOST_KEYS, _KEY = ("", "0", "-1"), 100, re.compile(r"[^\s,;|]{1,64}")
_SENTENCE, _MOST, _SHARED = 60, 0.8, 3
"""Fewest characters of a text that a record has of its own; share of records of one kind that must be alike; most
owners of a part, on average: more share a category."""


class References:
    """The references between rows of one source.

    A field refers to another, its key, if all of its values are values of the key, and those of the key are each one
    row's.

    Args:
        places: The place of each entry, which begins with its file.
        rows: The values of rows, by the number of their entry.
        names: The names of fields that the user gives.
    """

    def __init__(self, places: Sequence[str], rows: Rows, names: Names) -> None:
        self._rows, self._names = rows, names
        self._columns, self._keys = _columns(places, rows) if len(rows) > 1 else ({}, {})
        self._to = {name: key for name, column in self._columns.items() if (key := _key_of(name, column, self._keys))}

    def owners(self) -> dict[int, list[int]]:
        """Returns the rows that are parts of others, with these: they have an image, but no text of their own.

        Rows that name rows of their own kind, such as the next one, remain what they are.
        """
        owners: dict[int, list[int]] = {}
        for name, key in self._to.items():
            if local_name(name[1]) in PARENTS:
                continue
            for part, owner in _parts(self._pairs(name, key), self._rows, self._names):
                if owner not in owners.setdefault(part, []):
                    owners[part].append(owner)
        return {part: above for part, above in owners.items() if not any(owner in owners for owner in above)}

    def titles(self) -> dict[int, dict[str, str | list[str]]]:
        """Returns the titles of the rows of other tables to which rows refer, by the names of the fields.

        The field is called like the key or the table: `maker_id` refers to `maker_id`, or to `makers.csv`. A row of the
        same thing, with a key of its own, says nothing.
        """
        titles = defaultdict[int, dict[str, str | list[str]]](dict)
        for name, key in self._to.items():
            if name[0] == key[0] or name in self._keys or not _is_called(name[1], key):
                continue
            found = defaultdict[int, list[str]](list)
            for number, owner in self._pairs(name, key):
                if is_titled(self._rows[number], self._names) and (title := _title_of(self._rows[owner], self._names)):
                    found[number].append(title)
            for number, several in found.items():
                titles[number][name[1]] = several if len(several) > 1 else several[0]
        return titles

    def _pairs(self, name: Column, key: Column) -> list[tuple[int, int]]:
        of = self._keys[key]
        columns = self._columns[name].items()
        return [(number, of[value][0]) for value, numbers in columns if value in of for number in numbers]


def of_post(row: Mapping[str, Any], field: str) -> str:
    """Returns the value of one of WordPress' fields, as by `local_name`, "" if there is none."""
    return next((scalar_of(value) or "" for name, value in row.items() if local_name(str(name)) == field), "")


def is_image(row: Mapping[str, Any]) -> bool:
    """Returns whether a row says that it is an image: `image/jpeg`, `Image;StillImage`, an attachment with an image."""
    if of_post(row, "posttype") == "attachment":
        return any(isinstance(value, str) and looks_like_image(value) for value in row.values())
    kinds = (str(value) for name, value in row.items() if folded(str(name)) in _KINDS)
    return any(_IMAGE.fullmatch(part.strip()) for kind in kinds for part in kind.split(";"))


def _columns(places: Sequence[str], rows: Rows) -> tuple[Columns, Columns]:
    """Returns the fields of each file whose values may be keys, and those of them whose values are each one row's."""
    columns: Columns = {}
    shared, others = set[Column](), defaultdict[str, set[str]](set)
    for number, row in rows.items():
        file = places[number].partition(": ")[0]
        no_keys = others[file]
        for name, value in row.items():
            if name in no_keys or value is None or value == "":
                continue
            if (keys := _keys_in(value)) is None:
                no_keys.add(name)
                columns.pop((file, name), None)
                continue
            column = columns.setdefault((file, name), {})
            shared |= {(file, name)} if len(keys) != 1 or keys[0] in column else set()
            for key in keys:
                column.setdefault(key, []).append(number)
    return columns, {name: column for name, column in columns.items() if name not in shared and len(column) > 1}


def _keys_in(value: Any) -> list[str] | None:
    """Returns the keys in a value, `None` if it is something else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [str(value)]
    if isinstance(value, str):
        value = value.strip()
        return [value] if _KEY.fullmatch(value) else None
    if isinstance(value, list) and 0 < len(value) <= _MOST_KEYS:
        keys = [_keys_in(item) if isinstance(item, str | int) else None for item in value]
        return None if None in keys else [key for several in keys if several for key in several]
    return None


def _key_of(name: Column, column: Mapping[str, list[int]], keys: Columns) -> Column | None:
    """Returns the key that a field refers to, `None` if it refers to none."""
    if all(map(str.isdigit, column)) and not _says_reference(name[1]):
        return None  # numbers that are keys by accident
    first = next(iter(column))
    choices = [
        key
        for key, of in keys.items()
        if key != name
        and (first in of or first in _NOTHING)
        and all(value in of or value in _NOTHING for value in column)
        and 2 * sum(of[value][0] in column[value] for value in column if value in of) <= len(column)  # no second key
    ]

    def place(key: Column) -> tuple[bool, bool, bool]:
        stem = PurePath(key[0]).stem.lower().rstrip("s")
        return key[0] == name[0], not (stem and stem in name[1].lower()), not _says_reference(key[1])

    return min(choices, key=place, default=None)


def without_id(name: str) -> str:
    """Returns the name of a field that refers to a row without its ending: `maker` for `maker_id`, "" for `id`."""
    return re.sub(r"[_\s]*id$", "", name, flags=re.IGNORECASE)


def _is_called(field: str, key: Column) -> bool:
    """Returns whether a field is called like the key that it refers to, or like the table of the key."""
    called, table = folded(without_id(field)), folded(PurePath(key[0]).stem)
    is_key = _says_reference(key[1]) or folded(key[1]) in map(folded, GUESSES["id"])
    of_table = len(called) > 2 and table.startswith(called[:-1]) and len(table) <= len(called) + 2  # categories, makers
    return is_key and (of_table or folded(field) == folded(key[1]))


def _says_reference(name: str) -> bool:
    words = words_of(label_of(name))
    return bool(words) and (words[-1] in _REFERENCES or "".join(words) in PARENTS)


def _parts(pairs: Sequence[tuple[int, int]], rows: Rows, names: Names) -> Iterator[tuple[int, int]]:
    """Yields (part, owner) for rows of which one refers to the other, if either side has nothing but images."""
    referring, referred = {number for number, _ in pairs}, {number for _, number in pairs}
    if 5 * len(referring & referred) > min(len(referring), len(referred)):
        return
    if _are_parts(referring, referred, rows, names):
        yield from pairs
    elif _are_parts(referred, referring, rows, names) and len(pairs) <= _SHARED * len(referred):
        yield from ((referred, referring) for referring, referred in pairs)


def _are_parts(parts: set[int], owners: set[int], rows: Rows, names: Names) -> bool:
    with_image = sum(_has_image(rows[number]) for number in parts)
    with_text = sum(_has_text(rows[number]) for number in parts)
    titled = sum(is_titled(rows[number], names) for number in owners)
    if with_image < _MOST * len(parts) or with_text > (1 - _MOST) * len(parts) or titled < _MOST * len(owners):
        return False
    own_title = sum(is_titled(rows[number], names) and not is_image(rows[number]) for number in parts)
    return 2 * own_title < len(parts)


def is_titled(row: Mapping[str, Any], names: Names) -> bool:
    """Returns whether a row has a title, also by another name ("Scientific name"), unlike an agent's or a license's."""
    others = (name for name in named_titles(row) if not OF_OTHERS.search(name) and not RIGHTS.fullmatch(folded(name)))
    return has_title(row, names) or any(others)


def _title_of(row: Mapping[str, Any], names: Names) -> str:
    titles = (field_of(row, "title", names)[1], *map(row.get, named_titles(row)))
    return next((title for value in titles for title in texts_in(value)), "")


def _has_image(row: Mapping[str, Any]) -> bool:
    items = chain.from_iterable(value if isinstance(value, list) else [value] for value in row.values())
    return any(isinstance(item, str) and bool(pictures_in(item)) for item in items)


def _has_text(row: Mapping[str, Any]) -> bool:
    own = (value for name, value in row.items() if not RIGHTS.fullmatch(folded(str(name))))
    texts = [value for value in own if isinstance(value, str) and len(value) >= _SENTENCE]
    return any(len(text.split()) >= 8 for text in texts)  # unlike an address
