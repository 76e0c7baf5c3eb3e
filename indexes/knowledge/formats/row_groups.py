"""Rows that are one thing: those that continue the row before them, and those that name another row as their parent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from indexes.knowledge.formats.facts import scalar_of, texts_in
from indexes.knowledge.formats.fields import Names, field_of, folded, looks_like_image

Place = tuple[str, Any]
"""Where a row is, and the row, or the reason why there is none."""

PARTS = "_parts"
"""The key for the rows that are parts of a row, such as its images."""
_PARENTS = frozenset({"parentid", "parentobjectid", "parentidentifier", "parent"})
"""Names of fields with the id of another row, as by `folded`."""
_KINDS = ("format", "type", "mimetype", "displaytemplate", "dcformat", "dctype", "mediatype")
_IMAGE = re.compile(r"image/[\w.+-]+|(?:still\s?)?image|photo(?:graph)?|picture", re.IGNORECASE)
_SAMPLE = 50
_LEVELS = 5


def grouped(rows: Iterable[Place], names: Names) -> Iterator[Place]:
    """Yields rows, each merged with those that belong to it; a field with several values becomes a list.

    A row continues the one before it if it has the same id and no other title, like variants in shop exports, or if
    without ids both differ in nothing but their images. A row without a title, or an image, is a part of the row that
    it names as its parent, as in CollectionBuilder; tables with such a field are held in memory.
    """
    rows = iter(rows)
    sample = list(islice(rows, _SAMPLE))
    parents = {name for _, row in sample if isinstance(row, Mapping) for name in row if folded(str(name)) in _PARENTS}
    rows = chain(sample, rows)
    return _joined(_with_parts(list(rows), parents, names) if parents else rows, names)


def _with_parts(rows: list[Place], parents: set[str], names: Names) -> Iterator[Place]:
    """Yields the rows that are no parts, each with its parts."""
    of: dict[str, int] = {}
    for number, (_, row) in enumerate(rows):
        if isinstance(row, Mapping) and (id := scalar_of(field_of(row, "id", names)[1])):
            of.setdefault(id, number)

    def parent_of(number: int) -> int | None:
        row = rows[number][1]
        if not isinstance(row, Mapping):
            return None
        found = next((of[id] for name in parents if (id := scalar_of(row.get(name))) in of), None)
        if found is None or found == number:
            return None
        is_image = _is_image(row) and not _is_image(rows[found][1])
        return found if is_image or not has_title(row, names) else None

    parts: dict[int, list[Any]] = {}
    inside = set[int]()
    for number in range(len(rows)):
        whole = number
        for _ in range(_LEVELS):
            if (above := parent_of(whole)) is None:
                break
            whole = above
        if whole != number:
            parts.setdefault(whole, []).append(rows[number][1])
            inside.add(number)
    for number, (where, row) in enumerate(rows):
        if number not in inside:
            yield where, {**row, PARTS: parts[number]} if number in parts else row


def _is_image(row: Mapping[str, Any]) -> bool:
    """Returns whether a row says that it is an image: `image/jpeg`, `Image;StillImage`."""
    kinds = (str(value) for name, value in row.items() if folded(str(name)) in _KINDS)
    return any(_IMAGE.fullmatch(part.strip()) for kind in kinds for part in kind.split(";"))


def _joined(rows: Iterable[Place], names: Names) -> Iterator[Place]:
    """Yields rows, each merged with those that continue it."""
    before: Place | None = None
    for where, row in rows:
        if before is not None and _goes_on(before[1], row, names):
            more = {name: _both(before[1].get(name), value) for name, value in row.items()}
            before = before[0], {**before[1], **more}
            continue
        if before is not None:
            yield before
        before = where, row
    if before is not None:
        yield before


def _goes_on(before: Any, row: Any, names: Names) -> bool:
    if not (isinstance(before, Mapping) and isinstance(row, Mapping)) or not has_title(before, names):
        return False
    if any(isinstance(one.get("sections"), list) for one in (before, row)):  # the project's own format
        return False
    ids = [scalar_of(field_of(one, "id", names)[1]) for one in (before, row)]
    same_title = next(_titles(before, names), None) == next(_titles(row, names), None)
    if any(ids):
        return ids[0] == ids[1] and (same_title or not has_title(row, names))
    given = {name: value for name, value in row.items() if value not in (None, "", [])}
    new = [value for name, value in given.items() if value not in (before.get(name), *_values_of(before.get(name)))]
    return same_title and bool(new) and all(looks_like_image(str(value)) for value in new)


def has_title(row: Mapping[str, Any], names: Names | None = None) -> bool:
    """Returns whether a row has a title."""
    return any(_titles(row, names or {}))


def _titles(row: Mapping[str, Any], names: Names) -> Iterator[str]:
    return texts_in(field_of(row, "title", names)[1])


def _both(first: Any, second: Any) -> Any:
    """Returns the values of a field in two rows: a list if there are several."""
    values = _values_of(first)
    values += [one for one in _values_of(second) if one not in values]
    return values if len(values) > 1 else next(iter(values), None)


def _values_of(value: Any) -> list[Any]:
    if value is None or value == "":
        return []
    return list(value) if isinstance(value, list) else [value]
