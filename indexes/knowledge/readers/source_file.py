"""TOML files that name a knowledge base which is no file: a database's query, or a data set of Hugging Face."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from indexes.arrow_rows import BATCH
from indexes.extras import optional
from indexes.knowledge.document import Document
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.parquet import content_of, documents_in, holds_images
from indexes.knowledge.readers.rows import json_value
from indexes.knowledge.understanding.fields import GUESSES
from indexes.labeled_values import parse_names

HELP = (
    'a knowledge base in TOML has url = "sqlite:///animals.db" and query = "SELECT …", or dataset = "owner/name"; '
    "see docs/data-formats.md"
)
_KEYS = {"query": (("url", "query"), ("map",)), "dataset": (("dataset",), ("config", "split", "revision", "map"))}
"""Keys of each kind of file, required ones first."""


def describes(start: bytes, kind: str) -> bool:
    """Returns whether a file that begins so is TOML of a kind: "query" or "dataset"."""
    names = {line.partition(b"=")[0].strip(b" \t\"'").decode("latin-1") for line in start.splitlines() if b"=" in line}
    return {"query": {"url", "query"}, "dataset": {"dataset"}}[kind] <= names


def settings_in(file: Path) -> dict[str, Any]:
    """Returns the settings in a file, checked; `map` is a mapping of an entity's fields to names.

    Raises:
        ValueError: The file is not TOML, or has invalid keys or values.
    """
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: not TOML: {error}") from error
    kind = "dataset" if "dataset" in settings else "query"
    if kind == "query" and not settings.keys() & {"url", "query"}:
        raise ValueError(f"{file}: does not describe a knowledge base: {HELP}")
    required, others = _KEYS[kind]
    for key, value in settings.items():
        if key not in (*required, *others):
            raise ValueError(f"{file}: unknown key {key!r}; known are {', '.join((*required, *others))}")
        if key != "map" and not isinstance(value, str):
            raise ValueError(f"{file}: {key}: expected text")
    if missing := [key for key in required if key not in settings]:
        raise ValueError(f"{file}: {missing[0]} is missing; {HELP}")
    names = settings.get("map", {})
    if not isinstance(names, dict):
        raise ValueError(f"{file}: map: expected a table, FIELD = NAME")
    try:
        return settings | {"map": parse_names((f"{field}={name}" for field, name in names.items()), GUESSES)}
    except ValueError as error:
        raise ValueError(f"{file}: {str(error).removeprefix('--')}") from error


def rows_of_query(file: Path) -> Iterator[Entry]:
    """Yields the rows of the query in a TOML file; its transaction is always rolled back."""
    with _query(file) as rows:
        for number, row in enumerate(rows, start=1):
            where = f"{file}: row {number}"
            column = next((name for name, value in row.items() if isinstance(value, bytes | memoryview)), None)
            reason = f"column {column!r} holds bytes; leave it out of the query, and name files"
            yield where, Document(values=json_value(row)) if column is None else ValueError(f"{where}: {reason}")


@contextmanager
def _query(file: Path) -> Iterator[Iterator[dict[str, Any]]]:
    settings = settings_in(file)
    alchemy = optional("sqlalchemy", "sql")
    try:
        url = alchemy.make_url(settings["url"])
        if url.get_backend_name() == "sqlite":
            database = file.parent / (url.database or "")
            if not database.is_file():  # SQLite would create an empty one
                raise ValueError(f"{file}: url: {database} does not exist")
            url = url.set(database=str(database))
        engine = alchemy.create_engine(url)
    except alchemy.exc.ArgumentError as error:
        raise ValueError(f"{file}: url: {error}") from error
    except ImportError as error:
        raise ValueError(f"{file}: url: the driver is not installed: pip install {error.name}") from error
    try:
        with engine.connect().execution_options(stream_results=True, yield_per=BATCH) as connection:
            yield (dict(row) for row in connection.execute(alchemy.text(settings["query"])).mappings())
    except alchemy.exc.SQLAlchemyError as error:
        message = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise ValueError(f"{file}: query: {message}") from error
    finally:
        engine.dispose()


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the rows of the data set that a TOML file names, with their places.

    Raises:
        ValueError: datasets is not installed, or the data set cannot be loaded.
    """
    data, schema = _opened(file, file.read_bytes())
    images = list(filter(partial(_is_image_column, schema), schema.names))
    for number, document in enumerate(documents_in(data.iter(BATCH), schema, images, file, folder), start=1):
        yield f"{file}: row {number}", document


def _is_image_column(schema: Any, name: str) -> bool:
    return name in schema.names and holds_images(schema.field(name))


def image_bytes(file: Path, name: str) -> bytes | None:
    """Returns the bytes of the image `COLUMN/ROW` in the data set that a TOML file names, or `None` if there is none.

    Raises:
        ValueError: datasets is not installed, or the data set cannot be loaded.
        OSError: The image is in a file that cannot be read.
    """
    column, _, row = name.rpartition("/")
    data, schema = _opened(file, file.read_bytes())
    if not _is_image_column(schema, column) or not row.isdecimal() or int(row) >= len(data):
        return None
    return content_of(data[int(row)].column(column)[0].as_py())


@lru_cache(maxsize=1)
def _opened(file: Path, content: bytes) -> tuple[Any, Any]:
    """Returns the data set that a TOML file names, saved in a folder, in files, or on the hub, and its schema.

    Raises:
        ValueError: It cannot be loaded.
    """
    settings, datasets = settings_in(file), optional("datasets", "hf")
    name, path, split = settings["dataset"], file.parent / settings["dataset"], settings.get("split", "train")
    try:
        if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
            data = datasets.load_from_disk(str(path))
            data = data[split] if isinstance(data, dict) else data
        else:
            inner = {split: path.name} if path.is_file() else None  # whose format the library tells by its name
            source = str(path.parent if inner else path) if path.exists() else name
            options = {"data_files": inner, "split": split, "revision": settings.get("revision")}
            data = datasets.load_dataset(source, settings.get("config"), **options)
    except Exception as error:  # the library raises errors of a dozen others
        raise ValueError(f"{file}: dataset {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    return data.with_format("arrow"), data.features.arrow_schema  # whose images are not decoded


HUGGINGFACE = Reader("huggingface", (".toml",), lambda file, start: describes(start, "dataset"), _read, of_rows=True)
