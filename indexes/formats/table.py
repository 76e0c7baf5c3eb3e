"""CSV and TSV files with one entity per row, such as tables that describe a folder of images."""

from __future__ import annotations

import codecs
import csv
import io
import logging
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from indexes.formats.fields import Names
from indexes.formats.reading import Reading
from indexes.formats.rows import entities_of
from indexes.formats.skipped import Entry
from indexes.formats.streams import opened
from retriever.wording import counted

logger = logging.getLogger(__name__)

_DELIMITERS = ",;\t|"
_DELIMITER_LINE = re.compile(r'"?sep=(.)"?\s*')
"""A line above the header with which Excel names the delimiter."""
_CONVERT = "convert the file, as with: iconv --from-code WINDOWS-1252 --to-code UTF-8"
_LONGEST = 1 << 27
_LONGEST_HEADER = 1 << 16


def read_table(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the rows of a `.csv` or `.tsv` file with a header, also compressed, with their places.

    The usual columns (`GUESSES`) are an entity's fields; several images are separated by `|`, and without an id, the
    title is the id. All other columns become lines `column: value` in a section "Facts".

    Raises:
        ValueError: The file has no header, is not UTF-8, is damaged, or lacks a column given in `names`.
    """
    yield from entities_of(_rows(path, reading.names), reading, str(path))


def _rows(path: Path, names: Names) -> Iterator[tuple[str, Any]]:
    csv.field_size_limit(_LONGEST)  # Python's own limit is 128 KB
    with opened(path) as file:
        try:
            start = file.read(2)
            file.seek(0)
            encoding = "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
            lines = io.TextIOWrapper(cast(io.BufferedReader, file), encoding=encoding, newline="")
            header = _header(lines)
            before = header.count("\n")
            if named := _DELIMITER_LINE.fullmatch(header):
                header = _header(lines)
                before += header.count("\n")
            delimiter = named[1] if named else max(_DELIMITERS, key=header.count)
            columns = _columns(next(csv.reader([header], delimiter=delimiter), []))
            if not any(columns):
                raise ValueError(f"{path}: has no header; its first line must name the columns")
            if re.fullmatch(r"\d+", columns[0]):
                logger.warning("%s: its first column is called %s; does the table lack a header?", path, columns[0])
            for field, name in names.items():
                if name not in columns:
                    raise ValueError(f"{path}: --map {field}={name}: no such column; columns are {', '.join(columns)}")
            rows = csv.reader(lines, delimiter=delimiter, strict=True)
            for row in rows:
                if any(row):
                    where = f"{path}: line {rows.line_num + before}"
                    yield where, _row(columns, row, where)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not UTF-8 ({error.reason}); {_CONVERT}") from error
        except csv.Error as error:
            raise ValueError(f"{path}: after line {rows.line_num}: {error}; is every quotation mark closed?") from error


def _header(lines: io.TextIOWrapper) -> str:
    """Returns the header: the first line, continued as long as a quoted name is open."""
    header = lines.readline()
    while header.count('"') % 2 and len(header) < _LONGEST_HEADER and (line := lines.readline()):
        header += line
    return header


def _columns(names: list[str]) -> list[str]:
    """Returns unique column names, each on one line; the second of two columns "Note" becomes "Note (2)"."""
    columns, seen = [], Counter[str]()
    for name in (" ".join(name.splitlines()) for name in names):
        seen[name] += 1
        columns.append(f"{name} ({seen[name]})" if name and seen[name] > 1 else name)
    return columns


def _row(columns: list[str], values: list[str], where: str) -> dict[str, str] | ValueError:
    if len(values) > len(columns) and any(values[len(columns) :]):
        return ValueError(f"{where}: {len(values)} values, but the header has {counted(len(columns), 'column')}")
    return dict(zip(columns, values, strict=False))
