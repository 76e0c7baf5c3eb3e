"""Records of one source that belong together: rows of one thing, images in records of their own, drafts.

A value of a field that is the key of another record is a reference, told by the values of the whole column.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeGuard

from indexes.knowledge.document import Block, Document, Picture
from indexes.knowledge.understanding.facts import scalar_of, texts_in, words_within
from indexes.knowledge.understanding.fields import field_of, looks_like_image
from indexes.knowledge.understanding.image_texts import pictures_in
from indexes.knowledge.understanding.images import PARTS
from indexes.knowledge.understanding.references import (
    PARENTS,
    References,
    Rows,
    is_image,
    is_titled,
    of_post,
    without_id,
)
from indexes.knowledge.understanding.settings import local_name
from indexes.labeled_values import Names
from retriever.types import Entity

Entry = tuple[str, Document | Entity | ValueError]

UNPUBLISHED = "drafts and records that are not published"
_MOST_ROWS, _MOST_CHARACTERS = 200_000, 1 << 25  # of rows that are held in memory to find references
_PUBLISHED = frozenset({"publish", "published", "inherit", "public", "live"})
_STATES = _PUBLISHED | {"draft", "private", "trash", "trashed", "pending", "future", "auto-draft", "archived", "hidden"}
_OF_STATE = ("posttype", "poststatus", "status", "draft")  # names of fields, as by `local_name`
_INTERNAL = ("nav_menu", "wp_", "custom_css", "revision", "oembed_cache", "customize_changeset", "user_", "attachment")
"""Beginnings of the types of WordPress' records that are no articles."""


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
    references = References([where for where, _ in entries], rows, names)
    owners, titles = references.owners(), references.titles()
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
        elif isinstance(entry, Document) and (number in parts or (number in titles and not above)):
            values = _with_titles(entry.values, titles.get(number, {}))
            yield where, replace(entry, values=values | ({PARTS: parts[number]} if number in parts else {}))
        elif not above:
            yield where, entry


def _with_titles(values: Mapping[str, Any], titles: Mapping[str, str | list[str]]) -> dict[str, Any]:
    """Returns values with the titles that keys refer to: `maker` beside `maker_id`, `category` in its own place."""
    result = dict(values)
    for name, title in titles.items():
        short = without_id(name) or name
        if short == name or short not in values:
            result[short] = title
    return result


def _unpublished(rows: Rows) -> set[int]:
    """Returns the numbers of the rows that say that they are not published; none if all of them do."""
    states = {scalar_of(row.get("status")) for row in rows.values()} - {None}
    by_status = states <= _STATES and not states.isdisjoint(_PUBLISHED)
    hidden = set[int]()
    for number, row in rows.items():
        kind, status = of_post(row, "posttype"), of_post(row, "poststatus") or of_post(row, "status")
        internal = kind.startswith(_INTERNAL) if kind else str(row.get("draft")).lower() == "true"
        if internal or ((kind or by_status) and status in _STATES and status not in _PUBLISHED):
            hidden.add(number)
    return hidden if len(hidden) < len(rows) else set()


def _parents(rows: Rows, every: Iterable[str], names: Names) -> Iterator[tuple[int, int]]:
    """Yields (row, whole) for rows that name the id of another row as their parent, and are parts of it.

    A part has no title, or is an image, unless its parent is one, as in CollectionBuilder. Parts of parts belong to the
    highest row.
    """
    fields = sorted(name for name in every if local_name(str(name)) in PARENTS)
    ids: dict[str, int] = {}
    for number, row in rows.items() if fields else ():
        ids.setdefault(scalar_of(row.get("wp:post_id")) or scalar_of(field_of(row, "id", names)[1]) or "", number)
    above: dict[int, int] = {}
    for number, row in rows.items() if fields else ():
        parent = next((ids[id] for name in fields if (id := scalar_of(row.get(name))) and id in ids), number)
        is_part = (is_image(row) and not is_image(rows[parent])) or not is_titled(row, names)
        above |= {number: parent} if parent != number and is_part else {}
    for number, whole in above.items():
        for _ in range(5):  # levels of parts of parts
            whole = above.get(whole, whole)
        if whole != number:
            yield number, whole


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
