"""Records of one source that belong together: rows of one thing, images in records of their own, drafts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from indexes.knowledge.document import Block, Document, Picture
from indexes.knowledge.understanding.facts import scalar_of, texts_in, words_within
from indexes.knowledge.understanding.fields import Names, field_of, folded, looks_like_image
from indexes.knowledge.understanding.image_texts import pictures_in
from indexes.knowledge.understanding.references import PARENTS, parts_by_reference
from indexes.knowledge.understanding.settings import local_name
from indexes.knowledge.understanding.shapes import has_title
from indexes.knowledge.understanding.value_images import PARTS
from retriever.types import Entity

Entry = tuple[str, Document | Entity | ValueError]

UNPUBLISHED = "drafts and records that are not published"
_MOST_ROWS, _MOST_CHARACTERS, _OF_FIELD = 200_000, 1 << 25, 64
"""Rows, their characters, and those that a field counts for, up to which rows are held in memory to find references."""
_SAMPLE = 50
_LEVELS = 5
_KINDS = ("format", "type", "mimetype", "displaytemplate", "dcformat", "dctype", "mediatype")
_IMAGE = re.compile(r"image/[\w.+-]+|(?:still\s?)?image|photo(?:graph)?|picture", re.IGNORECASE)
_PUBLISHED = frozenset({"publish", "published", "inherit", "public", "live"})
_STATES = _PUBLISHED | {"draft", "private", "trash", "trashed", "pending", "future", "auto-draft", "archived", "hidden"}
_INTERNAL = ("nav_menu", "wp_", "custom_css", "revision", "oembed_cache", "customize_changeset", "user_request")
"""Beginnings of the types of WordPress' records that are no articles."""


def related(entries: Iterable[Entry], names: Names) -> Iterator[Entry]:
    """Yields the entries of one source, with those that belong to another one merged into it.

    - A row that goes on with the one before it is merged with it: it has the same id and no other title, like variants
      in exports of shops, or without ids both differ in nothing but their images.
    - A record that only has an image of another one, and is named by it or names it (`references`), is a part of this
      one: its values are in the list `values["_parts"]`.
    - Records that say that they are drafts, menus and the like become blocks of the kind `UNPUBLISHED`.

    Of larger sources than are held in memory, only rows that follow each other are merged, unless a field names a
    parent.
    """
    entries = iter(entries)
    held, size, keep = list[Entry](), 0, False
    for entry in entries:
        held.append(entry)
        if not _is_row(entry[1]):
            if not _is_outside(entry[1]):  # notes, pages and articles are no records
                break
            continue
        values = _values(entry[1])
        size += _OF_FIELD * len(values) + sum(len(value) for value in values.values() if isinstance(value, str))
        if not keep and (len(held) > _MOST_ROWS or size > _MOST_CHARACTERS):
            keep = _names_parents(held)
            if not keep:
                break
    else:
        held = list(_linked(held, names))
    yield from _joined(chain(held, entries), names)


def _is_row(document: Document | Entity | ValueError) -> bool:
    return isinstance(document, Document) and bool(document.values) and not document.parts


def _is_outside(document: Document | Entity | ValueError) -> bool:
    """Returns whether an entry is an error, or what a file holds besides its rows."""
    if isinstance(document, Document):
        return not document.values and all(getattr(part, "kind", "") for part in document.parts)
    return isinstance(document, ValueError)


def _values(document: Document | Entity | ValueError) -> Mapping[str, Any]:
    return document.values if isinstance(document, Document) else {}


def _names_parents(entries: list[Entry]) -> bool:
    return any(local_name(str(name)) in PARENTS for _, entry in entries[:_SAMPLE] for name in _values(entry))


def _linked(entries: list[Entry], names: Names) -> Iterator[Entry]:
    """Yields the entries that are no parts of others, each with its parts."""
    rows = {number: _values(entry) for number, (_, entry) in enumerate(entries) if _is_row(entry)}
    places = [where for where, _ in entries]
    hidden = _unpublished(rows)
    owners = parts_by_reference(places, rows, names) if len(rows) > 1 else {}
    for number, parent in _parents(rows, names).items():
        owners.setdefault(number, [parent])
    parts: dict[int, list[Any]] = {}
    for number, above in owners.items():
        for owner in above:
            parts.setdefault(owner, []).append(rows[number])
    for number, (where, entry) in enumerate(entries):
        above = owners.get(number, [])
        if all(owner in hidden for owner in above or [number]):
            yield where, _block(rows[number])
        elif number in parts and isinstance(entry, Document):
            yield where, replace(entry, values={**entry.values, PARTS: parts[number]})
        elif not above:
            yield where, entry


