"""Reads the rows of a database query with SQLAlchemy: SQLite, Postgres and other databases with a driver."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from indexes.extras import optional
from indexes.knowledge.formats.reading import Reading
from indexes.knowledge.formats.rows import entities_of
from indexes.knowledge.formats.skipped import Entry
from indexes.knowledge.formats.source_file import names_in, read_source_file
from retriever.files import as_line

_BATCH = 256


def read_sql(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the entities of the query in a TOML file, read like rows of a table, with their places.

    The transaction is always rolled back.

    Raises:
        ValueError: SQLAlchemy or the database's driver is not installed, or the query fails.
    """
    reading = replace(reading, names=names_in(read_source_file(path), reading.names))
    with _rows(path) as rows:
        numbered = ((f"{path}: row {number}", row) for number, row in enumerate(rows, start=1))
        yield from entities_of(((where, _plain(row, where)) for where, row in numbered), reading, str(path))


def hash_sql(path: Path) -> str:
    """Returns the SHA-256 of the query's rows."""
    digest = hashlib.sha256()
    with _rows(path) as rows:
        for row in rows:
            digest.update(as_line([[name, str(value)] for name, value in row.items()]))
    return digest.hexdigest()


def _plain(row: dict[str, Any], where: str) -> dict[str, Any] | ValueError:
    """Returns a row with dates and decimal numbers as text; bytes are an error."""
    for column, value in row.items():
        if isinstance(value, bytes | memoryview):
            reason = f"column {column!r} holds bytes; leave it out of the query, and name files"
            return ValueError(f"{where}: {reason}")
    known = str, int, float, list, dict, type(None)
    return {name: value if isinstance(value, known) else str(value) for name, value in row.items()}


@contextmanager
def _rows(path: Path) -> Iterator[Iterator[dict[str, Any]]]:
    settings = read_source_file(path)
    alchemy = optional("sqlalchemy", "sql")
    try:
        url = alchemy.make_url(settings["url"])
        if url.get_backend_name() == "sqlite":
            file = path.parent / (url.database or "")
            if not file.is_file():  # SQLite would create an empty one
                raise ValueError(f"{path}: url: {file} does not exist")
            url = url.set(database=str(file))
        engine = alchemy.create_engine(url)
    except alchemy.exc.ArgumentError as error:
        raise ValueError(f"{path}: url: {error}") from error
    except ImportError as error:
        raise ValueError(f"{path}: url: the driver is not installed: pip install {error.name}") from error
    try:
        with engine.connect().execution_options(stream_results=True, yield_per=_BATCH) as connection:
            yield (dict(row) for row in connection.execute(alchemy.text(settings["query"])).mappings())
    except alchemy.exc.SQLAlchemyError as error:
        message = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise ValueError(f"{path}: query: {message}") from error
    finally:
        engine.dispose()
