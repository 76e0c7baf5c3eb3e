"""Knowledge bases that are not files: a TOML file names a database's query or a Hugging Face data set."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from indexes.extras import optional
from indexes.knowledge.formats.fields import Names, parse_names
from indexes.knowledge.formats.jsonl import entries_of
from indexes.knowledge.formats.parquet import ParquetImages, content_of, is_image
from indexes.knowledge.formats.reading import Entry, Reading
from indexes.knowledge.formats.rows import entities_of
from retriever.files import as_line

HELP = (
    'a knowledge base in TOML has url = "sqlite:///animals.db" and query = "SELECT …", or dataset = "owner/name"; '
    "see docs/data-formats.md"
)
_KEYS = {"sql": (("url", "query"), ("map",)), "huggingface": (("dataset",), ("config", "split", "revision", "map"))}
"""Keys of each format, required ones first."""


def read_source_file(path: Path) -> dict[str, Any]:
    """Returns the settings in a file, checked; `map` is a mapping of fields to names.

    Raises:
        ValueError: The file is not TOML, or has invalid keys or values.
    """
    settings = _table(path)
    required, others = _KEYS[format_of(path, settings)]
    for key, value in settings.items():
        if key not in (*required, *others):
            raise ValueError(f"{path}: unknown key {key!r}; known are {', '.join((*required, *others))}")
        if key != "map" and not isinstance(value, str):
            raise ValueError(f"{path}: {key}: expected text")
    if missing := [key for key in required if key not in settings]:
        raise ValueError(f"{path}: {missing[0]} is missing; {HELP}")
    names = settings.get("map", {})
    if not isinstance(names, dict):
        raise ValueError(f"{path}: map: expected a table, FIELD = NAME")
    try:
        return settings | {"map": parse_names(f"{field}={name}" for field, name in names.items())}
    except ValueError as error:
        raise ValueError(f"{path}: {str(error).removeprefix('--')}") from error


def format_of(path: Path, settings: dict[str, Any] | None = None) -> str:
    """Returns the format of the knowledge base that a file describes.

    Raises:
        ValueError: The file does not describe one.
    """
    if settings is None:
        settings = _table(path) if path.is_file() else {}
    if "dataset" in settings:
        return "huggingface"
    if "query" in settings or "url" in settings:
        return "sql"
    raise ValueError(f"{path}: does not describe a knowledge base: {HELP}")


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not TOML: {error}") from error


def names_in(settings: dict[str, Any], given: Names) -> Names:
    """Returns the names of fields; `given` ones override those of the file."""
    return {**settings["map"], **given}


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


_FILES = {".parquet": "parquet", ".arrow": "arrow", ".jsonl": "json", ".json": "json", ".csv": "csv"}
"""Builders of the library for single files."""


def read_huggingface(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the rows of the data set that a TOML file names, with their places.

    Rows with `sections` are read like JSON lines, others like rows of a table. Images are named by column and row,
    `image/12`; class labels by their names.

    Raises:
        ValueError: datasets is not installed, or the data set cannot be loaded.
    """
    names = names_in(read_source_file(path), reading.names)
    data = _opened(path, path.read_bytes())
    rows = ((f"{path}: row {number + 1}", data.row(number)) for number in range(len(data)))
    yield from entries_of(rows, replace(reading, names=names), str(path))


def hash_huggingface(path: Path) -> str:
    """Returns the SHA-256 of a data set's rows, including the bytes of images."""
    digest, data = hashlib.sha256(), _opened(path, path.read_bytes())
    for number in range(len(data)):
        digest.update(as_line({name: str(value) for name, value in data.row(number).items()}))
        for column in data.images:
            digest.update(hashlib.sha256(data.image(column, number) or b"").digest())
    return digest.hexdigest()


class DatasetRows:
    """The rows of a data set. The columns that contain images are `images`."""

    def __init__(self, path: Path) -> None:
        settings = read_source_file(path)
        datasets = optional("datasets", "hf")
        name, folder = settings["dataset"], path.parent / settings["dataset"]
        files = _FILES.get(folder.suffix.lower()) if folder.is_file() else None
        if folder.is_file() and files is None:
            known = ", ".join(f"*{suffix}" for suffix in _FILES)
            raise ValueError(f"{path}: dataset {name!r} is a file; only {known} are read so, pass others as they are")
        split = settings.get("split", "train")
        try:
            if (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file():
                data = datasets.load_from_disk(str(folder))
                data = data[split] if isinstance(data, dict) else data
            else:
                options = {"split": split, "revision": settings.get("revision")}
                if files is not None:
                    data = datasets.load_dataset(files, data_files={split: str(folder)}, **options)
                else:
                    name = str(folder) if folder.is_dir() else name
                    data = datasets.load_dataset(name, settings.get("config"), **options)
        except Exception as error:  # the library raises errors of a dozen others
            raise ValueError(f"{path}: dataset {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
        features = dict(data.features)
        declared = [one for one, kind in features.items() if isinstance(kind, datasets.Image)]
        for column in declared:
            data = data.cast_column(column, datasets.Image(decode=False))
        self.images = [*declared, *(one for one in features if is_image(data.features.arrow_schema.field(one)))]
        self.images = list(dict.fromkeys(self.images))
        self._labels = {one: kind for one, kind in features.items() if isinstance(kind, datasets.ClassLabel)}
        self._plain = data.remove_columns(self.images)
        self._data = data

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._data)

    def row(self, number: int) -> dict[str, Any]:
        """Returns a row, with labels by name and images by column and row."""
        row = dict(self._plain[number]) if self._plain.column_names else {}
        for column, label in self._labels.items():
            if row[column] is not None:
                row[column] = label.int2str(row[column])
        return row | {column: f"{column}/{number}" for column in self.images}

    def image(self, column: str, number: int) -> bytes | None:
        """Returns the bytes of an image, or `None` if the row has none.

        Raises:
            OSError: The image is in a file that cannot be read.
        """
        return content_of(self._data[number][column])


def open_dataset(path: Path) -> DatasetRows | ParquetImages:
    """Returns the data set that a TOML file names, or a Parquet file; cached for the same content of the TOML file."""
    if path.suffix.lower() == ".parquet":
        return ParquetImages(path)
    return _opened(path, path.read_bytes())


@lru_cache(maxsize=1)
def _opened(path: Path, content: bytes) -> DatasetRows:
    return DatasetRows(path)
