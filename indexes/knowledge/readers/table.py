"""CSV and TSV files with one row per line, below a header that names the columns."""

from __future__ import annotations

import csv
import io
import logging
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from itertools import islice, tee
from pathlib import Path
from typing import Any, cast

from indexes.decoding import encoding_in, encoding_of, not_utf8, opened
from indexes.knowledge.document import Document
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.frames import is_usual, labeled
from indexes.knowledge.readers.rows import outside
from retriever.wording import counted

logger = logging.getLogger(__name__)

SUFFIXES = (".csv", ".tsv")
_OTHER_SUFFIXES = (".txt", ".tab", ".dat")  # of tables and of texts

_DELIMITERS = ",;\t|"
_FEWEST = {"|": 1, ";": 1, ",": 2, "\t": 1}
"""Separators of columns, each with its fewest per line of a table with another extension; prose has commas, too."""
_DELIMITER_LINE = re.compile(r'"?sep=(.)"?\s*')  # a line above the header with which Excel names the delimiter
_UNNAMED = re.compile(r"Unnamed: \d+(?:\.\d+)?")  # names that pandas gives to columns without one
_MEMBER = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")  # the name of a column for a member of an object
_INVISIBLE = re.compile("[\ufeff\u200b\u2060]")
_AHEAD = 5
_LONGEST = 1 << 27
_LONGEST_HEADER = 1 << 16


def _recognizes(file: Path, start: bytes) -> bool:
    """Returns whether a file is a table: its first two lines have the same separators, if its extension is another."""
    if any(suffix.lower() in SUFFIXES for suffix in file.suffixes[-2:]):
        return True
    lines = start.decode(encoding_of(start), "replace").strip("\n\r ").splitlines()
    if len(lines) < 2 or "\0" in lines[0]:
        return False
    counts = [(lines[0].count(sign), lines[1].count(sign), fewest) for sign, fewest in _FEWEST.items()]
    return ("\t" in lines[0] and "\t" in lines[1]) or any(one == two >= fewest for one, two, fewest in counts)


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the rows of a table as values by column, with their places, and the lines above its header.

    A first column without a name has the labels of a data frame's rows.

    Raises:
        ValueError: The file has no header, is not in Unicode, is damaged, or a quotation mark is never closed.
    """
    csv.field_size_limit(_LONGEST)  # Python's own limit is 128 KB
    encoding = encoding_in(file)
    with opened(file) as content:
        lines = _Lines(io.TextIOWrapper(cast(io.BufferedReader, content), encoding=encoding, newline=""))
        try:
            header, delimiter, above = _header(lines, file)
            yield from above
            columns = _columns(next(csv.reader([header], delimiter=delimiter), []))
            if re.fullmatch(r"\d+", columns[0]):
                logger.warning("%s: its first column is called %s; does the table lack a header?", file, columns[0])
            rows = _rows(csv.reader(lines, delimiter=delimiter, strict=True), columns, file, lines)
            nested = _nested(rows, columns)
            for where, row in nested if columns[0] else _labeled(nested):
                yield where, Document(values=row) if isinstance(row, Mapping) else row
        except UnicodeDecodeError as error:
            raise not_utf8(str(file), file, error) from error


def _nested(rows: Iterator[tuple[str, Any]], columns: list[str]) -> Iterator[tuple[str, Any]]:
    """Yields rows with objects where programs wrote their members as columns: `image.url`, `image.title`."""
    members = {name: name.split(".") for name in columns if _MEMBER.fullmatch(name)}
    counts = Counter(first for first, *_ in members.values())
    paths = {name: path for name, path in members.items() if counts[path[0]] > 1 and path[0] not in columns}
    for where, row in rows:
        if paths and isinstance(row, dict):
            objects = dict[str, Any]()
            for name, value in row.items():
                inner, (*above, last) = objects, paths.get(name, [name])
                for part in above:
                    member = inner.setdefault(part, {})
                    inner = member if isinstance(member, dict) else inner
                if value or not above:
                    inner[last] = value
            row = objects
        yield where, row


def _labeled(rows: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yields rows whose first column has no name: the labels of the rows of a data frame."""
    places, rows = tee(rows)
    pairs = ((row.pop("", None), row) if isinstance(row, dict) else (None, row) for _, row in rows)
    yield from ((where, row) for (where, _), row in zip(places, labeled(pairs), strict=True))


def _rows(rows: Iterator[list[str]], columns: list[str], file: Path, lines: _Lines) -> Iterator[tuple[str, Any]]:
    """Yields the rows; for one with quotation marks inside a quoted value, the reason instead."""
    while True:
        first = lines.number + 1
        try:
            row = next(rows, None)
        except csv.Error as error:
            if lines.ended:
                where = f"{file}: line {first}"
                raise ValueError(f"{where}: {error}: a quotation mark that begins there is never closed") from error
            where = f"{file}: line {lines.number}"
            yield where, ValueError(f'{where}: {error}; inside a quoted value, write each " twice')
            continue
        if row is None:
            return
        where = f"{file}: line {lines.number}"
        if any(row[len(columns) :]):
            has = counted(len(columns), "column")
            yield where, ValueError(f"{where}: {len(row)} values, but the header has {has}")
        elif any(row):
            yield where, dict(zip(columns, row, strict=False))


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


def _header(lines: _Lines, file: Path) -> tuple[str, str, list[Entry]]:
    """Returns the line that names the columns, their separator, and the lines above it.

    Those may be blank, or titles or comments, which are one value above lines of several.

    Raises:
        ValueError: The file has no such line.
    """
    delimiter_line, above = "", list[Entry]()
    while header := _whole_line(lines):
        if match := _DELIMITER_LINE.fullmatch(header):
            delimiter_line = match[1]
            continue
        delimiter, values = _split(header, delimiter_line)
        names = list(filter(None, map(str.strip, values)))
        if len(names) == 1 and not is_usual(names[0]):
            below = [line for line in lines.ahead() if line.strip(" \t\r\n,;|")]
            widths = {len(_split(line, delimiter_line)[1]) for line in below}
            if len(widths) == 1 and max(widths) > 1:
                above.append((f"{file}: line {lines.number}", outside(names[0], "lines above a table's header")))
                continue
        if names:
            return header, delimiter, above
    raise ValueError(f"{file}: has no header; its first line must name the columns")


def _split(line: str, delimiter: str) -> tuple[str, list[str]]:
    """Returns the separator of a line, if it is not known, and the values in it."""
    delimiter = delimiter or max(_DELIMITERS, key=line.count)
    return delimiter, next(csv.reader([line], delimiter=delimiter), [])


def _whole_line(lines: _Lines) -> str:
    """Returns the next line, continued as long as a quoted name is open; "" at the end."""
    whole = next(lines, "")
    while whole.count('"') % 2 and len(whole) < _LONGEST_HEADER and (line := next(lines, "")):
        whole += line
    return whole


def _columns(names: list[str]) -> list[str]:
    """Returns unique column names, each on one line; the second of two columns "Note" becomes "Note (2)".

    The first one is "" if it has no name, another one then has its number.
    """
    columns, counts = [], Counter[str]()
    for number, name in enumerate(names, start=1):
        name = " ".join(_INVISIBLE.sub("", name).splitlines()).strip()
        name = "" if _UNNAMED.fullmatch(name) else name
        name = f"Column {number}" if not name and number > 1 else name
        counts[name] += 1
        columns.append(f"{name} ({counts[name]})" if name and counts[name] > 1 else name)
    return columns


TABLE = Reader("csv", (*SUFFIXES, *_OTHER_SUFFIXES), _recognizes, _read, of_rows=True)
