"""Reads rows of question files one at a time; every error names the file, line and field."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from evaluation.datasets.question import Item, Question, SkippedRow
from indexes.decoding import Stream, not_utf8, opened_text
from indexes.delimited import ABOVE, header_in
from indexes.json_streams import read_items, starts_with, unreadable_value
from retriever.arrays import parse_literal
from retriever.strict_json import unique_keys

_LONGEST_FIELD = 1 << 24  # E-VQA keeps whole sections in a field; the csv module stops at 128 KiB
_SHOWN = 300  # characters of a header in a message
_BOM = b"\xef\xbb\xbf"

R = TypeVar("R")
Row = dict[str, Any]


def questions(
    rows: Iterable[tuple[str, R | ValueError]], make: Callable[[R, str], Question | SkippedRow], id_field: str = ""
) -> Iterator[Item]:
    """Yields the item that `make` builds from each row, or the error of an invalid row.

    Args:
        rows: The place and content of each row.
        make: Builds the item from a row and its place; raises `ValueError`.
        id_field: The field that holds `Question.id`, which must be unique; empty if ids are row numbers.
    """
    seen: set[str] = set()
    for where, row in rows:
        try:
            if isinstance(row, ValueError):
                raise row
            item = make(row, where)
            if id_field and isinstance(item, Question):
                if item.id in seen:
                    raise ValueError(f"{where}: field {id_field}: {item.id!r} is also in an earlier row")
                seen.add(item.id)
            yield item
        except ValueError as error:
            yield error


def json_lines(path: Path) -> Iterator[tuple[str, Row | ValueError]]:
    """Yields the objects of JSON lines or a JSON list (possibly compressed) with their places; skips blank lines.

    Raises:
        ValueError: The file cannot be read.
    """
    if path.is_file() and starts_with(path, "["):
        for number, row in read_items(path):
            where = f"{path}: item {number}"
            yield where, row if isinstance(row, dict) else ValueError(f"{where}: not a JSON object")
        return
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                where = f"{path}: line {number}"
                yield where, _json_object(line, number, path, where)


def table_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str] | ValueError]]:
    """Yields the rows of CSV, as `csv_rows` does, or the objects of JSON with their lists joined as in CSV.

    Raises:
        ValueError: The file cannot be read.
    """
    if not path.is_file() or not any(starts_with(path, sign) for sign in "[{"):
        yield from csv_rows(path, columns)
        return
    for where, row in json_lines(path):
        yield where, row if isinstance(row, ValueError) else {key: _cell(value) for key, value in row.items()}


def _cell(value: Any) -> str:
    listed = value if isinstance(value, list) else [value]
    return "|".join(str(one) for one in listed if one is not None)


def csv_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str] | ValueError]]:
    """Yields the rows of a CSV file as dicts, each with the line that it starts on.

    Its header is found as in a knowledge base's tables. Names of `columns` may be written with spaces and capitals.

    Raises:
        ValueError: The file cannot be read, its header lacks one of `columns`, or it is not CSV in UTF-8.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    with _open(path) as file:
        lines = (_decoded(line, number, path, f"{path}: line {number}") for number, line in enumerate(file, start=1))
        start = 1
        try:
            first = list(islice(lines, ABOVE))
            above, delimiter = header_in(first, path, lambda name: False)
            start += above
            reader = csv.reader(chain(first[above:], lines), strict=True, delimiter=delimiter)
            header = [column.strip() for column in next(reader, [])]
            header = [re.sub(r"[\s-]+", "_", column).lower() for column in header] if columns else header
            _check_header(header, columns, path)
            start = above + reader.line_num + 1
            for values in reader:
                where = f"{path}: line {start}"
                start = above + reader.line_num + 1
                if len(values) == len(header):
                    yield where, dict(zip(header, values, strict=True))
                elif values:
                    counts = f"{len(values)} fields, but the header has {len(header)}"
                    yield where, ValueError(f"{where}: {counts}; is the line truncated?")
        except csv.Error as error:
            raise ValueError(f"{path}: line {start}: not CSV ({error}); is the file truncated?") from error


def json_file(path: Path) -> Row:
    """Reads a file that holds one JSON object.

    Raises:
        ValueError: The file cannot be read or holds something else.
    """
    with _open(path) as file:
        found = _json_object(file.read(), 1, path, str(path))
    if isinstance(found, ValueError):
        raise found
    return found


def shown(value: object) -> str:
    """Returns a value for a message, shortened."""
    whole = repr(value)
    return whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}…"


def text(row: Mapping[str, Any], field: str, where: str) -> str:
    """Returns a non-empty text field, stripped.

    Raises:
        ValueError: The field is missing, empty or not text.
    """
    value = row.get(field)
    if field not in row:
        raise ValueError(f"{where}: field {field} is missing; the row has {', '.join(map(str, row)) or 'none'}")
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where}: field {field} must be non-empty text, got {shown(value)}")
    return _whole(value.strip(), field, where)


