"""Records of one source that belong together: rows of one thing, images in records of their own, drafts.

A value of a field that is the key of another record is a reference, told by the values of the whole column.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePath
from typing import Any, TypeGuard

from indexes.knowledge.document import Block, Document, Picture
from indexes.knowledge.image_names import words_of
from indexes.knowledge.understanding.facts import label_of, scalar_of, texts_in, words_within
from indexes.knowledge.understanding.fields import field_of, looks_like_image
from indexes.knowledge.understanding.image_texts import OF_OTHERS, pictures_in
from indexes.knowledge.understanding.images import PARTS
from indexes.knowledge.understanding.settings import RIGHTS, local_name
from indexes.knowledge.understanding.shapes import has_title, named_titles
from indexes.labeled_values import Names, folded
from retriever.types import Entity

Entry = tuple[str, Document | Entity | ValueError]
Rows = Mapping[int, Mapping[str, Any]]
Column = tuple[str, str]  # the file and the name of a field
Columns = dict[Column, dict[str, list[int]]]  # the numbers of the rows with each value of a field

UNPUBLISHED = "drafts and records that are not published"
_MOST_ROWS, _MOST_CHARACTERS = 200_000, 1 << 25  # of rows that are held in memory to find references
_KINDS = ("format", "type", "mimetype", "displaytemplate", "dcformat", "dctype", "mediatype")
_IMAGE = re.compile(r"image/[\w.+-]+|(?:still\s?)?image|photo(?:graph)?|picture", re.IGNORECASE)
_PUBLISHED = frozenset({"publish", "published", "inherit", "public", "live"})
_STATES = _PUBLISHED | {"draft", "private", "trash", "trashed", "pending", "future", "auto-draft", "archived", "hidden"}
_OF_STATE = ("posttype", "poststatus", "status", "draft")  # names of fields, as by `local_name`
_INTERNAL = ("nav_menu", "wp_", "custom_css", "revision", "oembed_cache", "customize_changeset", "user_", "attachment")
"""Beginnings of the types of WordPress' records that are no articles."""
_PARENTS = frozenset({"parentid", "parentobjectid", "parentidentifier", "parent", "coreid", "postparent"})
"""Names of fields with the id of another record, as by `local_name`."""
_REFERENCES = frozenset({"id", "ids", "ref", "refs", "key", "keys", "parent", "handle", "code", "thumbnail"})
"""Last words of the names of fields whose numbers are keys, not counts."""
_NOTHING, _MOST_KEYS, _KEY = ("", "0", "-1"), 100, re.compile(r"[^\s,;|]{1,64}")
_SENTENCE, _MOST, _SHARED = 60, 0.8, 3
"""Fewest characters of a text that a record has of its own; share of records of one kind that must be alike; most
owners of a part, on average: more share a category."""


def related(entries: Iterable[Entry], names: Names) -> Iterator[Entry]:
    """Yields the entries of one source, with those that belong to another one merged into it.

    - A row that goes on with the one before it is merged with it: it has the same id and no other title, like variants
      in exports of shops, or without ids both differ in nothing but their images.
    - A record that only has an image of another one, and is named by it or names it, is a part of this one: its values
      are in the list `values["_parts"]`.
    - Records that say that they are drafts, menus and the like become blocks of the kind `UNPUBLISHED`.

    Of larger sources than are held in memory, only rows that follow each other are merged.
    """
    entries, held, size = iter(entries), list[Entry](), 0
    for where, entry in entries:
        held.append((where, entry))
        if isinstance(entry, Document) and entry.parts and any(not getattr(part, "kind", "") for part in entry.parts):
            break  # notes and pages are no records
        if isinstance(entry, Document):
            # a value takes some memory itself
            size += sum(64 + (len(value) if type(value) is str else 0) for value in entry.values.values())
        if isinstance(entry, Entity) or len(held) > _MOST_ROWS or size > _MOST_CHARACTERS:
            break
    else:
        held = list(_linked(held, names))
    yield from _joined(chain(held, entries), names)


def _is_row(entry: Document | Entity | ValueError) -> TypeGuard[Document]:
    return isinstance(entry, Document) and bool(entry.values) and not entry.parts