def _block(values: Mapping[str, Any]) -> Document:
    """Returns a record that is not published as a block, with its images, so that these are counted."""
    images = [url for value in values.values() if isinstance(value, str) for url, _ in pictures_in(value)]
    return Document(parts=[Block(words_within(values), tuple(map(Picture, dict.fromkeys(images))), UNPUBLISHED)])


def _unpublished(rows: Mapping[int, Mapping[str, Any]]) -> set[int]:
    """Returns the numbers of the rows that say that they are not published; none if all of them do."""
    states = {scalar_of(row.get("status")) for row in rows.values()} - {None}
    by_status = states <= _STATES and not states.isdisjoint(_PUBLISHED)
    hidden = set[int]()
    for number, row in rows.items():
        kind, status = _of_post(row, "posttype"), _of_post(row, "poststatus") or _of_post(row, "status")
        if kind:
            internal = kind.startswith(_INTERNAL) or kind == "attachment"
        else:
            internal = str(row.get("draft")).lower() == "true"
        if internal or ((kind or by_status) and status in _STATES and status not in _PUBLISHED):
            hidden.add(number)
    return hidden if len(hidden) < len(rows) else set()


def _of_post(row: Mapping[str, Any], field: str) -> str:
    return next((scalar_of(value) or "" for name, value in row.items() if local_name(str(name)) == field), "")


def _parents(rows: Mapping[int, Mapping[str, Any]], names: Names) -> dict[int, int]:
    """Returns the rows that name the id of another row as their parent, and are parts of it.

    A part has no title, or is an image, unless its parent is one, as in CollectionBuilder. Parts of parts belong to the
    highest row.
    """
    fields = {name for row in rows.values() for name in row if local_name(str(name)) in PARENTS}
    ids: dict[str, int] = {}
    for number, row in rows.items() if fields else ():
        if id := scalar_of(row.get("wp:post_id")) or scalar_of(field_of(row, "id", names)[1]):
            ids.setdefault(id, number)

    def above(number: int) -> int | None:
        row = rows[number]
        parent = next((ids[id] for name in sorted(fields) if (id := scalar_of(row.get(name))) in ids), None)
        if parent is None or parent == number:
            return None
        is_part = (is_image(row) and not is_image(rows[parent])) or not has_title(row, names)
        return parent if is_part else None

    parents: dict[int, int] = {}
    for number in rows if ids else ():
        whole = number
        for _ in range(_LEVELS):
            if (parent := above(whole)) is None:
                break
            whole = parent
        if whole != number:
            parents[number] = whole
    return parents


def is_image(row: Mapping[str, Any]) -> bool:
    """Returns whether a row says that it is an image: `image/jpeg`, `Image;StillImage`, an attachment with an image."""
    if _of_post(row, "posttype") == "attachment":
        return any(isinstance(value, str) and looks_like_image(value) for value in row.values())
    kinds = (str(value) for name, value in row.items() if folded(str(name)) in _KINDS)
    return any(_IMAGE.fullmatch(part.strip()) for kind in kinds for part in kind.split(";"))


def _joined(entries: Iterable[Entry], names: Names) -> Iterator[Entry]:
    """Yields entries, rows merged with those that continue them."""
    before: tuple[str, Document] | None = None
    for where, entry in entries:
        is_row = isinstance(entry, Document) and _is_row(entry)
        if before is not None and is_row and _goes_on(before[1].values, _values(entry), names):
            values = dict(before[1].values)
            values |= {name: _both(values.get(name), value) for name, value in _values(entry).items()}
            before = before[0], replace(before[1], values=values)
            continue
        if before is not None:
            yield before
            before = None
        if isinstance(entry, Document) and is_row:
            before = where, entry
        else:
            yield where, entry
    if before is not None:
        yield before


def _goes_on(before: Mapping[str, Any], row: Mapping[str, Any], names: Names) -> bool:
    titles = [next(texts_in(field_of(values, "title", names)[1]), None) for values in (before, row)]
    if titles[0] is None or (titles[1] is not None and titles[0] != titles[1]):
        return False
    ids = [scalar_of(field_of(values, "id", names)[1]) for values in (before, row)]
    if any(ids):
        return ids[0] == ids[1]
    filled = {name: value for name, value in row.items() if value not in (None, "", [])}
    new = [value for name, value in filled.items() if value not in (before.get(name), *_listed(before.get(name)))]
    return titles[0] == titles[1] and bool(new) and all(looks_like_image(str(value)) for value in new)


def _both(first: Any, second: Any) -> Any:
    """Returns the values of a field in two rows: a list if there are several."""
    values = _listed(first)
    values += [value for value in _listed(second) if value not in values]
    return values if len(values) > 1 else next(iter(values), None)


def _listed(value: Any) -> list[Any]:
    if value is None or value == "":
        return []
    return list(value) if isinstance(value, list) else [value]
