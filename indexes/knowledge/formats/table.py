"""CSV and TSV files with one entity per row, such as tables that describe a folder of images."""

from __future__ import annotations

import csv
import io
import logging
import re
from collections import Counter, deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, cast

from indexes.knowledge.formats.encodings import not_utf8
from indexes.knowledge.formats.frames import is_usual, labeled
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.reading import Entry, Reading
from indexes.knowledge.formats.rows import entities_of
from indexes.knowledge.formats.streams import encoding_in, opened
from retriever.wording import counted

logger = logging.getLogger(__name__)

_DELIMITERS = ",;\t|"
_DELIMITER_LINE = re.compile(r'"?sep=(.)"?\s*')  # a line above the header with which Excel names the delimiter
_UNNAMED = re.compile(r"Unnamed: \d+(?:\.\d+)?")  # names that pandas gives to columns without one
_MEMBER = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")  # the name of a column for a member of an object
_INVISIBLE = re.compile("[\ufeff\u200b\u2060]")
_AHEAD = 5
_LONGEST = 1 << 27
_LONGEST_HEADER = 1 << 16


def read_table(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the rows of a `.csv` or `.tsv` file with a header, also compressed, with their places.

    The usual columns (`GUESSES`) are an entity's fields; several images are separated by `|`, and without an id, the
    title is the id. A first column without a name has the labels of a data frame's rows.
    All other columns become lines `column: value` in a section "Facts".

    Raises:
        ValueError: The file has no header, is not UTF-8, is damaged, or lacks a column given in `names`.
    """
    yield from entities_of(_rows(path, reading), reading, str(path))


def _rows(path: Path, reading: Reading) -> Iterator[tuple[str, Any]]:
    csv.field_size_limit(_LONGEST)  # Python's own limit is 128 KB
    encoding = encoding_in(path)
    with opened(path) as file:
        lines = _Lines(io.TextIOWrapper(cast(io.BufferedReader, file), encoding=encoding, newline=""))
        try:
            header, delimiter = _header(lines, path, reading.losses)
            columns = _columns(next(csv.reader([header], delimiter=delimiter), []))
            if re.fullmatch(r"\d+", columns[0]):
                logger.warning("%s: its first column is called %s; does the table lack a header?", path, columns[0])
            for field, name in reading.names.items():
                if name not in columns:
                    raise ValueError(f"{path}: --map {field}={name}: no such column; columns are {', '.join(columns)}")
            rows = csv.reader(lines, delimiter=delimiter, strict=True)
            found = _nested(_read(rows, columns, path, lines), columns)
            yield from found if columns[0] else _labeled(found)
        except UnicodeDecodeError as error:
            raise not_utf8(str(path), path, error) from error


def _nested(rows: Iterator[tuple[str, Any]], columns: list[str]) -> Iterator[tuple[str, Any]]:
    """Yields rows with objects where programs wrote their members as columns: `image.url`, `image.title`."""
    members = {name: name.split(".") for name in columns if _MEMBER.fullmatch(name)}
    counts = Counter(first for first, *_ in members.values())
    paths = {name: path for name, path in members.items() if counts[path[0]] > 1 and path[0] not in columns}
    for where, row in rows:
        if paths and isinstance(row, dict):
            found = dict[str, Any]()
            for name, value in row.items():
                inner, (*above, last) = found, paths.get(name, [name])
                for part in above:
                    inner = one if isinstance(one := inner.setdefault(part, {}), dict) else inner
                if value or not above:
                    inner[last] = value
            row = found
        yield where, row


def _labeled(rows: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yields rows whose first column has no name: the labels of the rows of a data frame."""
    places = deque[str]()

    def pairs() -> Iterator[tuple[Any, Any]]:
        for where, row in rows:
            places.append(where)
            yield (row.pop(""), row) if isinstance(row, dict) else (None, row)

    for row in labeled(pairs()):
        yield places.popleft(), row


def _read(rows: Iterator[list[str]], columns: list[str], path: Path, lines: _Lines) -> Iterator[tuple[str, Any]]:
    """Yields the rows; for one with quotation marks inside a quoted value, the reason instead."""
    while True:
        first = lines.number + 1
        try:
            row = next(rows, None)
        except csv.Error as error:
            if lines.ended:
                where = f"{path}: line {first}"
                raise ValueError(f"{where}: {error}: a quotation mark that begins there is never closed") from error
            where = f"{path}: line {lines.number}"
            yield where, ValueError(f'{where}: {error}; inside a quoted value, write each " twice')
            continue
        if row is None:
            return
        if any(row):
            where = f"{path}: line {lines.number}"
            yield where, _row(columns, row, where)


class _Lines:
    """The lines of a file, counted."""

    def __init__(self, lines: io.TextIOWrapper) -> None:
        self.number, self.ended = 0, False
        self._lines, self._waiting = lines, deque[str]()

    def __iter__(self) -> Iterator[str]:
        """Returns itself."""
        return self

    def __next__(self) -> str:
        """Returns the next line."""
        line = self._waiting.popleft() if self._waiting else self._lines.readline()
        self.ended = not line
        if self.ended:
            raise StopIteration
        self.number += line.count("\n") or 1
        return line

    def ahead(self) -> list[str]:
        """Returns the next lines, which remain to be read."""
        self._waiting += islice(iter(self._lines.readline, ""), max(_AHEAD - len(self._waiting), 0))
        return list(self._waiting)


def _header(lines: _Lines, path: Path, losses: Losses) -> tuple[str, str]:
    """Returns the line that names the columns, and their separator.

    Above it may be blank lines, and titles or comments, which are one value above lines of several.

    Raises:
        ValueError: The file has no such line.
    """
    given = ""
    while header := _whole_line(lines):
        if named := _DELIMITER_LINE.fullmatch(header):
            given = named[1]
            continue
        delimiter, values = _split(header, given)
        filled = list(filter(None, map(str.strip, values)))
        if len(filled) == 1 and not is_usual(filled[0]):
            below = [line for line in lines.ahead() if line.strip(" \t\r\n,;|")]
            widths = {len(_split(line, given)[1]) for line in below}
            if len(widths) == 1 and max(widths) > 1:
                losses.at(f"{path}: line {lines.number}")
                losses.leave_out("lines above a table's header", filled[0])
                continue
        if filled:
            return header, delimiter
    raise ValueError(f"{path}: has no header; its first line must name the columns")


def _split(line: str, given: str) -> tuple[str, list[str]]:
    """Returns the separator of a line, which may be given, and the values in it."""
    delimiter = given or max(_DELIMITERS, key=line.count)
    return delimiter, next(csv.reader([line], delimiter=delimiter), [])


def _whole_line(lines: _Lines) -> str:
    """Returns the next line, continued as long as a quoted name is open; "" at the end."""
    found = next(lines, "")
    while found.count('"') % 2 and len(found) < _LONGEST_HEADER and (line := next(lines, "")):
        found += line
    return found


def _columns(names: list[str]) -> list[str]:
    """Returns unique column names, each on one line; the second of two columns "Note" becomes "Note (2)".

    The first one is "" if it has no name, another one then has its number.
    """
    columns, seen = [], Counter[str]()
    for number, name in enumerate(names, start=1):
        name = " ".join(_INVISIBLE.sub("", name).splitlines()).strip()
        name = "" if _UNNAMED.fullmatch(name) else name
        name = f"Column {number}" if not name and number > 1 else name
        seen[name] += 1
        columns.append(f"{name} ({seen[name]})" if name and seen[name] > 1 else name)
    return columns


def _row(columns: list[str], values: list[str], where: str) -> dict[str, str] | ValueError:
    if len(values) > len(columns) and any(values[len(columns) :]):
        return ValueError(f"{where}: {len(values)} values, but the header has {counted(len(columns), 'column')}")
    return dict(zip(columns, values, strict=False))