def _linked(entries: list[Entry], names: Names) -> Iterator[Entry]:
    """Yields the entries that are no parts of others, each with its parts."""
    rows = {number: entry.values for number, (_, entry) in enumerate(entries) if _is_row(entry)}
    fields = set(chain.from_iterable({tuple(row) for row in rows.values()}))
    hidden = _unpublished(rows) if any(local_name(str(name)) in _OF_STATE for name in fields) else set()
    owners = _parts_by_reference([where for where, _ in entries], rows, names) if len(rows) > 1 else {}
    for number, parent in _parents(rows, fields, names):
        owners.setdefault(number, [parent])
    parts = defaultdict[int, list[Any]](list)
    for number, above in owners.items():
        for owner in above:
            parts[owner].append(rows[number])
    for number, (where, entry) in enumerate(entries):
        above = owners.get(number, [])
        if all(owner in hidden for owner in above or [number]):
            values = rows[number]
            images = [url for value in values.values() if isinstance(value, str) for url, _ in pictures_in(value)]
            block = Block(words_within(values), tuple(map(Picture, dict.fromkeys(images))), UNPUBLISHED)
            yield where, Document(parts=[block])
        elif number in parts and isinstance(entry, Document):
            yield where, replace(entry, values={**entry.values, PARTS: parts[number]})
        elif not above:
            yield where, entry


def _unpublished(rows: Rows) -> set[int]:
    """Returns the numbers of the rows that say that they are not published; none if all of them do."""
    states = {scalar_of(row.get("status")) for row in rows.values()} - {None}
    by_status = states <= _STATES and not states.isdisjoint(_PUBLISHED)
    hidden = set[int]()
    for number, row in rows.items():
        kind, status = _of_post(row, "posttype"), _of_post(row, "poststatus") or _of_post(row, "status")
        internal = kind.startswith(_INTERNAL) if kind else str(row.get("draft")).lower() == "true"
        if internal or ((kind or by_status) and status in _STATES and status not in _PUBLISHED):
            hidden.add(number)
    return hidden if len(hidden) < len(rows) else set()


def _of_post(row: Mapping[str, Any], field: str) -> str:
    return next((scalar_of(value) or "" for name, value in row.items() if local_name(str(name)) == field), "")


def _parents(rows: Rows, every: Iterable[str], names: Names) -> Iterator[tuple[int, int]]:
    """Yields (row, whole) for rows that name the id of another row as their parent, and are parts of it.

    A part has no title, or is an image, unless its parent is one, as in CollectionBuilder. Parts of parts belong to the
    highest row.
    """
    fields = sorted(name for name in every if local_name(str(name)) in _PARENTS)
    ids: dict[str, int] = {}
    for number, row in rows.items() if fields else ():
        ids.setdefault(scalar_of(row.get("wp:post_id")) or scalar_of(field_of(row, "id", names)[1]) or "", number)
    above: dict[int, int] = {}
    for number, row in rows.items() if fields else ():
        parent = next((ids[id] for name in fields if (id := scalar_of(row.get(name))) and id in ids), number)
        is_part = (_is_image(row) and not _is_image(rows[parent])) or not _is_titled(row, names)
        above |= {number: parent} if parent != number and is_part else {}
    for number, whole in above.items():
        for _ in range(5):  # levels of parts of parts
            whole = above.get(whole, whole)
        if whole != number:
            yield number, whole


def _is_image(row: Mapping[str, Any]) -> bool:
    """Returns whether a row says that it is an image: `image/jpeg`, `Image;StillImage`, an attachment with an image."""
    if _of_post(row, "posttype") == "attachment":
        return any(isinstance(value, str) and looks_like_image(value) for value in row.values())
    kinds = (str(value) for name, value in row.items() if folded(str(name)) in _KINDS)
    return any(_IMAGE.fullmatch(part.strip()) for kind in kinds for part in kind.split(";"))


