"""Databases: the rows of a query that a TOML file holds, or those of the tables of an SQLite file."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from indexes.knowledge.document import Document
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.rows import is_image, outside
from indexes.knowledge.readers.source_file import HELP, describes, rows_of_query
from indexes.knowledge.understanding.fields import looks_like_image, usual_names
from indexes.knowledge.understanding.references import without_id
from indexes.knowledge.understanding.settings import SECRETS, is_account

_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_MAGIC = b"SQLite format 3\0"
_SAMPLE = 50  # rows of a table that tell whether it has pictures
_PICTURES = re.compile(r"(?:image|img|photo|picture|media|attachment|(?<!pro)file)s?(?![a-z])", re.IGNORECASE)
"""Names of tables of pictures, unlike `photographs` and `profiles`."""
_HEAD = 64  # bytes of a value that tell whether it is an image

Row = dict[str, Any]


def _recognizes(file: Path, start: bytes) -> bool:
    """Returns whether a file is TOML with a query, or an SQLite database that no TOML file beside it names."""
    if file.suffix.lower() == ".toml":
        return describes(start, "query")
    texts = (toml.read_text("utf-8", "replace") for toml in file.parent.glob("*.toml"))
    return start.startswith(_MAGIC) and not any(file.name in text for text in texts)


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the rows with their places.

    Raises:
        ValueError: The file cannot be read; the query fails, or the driver is not installed; no table has a title.
    """
    yield from rows_of_query(file) if file.suffix.lower() == ".toml" else _of_tables(file, folder)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table or a view: its columns, its primary key, and the table and column that each foreign key names."""

    name: str
    columns: tuple[str, ...]
    key: str
    references: dict[str, tuple[str, str]]
    has_rowid: bool

    @property
    def has_title(self) -> bool:
        return bool(usual_names("title", self.columns))

    @property
    def is_account(self) -> bool:
        return is_account(self.columns)


def _of_tables(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the rows of the tables with titles, of those with pictures if there are any, and names the other tables.

    A row has the rows that it refers to by declared foreign keys, and those of tables of pictures, or without titles,
    that refer to it. Accounts are left out.
    """
    with _opened(file) as connection:
        database = _Database(connection, f"embedded:{file.relative_to(folder.root).as_posix()}")
        tables = [table for table in database.tables.values() if not table.is_account]
        titled = [table for table in tables if table.has_title and not database.is_part(table)]
        pictured = [table for table in titled if database.has_pictures(table)]
        chosen = pictured or titled
        if not chosen:
            names = ", ".join(database.tables) or "none"
            raise ValueError(f"{file}: no table has a title (its tables: {names}); write a query for it: {HELP}")
        for table in chosen:
            for number, (key, row) in enumerate(database.rows(table), start=1):
                id = key
                if len(chosen) > 1:  # whose keys may be the same
                    row.pop(table.key, None)
                    id = f"{table.name}/{key or number}"
                yield f"{file}: {table.name}: row {number}", Document(values=row, id=id)
        for table in database.tables.values():
            if table not in chosen and table.name not in database.used:
                words = f"{table.name}: {', '.join(table.columns)}"
                reason = SECRETS if table.is_account else "tables of a database without titles or pictures"
                yield f"{file}: {table.name}", outside(words, reason)
        if database.bytes:
            yield str(file), outside(" ".join(sorted(database.bytes)), "columns of bytes that are no images")


