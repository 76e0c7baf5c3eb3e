"""References between records, told by their values: those of a field are keys of other records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from indexes.knowledge.image_keys import words_of
from indexes.knowledge.understanding.facts import label_of
from indexes.knowledge.understanding.fields import Names
from indexes.knowledge.understanding.image_texts import pictures_in
from indexes.knowledge.understanding.settings import local_name
from indexes.knowledge.understanding.shapes import has_title

PARENTS = frozenset({"parentid", "parentobjectid", "parentidentifier", "parent", "coreid", "postparent"})
"""Names of fields with the id of another record, as by `folded`, without the prefix of their namespace."""
_REFERENCES = frozenset({"id", "ids", "ref", "refs", "key", "keys", "parent", "handle", "code", "thumbnail"})
"""Last words of the names of fields whose numbers are keys, not counts."""
_NOTHING = ("", "0", "-1")
_LONGEST_KEY, _MOST_KEYS = 64, 100
_KEY = re.compile(r"[^\s,;|]+")
_SENTENCE, _WORDS = 60, 8  # fewest characters and words of a text that a record has of its own
_MOST = 0.8  # share of records of one kind that must be alike
_SHARED = 3  # most owners of a part on average; what more of them share is a category

Rows = Mapping[int, Mapping[str, Any]]


@dataclass(slots=True)
class _Column:
    """The values of a field: the numbers of the rows with each, and whether each row has just one, its own."""

    rows: dict[str, list[int]] = field(default_factory=dict)
    is_key: bool = True


def parts_by_reference(places: Sequence[str], rows: Rows, names: Names) -> dict[int, list[int]]:
    """Returns the rows that are parts of others, with these: they have an image, but no text of their own.

    A field refers to another, its key, if all of its values are values of the key, and those of the key are each one
    row's. The records on both sides must be others: rows that name rows of their own kind, such as the next one, remain
    what they are.

    Args:
        places: The place of each entry.
        rows: Values of entries, by the number of the entry.
        names: The names of fields that the user gives.
    """
    columns = _columns(places, rows)
    keys = {name: column.rows for name, column in columns.items() if column.is_key and len(column.rows) > 1}
    owners: dict[int, list[int]] = {}
    for name, column in columns.items():
        if local_name(name[1]) in PARENTS or (key := _key_of(name, column, keys)) is None:
            continue
        of = {value: numbers[0] for value, numbers in keys[key].items()}
        pairs = [(number, of[value]) for value, numbers in column.rows.items() if value in of for number in numbers]
        for part, owner in _parts(pairs, rows, names):
            if owner not in owners.setdefault(part, []):
                owners[part].append(owner)
    return {part: above for part, above in owners.items() if not any(owner in owners for owner in above)}


def _columns(places: Sequence[str], rows: Rows) -> dict[tuple[str, str], _Column]:
    """Returns the fields of each file whose values may be keys."""
    columns: dict[tuple[str, str], _Column] = {}
    others = set[tuple[str, str]]()
    for number, row in rows.items():
        file = places[number].partition(": ")[0]
        for name, value in row.items():
            if value is None or value == "" or (file, name) in others:
                continue
            keys = _keys_in(value)
            if keys is None:
                others.add((file, name))
                columns.pop((file, name), None)
                continue
            if (column := columns.get((file, name))) is None:
                column = columns[file, name] = _Column()
            column.is_key = column.is_key and len(keys) == 1
            for key in keys:
                if key in column.rows:
                    column.is_key = False
                    column.rows[key].append(number)
                else:
                    column.rows[key] = [number]
    return columns


def _keys_in(value: Any) -> list[str] | None:
    """Returns the keys in a value, `None` if it is something else."""
    if isinstance(value, bool | float):
        return None
    if isinstance(value, int):
        return [str(value)]
    if isinstance(value, str):
        value = value.strip()
        return [value] if len(value) <= _LONGEST_KEY and _KEY.fullmatch(value) else None
    if isinstance(value, list) and 0 < len(value) <= _MOST_KEYS:
        keys = [_keys_in(item) if isinstance(item, str | int) else None for item in value]
        return None if None in keys else [key for several in keys if several for key in several]
    return None


def _key_of(
    name: tuple[str, str], column: _Column, keys: Mapping[tuple[str, str], Mapping[str, list[int]]]
) -> tuple[str, str] | None:
    """Returns the key that a field refers to, `None` if it refers to none."""
    if all(map(str.isdigit, column.rows)) and not _says_reference(name[1]):
        return None  # numbers that are keys by accident
    first, *_ = column.rows
    choices = [
        key
        for key, of in keys.items()
        if key != name
        and (first in of or first in _NOTHING)
        and all(value in of or value in _NOTHING for value in column.rows)
        and not _is_same(column, of)
    ]

    def place(key: tuple[str, str]) -> tuple[bool, bool, bool]:
        stem = PurePath(key[0]).stem.lower().rstrip("s")
        return key[0] == name[0], not (stem and stem in name[1].lower()), not _says_reference(key[1])

    return min(choices, key=place, default=None)


def _says_reference(name: str) -> bool:
    words = words_of(label_of(name))
    return bool(words) and (words[-1] in _REFERENCES or "".join(words) in PARENTS)


def _is_same(column: _Column, key: Mapping[str, list[int]]) -> bool:
    """Returns whether rows mostly have the same value in both fields, as in a second key."""
    same = sum(key[value][0] in numbers for value, numbers in column.rows.items() if value in key)
    return 2 * same > len(column.rows)


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
    titled = sum(has_title(rows[number], names) for number in owners)
    if with_image < _MOST * len(parts) or with_text > (1 - _MOST) * len(parts) or titled < _MOST * len(owners):
        return False
    own_title = sum(has_title(rows[number], names) for number in parts)
    own_image = sum(_has_image(rows[number]) for number in owners)
    return 2 * own_title < len(parts) or 2 * own_image < len(owners)


def _has_image(row: Mapping[str, Any]) -> bool:
    return any(
        bool(pictures_in(item))
        for value in row.values()
        for item in (value if isinstance(value, list) else [value])
        if isinstance(item, str)
    )


def _has_text(row: Mapping[str, Any]) -> bool:
    texts = (value for value in row.values() if isinstance(value, str) and len(value) >= _SENTENCE)
    return any(len(text.split()) >= _WORDS for text in texts)