def optional_text(row: Mapping[str, Any], field: str, where: str) -> str:
    """Returns a text field, "" if it is absent, null or empty.

    Raises:
        ValueError: The field is not text.
    """
    return "" if row.get(field) in (None, "") else text(row, field, where)


def name(row: Mapping[str, Any], field: str, where: str) -> str:
    """Returns a field that holds an id or a name: text, or a whole number converted to text.

    Raises:
        ValueError: The field holds something else.
    """
    value = row.get(field)
    if isinstance(value, float) and value.is_integer():  # pandas writes integers so if some are missing
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else text(row, field, where)


def alternatives(row: Mapping[str, str], field: str, where: str) -> tuple[str, ...]:
    """Splits a text field at `|`, or as the list that pandas writes into CSV: `['a', 'b']`.

    Raises:
        ValueError: All parts are empty.
    """
    parts = tuple(part.strip() for part in split_cell(text(row, field, where)) if part.strip())
    if not parts:
        raise ValueError(f"{where}: field {field} contains only separators")
    return parts


def split_cell(value: str) -> list[str]:
    """Returns the parts of a value in CSV.

    Example:
        >>> split_cell("a|b"), split_cell('["a", "b|c"]'), split_cell("['a' 'b']"), split_cell("[sic]")
        (['a', 'b'], ['a', 'b|c'], ['a', 'b'], ['[sic]'])
    """
    if value[:1] == "[" and value[-1:] == "]":
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            found = parse_literal(re.sub(r"(?<=['\"])\s+(?=['\"])", ", ", value))  # NumPy writes no commas
            if isinstance(found, list) and found and all(isinstance(one, str | int | float) for one in found):
                return list(map(str, found))
    return value.split("|")


def image_ids(row: Mapping[str, str], field: str, where: str) -> tuple[str, ...]:
    """Returns ids of images as by `alternatives`; pandas writes numbers of a column with gaps as 12.0.

    Raises:
        ValueError: All parts are empty.
    """
    found = alternatives(row, field, where)
    return tuple(whole if (whole := one.removesuffix(".0")).isdecimal() else one for one in found)


def texts(values: object, field: str, where: str) -> tuple[str, ...]:
    """Returns a list of strings and numbers as strings; a single value counts as a list of one.

    Raises:
        ValueError: The list is empty or contains an empty string or something other than strings and finite numbers.
    """
    listed = values if isinstance(values, list) else [values]
    if any(isinstance(value, float) and not math.isfinite(value) for value in listed):
        raise ValueError(f"{where}: field {field} must have finite numbers, got {shown(values)}")
    good = [str(v).strip() for v in listed if isinstance(v, str | int | float) and not isinstance(v, bool)]
    if not good or not all(good) or len(good) != len(listed):
        raise ValueError(f"{where}: field {field} must be a list of non-empty strings, got {shown(values)}")
    return tuple(_whole(value, field, where) for value in good)


@contextmanager
def _open(path: Path) -> Iterator[Stream]:
    try:
        with opened_text(path) as file:
            yield file
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from error


def _decoded(line: bytes, number: int, path: Path, where: str) -> str:
    try:
        return (line.removeprefix(_BOM) if number == 1 else line).decode()
    except UnicodeDecodeError as error:
        raise not_utf8(where, path, error) from error


def _json_object(line: bytes, number: int, path: Path, where: str) -> Row | ValueError:
    try:
        row = json.loads(_decoded(line, number, path, where), object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        return ValueError(f"{where}: not JSON ({error}); is the file truncated, or of another --dataset?")
    except (ValueError, RecursionError) as error:
        return ValueError(str(error) if where in str(error) else f"{where}: {unreadable_value(error)}")
    return row if isinstance(row, dict) else ValueError(f"{where}: not a JSON object")


def _check_header(header: Sequence[str], columns: Sequence[str], path: Path) -> None:
    missing = [column for column in columns if column not in header]
    if missing:
        raise ValueError(
            f"{path}: line 1: no column {', '.join(missing)}; add it to the header, which has "
            f"{', '.join(header)[:_SHOWN]}, or choose another --dataset (plain takes any names)"
        )
    twice = sorted({column for column in header if header.count(column) > 1})
    if twice:
        raise ValueError(f"{path}: line 1: two columns are named {', '.join(twice)}; remove one")


def _whole(value: str, field: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:  # JSON can contain an unpaired surrogate, which no tokenizer accepts
        raise ValueError(f"{where}: field {field} is not valid Unicode ({error.reason})") from error
    return value
