"""What the readers of rows share: JSON's types, what is beside the rows of a file, and layouts of data frames."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from indexes.knowledge.document import Block, Document
from indexes.knowledge.readers import Entry, Folder
from indexes.knowledge.understanding.facts import texts_in
from indexes.knowledge.understanding.fields import GUESSES, field_of, looks_like_image
from indexes.labeled_values import folded

_IMAGE = re.compile(
    rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF.{4}WEBP|BM.{4}\0{4}|II\*\0|MM\0\*|.{4}ftyp(?:avi|hei|mif)|\s*<(?:svg|\?xml|!--)",
    re.DOTALL,
)
Row = Mapping[str, Any]
NO_ROWS = "files without rows"
_FRAME = ("data", "rows", "values")  # names for the rows of a data frame
_USUAL = frozenset(folded(name) for names in GUESSES.values() for name in names)


def is_image(content: bytes) -> bool:
    """Returns whether bytes begin like an image; the first 64 are enough."""
    return _IMAGE.match(content) is not None


def is_usual(name: object) -> bool:
    """Returns whether a name is one of the usual names of an entity's fields."""
    return isinstance(name, str) and folded(name) in _USUAL


def is_titled(row: Mapping[str, Any]) -> bool:
    """Returns whether a row has a title under one of its usual names."""
    return field_of(row, "title", {})[1] is not None


def has_image(row: Row) -> bool:
    """Returns whether a row names an image, under a usual name or another."""
    return field_of(row, "image", {})[1] is not None or any(map(looks_like_image, words_within(row).split()))


