"""The rows of a query to a database, by SQLAlchemy: SQLite, Postgres and others that have a driver for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from indexes.formats.fields import Names, optional
from indexes.formats.skipped import Entry, attempt
from indexes.formats.source_file import names_in, read_source_file
from indexes.formats.table import entity_of
from retriever.files import as_line
from retriever.types import Entity

_BATCH = 256


def read_sql(path: Path, names: Names) -> Iterator[Entry]:
    """Yields the rows of the query that a TOML file names, as tables are read, with their places.

    The transaction is rolled back, whatever the query does.

    Raises:
        ValueError: SQLAlchemy or the database's driver is not installed, or the query fails.
    """
    names = names_in(read_source_file(path), names)
    with _rows(path) as rows:
        for number, row in enumerate(rows, start=1):
            where = f"{path}: row {number}"
            yield attempt(where, partial(_entity, row, where, names))


def hash_sql(path: Path) -> str:
    """Returns the SHA-256 of the query's rows."""
    digest = hashlib.sha256()
    with _rows(path) as rows:
        for row in rows:
            digest.update(as_line([[name, str(value)] for name, value in row.items()]))
    return digest.hexdigest()


def _entity(row: dict[str, Any], where: str, names: Names) -> Entity:
    for column, value in row.items():
        if isinstance(value, bytes | memoryview):
            raise ValueError(f"{where}: column {column!r} holds bytes; leave it out of the query, and name files")
    return entity_of({name: "" if value is None else str(value) for name, value in row.items()}, where, names)


@contextmanager
def _rows(path: Path) -> Iterator[Iterator[dict[str, Any]]]:
    settings = read_source_file(path)
    alchemy = optional("sqlalchemy", "sql")
    try:
        url = alchemy.make_url(settings["url"])
        if url.get_backend_name() == "sqlite":
            file = path.parent / (url.database or "")
            if not file.is_file():  # SQLite would make an empty one
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
