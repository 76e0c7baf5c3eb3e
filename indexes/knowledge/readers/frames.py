"""Layouts in which data frames are saved: by columns, with the names of columns apart, and with labels of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from indexes.knowledge.understanding.fields import GUESSES, field_of, folded

_USUAL = frozenset(folded(name) for names in GUESSES.values() for name in names)
_ROWS = ("data", "rows", "values")


def is_usual(name: object) -> bool:
    """Returns whether a name is one of the usual names of an entity's fields."""
    return isinstance(name, str) and folded(name) in _USUAL


def rows_in(value: Mapping[str, Any]) -> Iterator[Any] | None:
    """Returns the rows of a data frame in an object, or `None` if it is not one.

    Known are columns of labels and values or of lists (`{"title": {"0": …}}`, `{"title": […]}`), columns named apart
    (`{"columns": […], "data": [[…]]}`), and a list of objects with its schema.
    """
    names, schema = value.get("columns"), value.get("schema")
    lists = next((value[name] for name in _ROWS if isinstance(value.get(name), list)), None)
    if lists is not None and isinstance(schema, Mapping) and isinstance(schema.get("fields"), list):
        return _without_index(lists) if schema.get("primaryKey") == ["index"] else iter(lists)
    if isinstance(names, list) and lists is not None and all(isinstance(row, list) for row in lists):
        labels = value.get("index")
        labels = labels if isinstance(labels, list) and len(labels) == len(lists) else [None] * len(lists)
        return labeled(zip(labels, (_named(names, row) for row in lists), strict=True))
    if are_columns(value):
        first = next(iter(value.values()))
        return labeled((label, {name: column[label] for name, column in value.items()}) for label in first)
    columns = list(value.values())
    if columns and all(isinstance(one, list) and _are_plain(one) and len(one) == len(columns[0]) for one in columns):
        return (dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True))
    return None


def are_columns(value: Mapping[str, Any]) -> bool:
    """Returns whether an object's members are columns, with the same labels and plain values, not entries with fields.

    The names decide: those of columns are usual ones, or labels count rows. Otherwise, the values of a column have one
    type, and those of an entry have several.
    """
    members = list(value.values())
    if not members or not all(isinstance(one, Mapping) and one and _are_plain(one.values()) for one in members):
        return False
    labels = list(members[0])
    if any(list(member) != labels for member in members) or any(map(is_usual, labels)):
        return False
    if _count_rows(labels) or any(map(is_usual, value)):
        return True
    kinds = [{type(item) for item in member.values() if item is not None} for member in members]
    return all(len(kind) <= 1 for kind in kinds) and len(set[type]().union(*kinds)) > 1


def of_lists(rows: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yields rows with their places; if the first is a list of names, the others are the values of these fields.

    Raises:
        ValueError: The rows are lists without the names of their fields.
    """
    rows = iter(rows)
    for where, names in rows:
        if not isinstance(names, list):
            yield from chain([(where, names)], rows)
        elif all(isinstance(name, str) for name in names) and any(map(is_usual, names)):
            yield from ((place, _named(names, row) if isinstance(row, list) else row) for place, row in rows)
        else:
            raise ValueError(
                f"{where}: a list of values without the names of their fields; write objects instead, as pandas does "
                'with to_json(orient="records")'
            )


def labeled(rows: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
    """Yields rows with their labels: ids, or names if the first rows have no title; numbers of rows are left out."""
    rows = iter(rows)
    first = list(islice(rows, 2))
    objects = [row for _, row in first if isinstance(row, Mapping)]
    if not objects or _count_rows([label for label, row in first if isinstance(row, Mapping)]):
        yield from (row for _, row in chain(first, rows))
        return
    name = "name" if all(field_of(row, "title", {})[1] is None for row in objects) else "id"
    name = "index" if any(name in row for row in objects) else name
    for label, row in chain(first, rows):
        yield {name: label, **row} if isinstance(row, Mapping) and label not in (None, "") else row


def _count_rows(labels: Sequence[Any]) -> bool:
    """Returns whether labels count from 0 or 1, or are absent."""
    texts = [str(label) for label in labels]
    counts = any(texts == [str(start + number) for number in range(len(texts))] for start in (0, 1))
    return counts or all(label is None for label in labels)


def _without_index(rows: Sequence[Any]) -> Iterator[Any]:
    objects = (dict(row) for row in rows if isinstance(row, Mapping))
    return labeled((row.pop("index", None), row) for row in objects)


def _named(names: Sequence[Any], values: Sequence[Any]) -> dict[str, Any] | ValueError:
    if len(values) > len(names):
        return ValueError(f"{len(values)} values, but {len(names)} names of fields")
    words = [" ".join(map(str, name)) if isinstance(name, list) else str(name) for name in names]
    return dict(zip(words, values, strict=False))


def _are_plain(values: Iterable[Any]) -> bool:
    return not any(isinstance(value, Mapping) for value in values)