class _Database:
    """The tables of an SQLite database; `used` are those whose rows are in other rows, `bytes` columns left out."""

    def __init__(self, connection: sqlite3.Connection, prefix: str) -> None:
        self._connection, self._prefix = connection, prefix
        self.used, self.bytes = set[str](), set[str]()
        listed = connection.execute(
            "SELECT name, type = 'table' AND NOT wr FROM pragma_table_list "
            "WHERE schema = 'main' AND type IN ('table', 'view') AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
        ).fetchall()
        self.tables = {name: self._table(name, bool(has_rowid)) for name, has_rowid in listed}
        self._parts = defaultdict[str, list[tuple[_Table, str]]](list)  # by the table that they refer to
        for table in self.tables.values():
            for column, (other, _) in table.references.items():
                if self.is_part(table) and other != table.name and not table.is_account:
                    self._parts[other].append((table, column))
        self._rows_by = lru_cache(maxsize=None)(self._indexed)

    def _table(self, name: str, has_rowid: bool) -> _Table:
        columns = self._connection.execute("SELECT name, pk FROM pragma_table_info(?)", (name,)).fetchall()
        key = [column for column, place in columns if place]
        keys = self._connection.execute('SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)', (name,))
        references = {column: (table, other or "") for column, table, other in keys}
        return _Table(
            name, tuple(column for column, _ in columns), key[0] if len(key) == 1 else "", references, has_rowid
        )

    def is_part(self, table: _Table) -> bool:
        """Returns whether the rows of a table are parts of those that they refer to, such as pictures, or links."""
        return bool(table.references) and (not table.has_title or _PICTURES.search(table.name) is not None)

    def has_pictures(self, table: _Table) -> bool:
        """Returns whether one of the first rows of a table, or of those that are parts of its rows, has a picture."""
        several = [table, *(part for part, _ in self._parts[table.name])]
        rows = (row for one in several for row, _ in zip(self._plain(one), range(_SAMPLE), strict=False))
        return any(isinstance(value, str) and looks_like_image(value) for row in rows for value in row.values())

    def rows(self, table: _Table) -> Iterator[tuple[str, Row]]:
        """Yields the rows of a table with their keys, each with those that belong to it."""
        for row in self._plain(table):
            key, joined = row.get(table.key), self._joined(table, row)
            for part, column in self._parts[table.name]:
                to = part.references[column][1] or table.key
                if rows := self._rows_by(part.name, column).get(row.get(to)):
                    joined[part.name] = [self._joined(part, inner, without=column) for inner in rows]
            yield "" if key is None else str(key), joined

    def _joined(self, table: _Table, row: Row, without: str = "") -> Row:
        """Returns a row with the rows that it refers to in place of their keys."""
        joined = {}
        for column, value in row.items():
            other, to = table.references.get(column, ("", ""))
            if other in self.tables and self.tables[other].is_account:
                continue
            if other in self.tables and value is not None and column != without:
                (target,) = self._rows_by(other, to or self.tables[other].key).get(value, [None])[:1]
                name = without_id(column) or column
                joined[name if name not in row and target else column] = target or value
            elif column != without:
                joined[column] = value
        return joined

    def _indexed(self, name: str, column: str) -> Mapping[Any, list[Row]]:
        """Returns the rows of a table by the values of a column."""
        self.used.add(name)
        rows = defaultdict[Any, list[Row]](list)
        for row in self._plain(self.tables[name]):
            rows[row.get(column)].append(row)
        return rows

    def _plain(self, table: _Table) -> Iterator[Row]:
        """Yields the rows of a table; images in it are named, other bytes are left out."""
        start = f"CASE typeof(%s) WHEN 'blob' THEN substr(%s, 1, {_HEAD}) ELSE %s END"
        columns = ", ".join(start.replace("%s", _q(column)) for column in table.columns)
        place = "rowid" if table.has_rowid else "NULL"
        for rowid, *values in self._connection.execute(f"SELECT {place}, {columns} FROM {_q(table.name)}"):
            row = dict(zip(table.columns, values, strict=True))
            for column, value in row.items():
                if isinstance(value, bytes):
                    named = rowid is not None and is_image(value)
                    row[column] = f"{self._prefix}#{table.name}.{column}/{rowid}" if named else None
                    self.bytes.update(() if named else (f"{table.name}.{column}",))
            yield row


def image_bytes(file: Path, name: str) -> bytes | None:
    """Returns the bytes of the image `TABLE.COLUMN/ROWID` in an SQLite database, or `None` if there is none.

    Raises:
        ValueError: The file is no database.
    """
    path, _, rowid = name.rpartition("/")
    with _opened(file) as connection:
        for place in (match.start() for match in re.finditer(r"\.", path)):  # names of tables may have dots as well
            table, column = path[:place], path[place + 1 :]
            names = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
            if (column,) in names and rowid.isdecimal():
                query = f"SELECT {_q(column)} FROM {_q(table)} WHERE rowid = ?"
                row = connection.execute(query, (int(rowid),)).fetchone()
                return row[0] if row is not None and isinstance(row[0], bytes) else None
    return None


@contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    """Opens a database for reading only, also where its folder cannot be written.

    Raises:
        ValueError: It cannot be read.
    """
    try:
        for options in ("mode=ro", "mode=ro&immutable=1"):
            with closing(sqlite3.connect(f"file:{quote(str(file.absolute()))}?{options}", uri=True)) as connection:
                try:
                    connection.execute("SELECT name FROM sqlite_master").fetchall()
                except sqlite3.OperationalError:  # locked, or its journal cannot be opened
                    if options == "mode=ro":
                        continue
                    raise
                yield connection
                return
    except sqlite3.Error as error:
        raise ValueError(f"{file}: not an SQLite database that can be read ({error})") from error


def _q(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


DATABASE = Reader("sql", (".toml", *_SUFFIXES), _recognizes, _read, of_rows=True)
