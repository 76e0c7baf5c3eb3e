"""Data sets from the Hugging Face hub, or from a folder in a format of its library, with their images."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from indexes.extras import optional
from indexes.knowledge.formats.jsonl import entries_of
from indexes.knowledge.formats.parquet import ParquetImages, content_of, is_image
from indexes.knowledge.formats.reading import Reading
from indexes.knowledge.formats.skipped import Entry
from indexes.knowledge.formats.source_file import names_in, read_source_file
from retriever.files import as_line

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
    """The rows of a data set.

    Args:
        path: The TOML file that names the data set.

    Attributes:
        images: The columns that contain images.

    Raises:
        ValueError: datasets is not installed, or the data set cannot be loaded.
    """

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
