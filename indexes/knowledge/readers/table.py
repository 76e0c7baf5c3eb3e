"""CSV and TSV files with one row per line, below a header that names the columns."""

from __future__ import annotations

import csv
import io
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any, cast

from indexes.decoding import encoding_in, encoding_of, not_utf8, opened, plain_name
from indexes.delimited import ABOVE, BELOW, BLANK, DELIMITER_LINE, header_in
from indexes.knowledge.document import Document
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.rows import is_usual, labeled, outside
from retriever.wording import counted

logger = logging.getLogger(__name__)

SUFFIXES = (".csv", ".tsv")
_OTHER_SUFFIXES = (".txt", ".tab", ".dat")  # of tables and of texts

_FEWEST = {"|": 1, ";": 1, ",": 2}
"""Separators of columns, each with its fewest per line of a table with another extension; prose has commas, too."""
_UNNAMED = re.compile(r"Unnamed: \d+(?:\.\d+)?")  # names that pandas gives to columns without one
_MEMBER = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")  # the name of a column for a member of an object
_INVISIBLE = re.compile("[\ufeff\u200b\u2060]")
_LONGEST = 1 << 27


def _recognizes(file: Path, start: bytes) -> bool:
    """Returns whether a file is a table: its first lines have the same separators, if its extension is another."""
    if plain_name(file).suffix.lower() in SUFFIXES:
        return True
    lines = start.decode(encoding_of(start), "replace").strip("\n\r ").splitlines()[:BELOW]
    if len(lines) < 2 or "\0" in lines[0] or lines[0].startswith(("{{", "[[")):  # binary, or a page of a wiki
        return False
    same = (sign for sign, fewest in _FEWEST.items() if lines[0].count(sign) == lines[1].count(sign) >= fewest)
    return ("\t" in lines[0] and "\t" in lines[1]) or (any(same) and not lines[0].startswith(("|", "{", "<")))


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the rows of a table as values by column, with their places, and the lines above its header.

    A first column without a name has the labels of a data frame's rows.

    Raises:
        ValueError: The file has no header, is not in Unicode, is damaged, or a quotation mark is never closed.
    """
    csv.field_size_limit(_LONGEST)  # Python's own limit is 128 KB
    encoding = encoding_in(file)
    with opened(file) as content:
        lines = io.TextIOWrapper(cast(io.BufferedReader, content), encoding=encoding, newline="")
        try:
            first = list(islice(lines, ABOVE))
            above, delimiter = header_in(first, file, is_usual)
            for number, line in enumerate(first[:above], start=1):
                if (words := line.strip(BLANK)) and not DELIMITER_LINE.fullmatch(line):
                    yield f"{file}: line {number}", outside(words, "lines above a table's header")
            table = csv.reader(chain(first[above:], lines), delimiter=delimiter, strict=True)
            columns = _columns(next(table))
            if re.fullmatch(r"\d+", columns[0]):
                logger.warning("%s: its first column is called %s; does the table lack a header?", file, columns[0])
            rows = _nested(_rows(table, columns, file, above), columns)
            for where, row in rows if columns[0] else _labeled(rows):
                yield where, Document(values=row) if isinstance(row, Mapping) else row
        except UnicodeDecodeError as error:
            raise not_utf8(str(file), file, error) from error
        except csv.Error as error:
            raise ValueError(f"{file}: its header cannot be read: {error}") from error


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


def _rows(table: Any, columns: list[str], file: Path, above: int) -> Iterator[tuple[str, Any]]:
    """Yields the rows of a `csv.reader`; for one that cannot be used, the reason instead."""
    while True:
        where = f"{file}: line {above + table.line_num + 1}"
        try:
            row = next(table, None)
        except csv.Error as error:
            if str(error) == "unexpected end of data":
                raise ValueError(f"{where}: {error}: a quotation mark that begins there is never closed") from error
            where = f"{file}: line {above + table.line_num}"
            yield where, ValueError(f'{where}: {error}; inside a quoted value, write each " twice')
            continue
        if row is None:
            return
        where = f"{file}: line {above + table.line_num}"
        if any(row[len(columns) :]):
            has = counted(len(columns), "column")
            yield where, ValueError(f"{where}: {len(row)} values, but the header has {has}")
        elif any(row):
            yield where, dict(zip(columns, row, strict=False))


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


TABLE = Reader("csv", (*SUFFIXES, *_OTHER_SUFFIXES), _recognizes, _read, of_rows=True)
