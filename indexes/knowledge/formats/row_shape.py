"""Decides for all rows alike, from the first ones, which field is the title, which the text, and which are sections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from indexes.knowledge.formats.facts import EMPTY, LONGEST_FACT, facts_of
from indexes.knowledge.formats.fields import GUESSES, field_of, folded, looks_like_image
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.reading import Reading
from indexes.knowledge.formats.row_groups import has_title

Row = Mapping[str, Any]

BESIDE = "_beside"
"""The key for the subfolder of a row's file, relative to the knowledge base's folder."""
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
    return {**{other: value for other, value in row.items() if other not in (name, "geometry")}, **inner}


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
