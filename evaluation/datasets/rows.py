"""Rows of question files, read one at a time: every error names the file, the line and the field."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from evaluation.datasets.question import Item, LeftOut, Question
from indexes.formats.fields import unique_keys
from indexes.formats.streams import Stream, opened

_LONGEST_FIELD = 1 << 24  # E-VQA keeps whole sections in a field; the csv module stops at 128 KiB
_BOM = b"\xef\xbb\xbf"

R = TypeVar("R")
Row = dict[str, Any]


def questions(
    rows: Iterable[tuple[str, R | ValueError]], make: Callable[[R, str], Question | LeftOut], id_field: str = ""
) -> Iterator[Item]:
    """Yields what `make` makes of each row, and in place of a bad row its error.

    Args:
        rows: Where a row stands, and the row.
        make: Takes a row and where it stands; raises `ValueError`.
        id_field: The field that holds `Question.id`; two rows may not share it. Empty where ids are counted.
    """
    seen: set[str] = set()
    for where, row in rows:
        try:
            if isinstance(row, ValueError):
                raise row
            item = make(row, where)
            if id_field and isinstance(item, Question):
                if item.id in seen:
                    raise ValueError(f"{where}: field {id_field}: {item.id!r} stands in an earlier row too")
                seen.add(item.id)
            yield item
        except ValueError as error:
            yield error


def json_lines(path: Path) -> Iterator[tuple[str, Row | ValueError]]:
    """Yields the objects of a JSON-lines file, also packed, with where they stand; blank lines are none.

    Raises:
        ValueError: The file cannot be read.
    """
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                where = f"{path}: line {number}"
                yield where, _json_object(line, number, where)


def csv_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str] | ValueError]]:
    """Yields the rows of a CSV file by its header, each with the line that it begins in.

    Raises:
        ValueError: The file cannot be read, its header lacks one of `columns`, or it is no CSV in UTF-8.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    with _open(path) as file:
        lines = (_decoded(line, number, f"{path}: line {number}") for number, line in enumerate(file, start=1))
        reader = csv.reader(lines, strict=True)
        start = 1
        try:
            header = [column.strip() for column in next(reader, [])]
            _check_header(header, columns, path)
            start = reader.line_num + 1
            for values in reader:
                where = f"{path}: line {start}"
                start = reader.line_num + 1
                if len(values) == len(header):
                    yield where, dict(zip(header, values, strict=True))
                elif values:
                    found = f"{len(values)} fields where the header has {len(header)}"
                    yield where, ValueError(f"{where}: not as many fields as the header has columns ({found})")
        except csv.Error as error:
            raise ValueError(f"{path}: line {start}: not CSV ({error}); is the file cut short?") from error


def json_file(path: Path) -> Row:
    """Returns the one JSON object that a file holds, read whole.

    Raises:
        ValueError: The file cannot be read or holds something else.
    """
    with _open(path) as file:
        found = _json_object(file.read(), 1, str(path))
    if isinstance(found, ValueError):
        raise found
    return found


def text(row: Mapping[str, Any], field: str, where: str) -> str:
    """Returns a field that is text and not empty, without spaces around it.

    Raises:
        ValueError: It is missing, empty or something else.
    """
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where}: field {field}: a text that is not empty is needed, not {value!r}")
    return _whole(value.strip(), field, where)


def optional_text(row: Mapping[str, Any], field: str, where: str) -> str:
    """Returns a field that is text, "" where it is absent, null or empty.

    Raises:
        ValueError: It is something else.
    """
    return "" if row.get(field) in (None, "") else text(row, field, where)


def name(row: Mapping[str, Any], field: str, where: str) -> str:
    """Returns a field that names something: text, or a whole number as text.

    Raises:
        ValueError: It is something else.
    """
    value = row.get(field)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else text(row, field, where)


def alternatives(row: Mapping[str, str], field: str, where: str) -> tuple[str, ...]:
    """Returns the parts of a text between `|`, at least one.

    Raises:
        ValueError: There is none.
    """
    parts = tuple(part.strip() for part in text(row, field, where).split("|") if part.strip())
    if not parts:
        raise ValueError(f"{where}: field {field}: nothing but separators")
    return parts


def texts(values: object, field: str, where: str) -> tuple[str, ...]:
    """Returns a list of texts and numbers as texts, at least one and none of them empty.

    Raises:
        ValueError: It is something else.
    """
    listed = values if isinstance(values, list) else [values]
    good = [str(v).strip() for v in listed if isinstance(v, str | int | float) and not isinstance(v, bool)]
    if not good or not all(good) or len(good) != len(listed):
        raise ValueError(f"{where}: field {field}: a list of texts that are not empty is needed, not {values!r}")
    return tuple(_whole(value, field, where) for value in good)


@contextmanager
def _open(path: Path) -> Iterator[Stream]:
    try:
        with opened(path) as file:
            yield file
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error


def _decoded(line: bytes, number: int, where: str) -> str:
    try:
        return (line.removeprefix(_BOM) if number == 1 else line).decode()
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} of it is 0x{line[error.start]:02x}"
        raise ValueError(f"{where}: not UTF-8 ({byte}); convert the file to UTF-8") from error


def _json_object(line: bytes, number: int, where: str) -> Row | ValueError:
    try:
        row = json.loads(_decoded(line, number, where), object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        return ValueError(f"{where}: not JSON ({error}); is the file cut short?")
    except (ValueError, RecursionError) as error:
        return ValueError(str(error) if where in str(error) else f"{where}: {error}")
    return row if isinstance(row, dict) else ValueError(f"{where}: not a JSON object")


def _check_header(header: Sequence[str], columns: Sequence[str], path: Path) -> None:
    missing = [column for column in columns if column not in header]
    if missing:
        raise ValueError(f"{path}: line 1: no column {', '.join(missing)}; the file needs a header that names it")
    twice = sorted({column for column in header if header.count(column) > 1})
    if twice:
        raise ValueError(f"{path}: line 1: the column {', '.join(twice)} stands twice; drop one")


def _whole(value: str, field: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:  # JSON can spell half a surrogate pair, which no tokenizer takes
        raise ValueError(f"{where}: field {field}: not valid Unicode ({error.reason})") from error
    return value