def json_value(value: Any) -> Any:
    """Returns a value as one of JSON's types: dates, times and decimal numbers become text."""
    if isinstance(value, Mapping):
        return {str(name): json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def unpacked(row: Row) -> Row:
    """Returns the properties of a feature of GeoJSON (RFC 7946), or the fields of a record of Django; others as is.

    They get the feature's id or the record's key, and lose the feature's geometry.
    """
    if model_of(row):
        return {"id": row.get("pk"), **row["fields"]}
    properties = row.get("properties")
    if row.get("type") != "Feature" or not isinstance(properties, Mapping):
        return row
    return {name: row[name] for name in row if name not in ("type", "properties", "geometry", "bbox")} | {**properties}


def model_of(row: Row) -> str:
    """Returns the model of a record that Django's `dumpdata` wrote, such as `shop.product`; "" for other rows."""
    is_record = row.keys() <= {"model", "pk", "fields"} and isinstance(row.get("fields"), Mapping)
    return str(row.get("model", "")) if is_record else ""


def share_fields(row: Row, other: Row) -> bool:
    """Returns whether two rows have most of their fields in common."""
    return 2 * len(row.keys() & other.keys()) >= len(row.keys() | other.keys())


def group_in(value: Any) -> tuple[str, Sequence[Any]] | None:
    """Returns the title and the members of a group: an object with nothing but these, or a list of objects.

    A group may be empty; `None` is returned for other values, such as an article with its sections or images.
    """
    title = ""
    if isinstance(value, Mapping):
        filled = {name: item for name, item in value.items() if item not in (None, "", [], {})}
        title = str(filled.pop(field_of(filled, "title", {})[0], ""))
        name, members = next(iter(filled.items()), ("", None if not title else []))
        value = None if len(filled) > 1 or folded(name) == "sections" or is_usual(name) else members
    return (title, value) if isinstance(value, list) and all(isinstance(item, Mapping) for item in value) else None


def ungrouped(rows: Sequence[Any]) -> Sequence[Any]:
    """Returns the rows in groups, at all levels, if they are things: most titles occur once, unlike those of parts."""
    inner = [("", row) for row in rows]
    while inner and all(groups := [group_in(row) for _, row in inner]):
        pairs = zip(inner, filter(None, groups), strict=True)
        inner = [(", ".join(filter(None, (above, name))), row) for (above, _), (name, group) in pairs for row in group]
    titles = [folded(str(field_of(row, "title", {})[1])) for _, row in inner if isinstance(row, Mapping)]
    if not rows or group_in(rows[0]) is None or 2 * len({*titles}) <= len(inner):
        return rows
    if not are_things([row for _, row in inner]):
        return rows
    return [in_group(row, name) for name, row in inner]


def are_things(rows: Sequence[Any]) -> bool:
    """Returns whether most rows have a title and an image, an address or a text."""
    titled = [row for row in rows if isinstance(row, Mapping) and is_titled(row)]
    words = ("://" if field_of(row, "text", {})[1] else words_within(row) for row in titled)
    return 2 * sum("://" in text or any(map(looks_like_image, text.split())) for text in words) > len(rows)


def in_group(row: Row, group: str) -> Row:
    """Returns a row with the name of its group, if it has one that is not the row's title."""
    title = next(texts_in(field_of(row, "title", {})[1]), "")
    return {"group": group, **row} if group and folded(group) != folded(title) else row


def words_within(value: Any) -> str:
    """Returns all words in a value, for counting; it may be nested deeper than Python's stack."""
    words, waiting = list[str](), [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list | Mapping):
            waiting += reversed(list(value.values()) if isinstance(value, Mapping) else value)
        elif value not in (None, ""):
            words.append(str(value))
    return " ".join(words)


def outside(words: str, kind: str) -> Document:
    """Returns a document of what a file holds besides its rows, which is no row."""
    return Document(parts=[Block(words, kind=kind)])


def no_rows(value: Any, file: Path, folder: Folder, why: str) -> Entry:
    """Returns the words of a file without rows as left out: if there are other files, those have the entities.

    Raises:
        ValueError: There are no other files.
    """
    if folder.is_alone:
        raise ValueError(f"{file}: {why}")
    return str(file), outside(words_within(value), NO_ROWS)


def neighbors(file: Path, folder: Folder) -> list[Path]:
    """Returns the files before and after one, among those with its extension."""
    files, places = _places(folder)
    place = places.get(file, 0)
    return [*files[max(place - 1, 0) : place], *files[place + 1 : place + 2]]


@lru_cache(maxsize=1)
def _places(folder: Folder) -> tuple[list[Path], Mapping[Path, int]]:
    files = sorted(folder.files, key=lambda file: file.suffix)
    return files, {file: place for place, file in enumerate(files)}


def id_of(file: Path, folder: Folder) -> str:
    """Returns the id of the only row in a file: its path without the extension."""
    return file.relative_to(folder.root).with_suffix("").as_posix()


def labeled(rows: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
    """Yields rows with their labels: ids, or names if the first rows have no title; numbers of rows are left out."""
    rows = iter(rows)
    first = list(islice(rows, 2))
    objects = [(label, row) for label, row in first if isinstance(row, Mapping)]
    if _count_rows([label for label, _ in objects]):
        yield from (row for _, row in chain(first, rows))
        return
    name = "id" if any(is_titled(row) for _, row in objects) else "name"
    name = "index" if any(name in row for _, row in objects) else name
    for label, row in chain(first, rows):
        yield {name: label, **row} if isinstance(row, Mapping) and label not in (None, "") else row


def _count_rows(labels: Sequence[Any]) -> bool:
    """Returns whether labels count from 0 or 1, or are absent."""
    texts = [str(label) for label in labels]
    counts = any(texts == [str(start + number) for number in range(len(texts))] for start in (0, 1))
    return counts or all(label is None for label in labels)


def rows_in(value: Mapping[str, Any]) -> Iterator[Any] | None:
    """Returns the rows of a data frame in an object, or `None` if it is not one.

    Known are columns of labels and values or of lists (`{"title": {"0": …}}`, `{"title": […]}`), and a list of objects
    with its schema or columns; those of lists are refused (`of_lists`).
    """
    schema = value.get("schema")
    fields = schema.get("fields") if isinstance(schema, Mapping) else value.get("columns")
    lists: list[Any] | None = next((value[name] for name in _FRAME if isinstance(value.get(name), list)), None)
    if lists is not None and isinstance(fields, list):
        return iter(lists)
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
    """Yields rows with their places.

    Raises:
        ValueError: The first row is a list, without the names of its fields.
    """
    for number, (where, row) in enumerate(rows):
        if number == 0 and isinstance(row, list):
            advice = 'write objects instead, as pandas does with to_json(orient="records")'
            raise ValueError(f"{where}: a list of values without the names of their fields; {advice}")
        yield where, row


def _are_plain(values: Iterable[Any]) -> bool:
    return not any(isinstance(value, Mapping) for value in values)