def _parts_by_reference(places: Sequence[str], rows: Rows, names: Names) -> dict[int, list[int]]:
    """Returns the rows that are parts of others, with these: they have an image, but no text of their own.

    A field refers to another, its key, if all of its values are values of the key, and those of the key are each one
    row's. Rows that name rows of their own kind, such as the next one, remain what they are.
    """
    columns, keys = _columns(places, rows)
    owners: dict[int, list[int]] = {}
    for name, column in columns.items():
        if local_name(name[1]) in _PARENTS or (key := _key_of(name, column, keys)) is None:
            continue
        of = keys[key]
        pairs = [(number, of[value][0]) for value, numbers in column.items() if value in of for number in numbers]
        for part, owner in _parts(pairs, rows, names):
            if owner not in owners.setdefault(part, []):
                owners[part].append(owner)
    return {part: above for part, above in owners.items() if not any(owner in owners for owner in above)}


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


def _says_reference(name: str) -> bool:
    words = words_of(label_of(name))
    return bool(words) and (words[-1] in _REFERENCES or "".join(words) in _PARENTS)


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
    titled = sum(_is_titled(rows[number], names) for number in owners)
    if with_image < _MOST * len(parts) or with_text > (1 - _MOST) * len(parts) or titled < _MOST * len(owners):
        return False
    own_title = sum(_is_titled(rows[number], names) and not _is_image(rows[number]) for number in parts)
    return 2 * own_title < len(parts)


def _is_titled(row: Mapping[str, Any], names: Names) -> bool:
    """Returns whether a row has a title, also by another name ("Scientific name"), unlike an agent's or a license's."""
    others = (name for name in named_titles(row) if not OF_OTHERS.search(name) and not RIGHTS.fullmatch(folded(name)))
    return has_title(row, names) or any(others)


def _has_image(row: Mapping[str, Any]) -> bool:
    items = chain.from_iterable(value if isinstance(value, list) else [value] for value in row.values())
    return any(isinstance(item, str) and bool(pictures_in(item)) for item in items)


def _has_text(row: Mapping[str, Any]) -> bool:
    own = (value for name, value in row.items() if not RIGHTS.fullmatch(folded(str(name))))
    texts = [value for value in own if isinstance(value, str) and len(value) >= _SENTENCE]
    return any(len(text.split()) >= 8 for text in texts)  # unlike an address


def _joined(entries: Iterable[Entry], names: Names) -> Iterator[Entry]:
    """Yields entries, rows merged with those that continue them."""
    rows = list[tuple[str, Document]]()
    for where, entry in entries:
        if rows and _is_row(entry) and _goes_on(rows[0][1].values, entry.values, names):
            rows.append((where, entry))
            continue
        yield from [_merged(rows)] if rows else []
        rows = [(where, entry)] if _is_row(entry) else []
        yield from [] if rows else [(where, entry)]
    if rows:
        yield _merged(rows)


def _goes_on(first: Mapping[str, Any], row: Mapping[str, Any], names: Names) -> bool:
    titles = [next(texts_in(field_of(values, "title", names)[1]), None) for values in (first, row)]
    if titles[0] is None or (titles[1] is not None and titles[0] != titles[1]):
        return False
    ids = {scalar_of(field_of(values, "id", names)[1]) for values in (first, row)}
    if ids != {None}:
        return len(ids) == 1
    new = [value for name, value in row.items() if value not in (None, "", [], first.get(name))]
    return titles[0] == titles[1] and bool(new) and all(looks_like_image(str(value)) for value in new)


def _merged(rows: Sequence[tuple[str, Document]]) -> tuple[str, Document]:
    """Returns rows of one thing as one; a field with several values has a list of them."""
    where, first = rows[0]
    if len(rows) == 1:
        return where, first
    fields = defaultdict[str, dict[str, Any]](dict)
    for _, row in rows:
        for name, value in row.values.items():
            items = value if isinstance(value, list) else [value]
            fields[name] |= {repr(item): item for item in items if item is not None and item != ""}
    listed: dict[str, list[Any]] = {name: [*items.values()] for name, items in fields.items()}
    values = {name: items if len(items) > 1 else [*items, None][0] for name, items in listed.items()}
    return where, replace(first, values=values)
