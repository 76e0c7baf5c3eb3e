"""Which rows are one thing, and which field of all rows is the title, which the text, and which are sections."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from indexes.knowledge.formats.facts import EMPTY, LONGEST_FACT, facts_of, scalar_of, texts_in
from indexes.knowledge.formats.fields import GUESSES, Names, field_of, folded, looks_like_image
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.reading import Reading

Place = tuple[str, Any]  # where a row is, and the row, or the reason why there is none

PARTS = "_parts"  # the key for the rows that are parts of a row, such as its images
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


Row = Mapping[str, Any]

BESIDE = "_beside"  # the key for the subfolder of a row's file, relative to the knowledge base's folder
_LONGEST_NAME = 100
_PROSE, _WORDS = 60, 8
"""Fewest characters and words of the values of a field, on average, that may be the text without a usual name."""


def with_shape(reading: Reading, rows: Sequence[Row]) -> Reading:
    """Returns how to read rows like the given ones: with the names of their fields, and which fields are sections.

    Without a usual title, it is found by `_title_field`; without a usual text, the text is the longest prose.
    """
    names = dict(reading.names)
    if "title" not in names and rows and (title := _title_field(rows)):
        names["title"] = title
    if "text" not in names and rows and (text := _text_field(rows, names)):
        names["text"] = text
    return replace(reading, names=names, sections=_sections(rows))


def lifted(row: Row) -> Row:
    """Returns a row with the members of the only nested object that has a title, if the row itself has none.

    Examples are GeoJSON features ("properties"), entries of some content systems ("attributes", "fields"), and OAI-PMH
    records ("metadata").
    """
    if has_title(row):
        return row
    alone = ((name, one[0] if isinstance(one, list) and len(one) == 1 else one) for name, one in row.items())
    titled = [(name, one) for name, one in alone if isinstance(one, Mapping) and has_title(one)]
    if len(titled) != 1:
        return row
    ((name, inner),) = titled
    beside = {other: value for other, value in row.items() if other not in (name, "geometry") and value != "Feature"}
    return {**beside, **inner}


def _title_field(rows: Sequence[Row]) -> str:
    """Returns the title field of rows without a usual one; "" if they have a usual one or no candidate.

    It is the first field whose name ends with "name", "title" or "label" ("Airport name"), or else the first short text
    that differs from row to row, unlike a category; this may be a description.
    """
    first = rows[0]
    if has_title(lifted(first)) or any(folded(name) in map(folded, GUESSES["title"]) for name in first):
        return ""
    text = field_of(first, "text", {})[0]
    usual = {BESIDE, *(field_of(first, field, {})[0] for field in ("id", "url", "image"))}
    texts = [name for name, value in first.items() if name not in usual and isinstance(value, str) and _is_name(value)]
    texts = [name for name in texts if sum(bool(row.get(name)) for row in rows) >= len(rows) / 2]
    others = [name for name in texts if name != text]
    named = (name for name in others if folded(name).endswith(("title", "name", "label")))
    different = (name for name in (*others, *texts) if _differs(name, rows))
    return next(named, None) or next(different, None) or next(iter(others), "")


def _differs(name: str, rows: Sequence[Row]) -> bool:
    """Returns whether the values of a field are names, of which at least nine in ten are distinct."""
    values = [value for row in rows if isinstance(value := row.get(name), str) and value]
    return len(set(values)) >= 0.9 * len(values) and all(map(_is_name, values))


def _is_name(value: str) -> bool:
    words = any(map(str.isalpha, value)) and len(value) <= _LONGEST_NAME and value not in EMPTY
    return words and not looks_like_image(value) and "://" not in value


def _text_field(rows: Sequence[Row], names: Mapping[str, str]) -> str:
    """Returns the field with the longest prose if no row has a usual text, "" if there is none."""
    rows = [lifted(row) if "title" not in names else row for row in rows]
    if any(field_of(row, "text", names)[1] not in (None, "", [], {}) for row in rows):
        return ""
    texts = defaultdict[str, list[str]](list)
    for row in rows:
        taken = {field_of(row, field, names)[0] for field in ("id", "title", "url")}
        for name, value in row.items():
            if isinstance(value, str) and value.strip() and name not in taken and "://" not in value[:20]:
                texts[name].append(value)
    prose = {
        name: sum(map(len, values))
        for name, values in texts.items()
        if 2 * len(values) >= len(rows)
        and sum(map(len, values)) >= _PROSE * len(values)
        and sum(len(value.split()) for value in values) >= _WORDS * len(values)
        and 2 * len(set(values)) >= len(values)
    }
    return max(prose, key=prose.__getitem__, default="")


def _sections(rows: Sequence[Row]) -> Mapping[str, bool]:
    """Returns for each label of a fact whether all facts with it are sections, because one of them is long."""
    values = defaultdict[str, list[str]](list)
    for row in rows:
        for name, value in lifted(row).items():
            for label, fact in facts_of(str(name), value, Losses()):
                values[label].append(fact)
    return {label: any(len(fact) > LONGEST_FACT or "\n" in fact for fact in facts) for label, facts in values.items()}
