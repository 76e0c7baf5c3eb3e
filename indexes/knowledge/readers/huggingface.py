"""Data sets of Hugging Face, which a TOML file names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from indexes.extras import optional
from indexes.knowledge.document import Document
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.parquet import content_of, holds_images, image_names
from indexes.knowledge.readers.rows import json_value
from indexes.knowledge.readers.source_file import describes, settings_in

_FILES = {".parquet": "parquet", ".arrow": "arrow", ".jsonl": "json", ".json": "json", ".csv": "csv"}
"""Builders of the library for single files."""


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the rows of the data set that a TOML file names, with their places.

    Images are named `embedded:FILE#COLUMN/ROW`, with rows counted from 0; class labels have their names.

    Raises:
        ValueError: datasets is not installed, or the data set cannot be loaded.
    """
    (data, images), name = _opened(file, file.read_bytes()), f"embedded:{file.relative_to(folder.root).as_posix()}"
    labels = {column: kind for column, kind in data.features.items() if hasattr(kind, "int2str")}
    plain, pictures = data.remove_columns(images), data.select_columns(images).with_format("arrow")
    for number in range(len(data)):
        row = dict(plain[number]) if plain.column_names else {}
        row |= {column: label.int2str(row[column]) for column, label in labels.items() if row[column] is not None}
        for column in images:
            values = pictures[number].column(column).combine_chunks()
            (row[column],) = image_names(values, f"{name}#{column}", number)
        yield f"{file}: row {number + 1}", Document(values=json_value(row))


def image_bytes(file: Path, name: str) -> bytes | None:
    """Returns the bytes of the image `COLUMN/ROW` in the data set that a TOML file names, or `None` if there is none.

    Raises:
        ValueError: datasets is not installed, or the data set cannot be loaded.
        OSError: The image is in a file that cannot be read.
    """
    column, _, row = name.rpartition("/")
    data, images = _opened(file, file.read_bytes())
    if column not in images or not row.isdecimal() or int(row) >= len(data):
        return None
    return content_of(data[int(row)][column])


@lru_cache(maxsize=1)
def _opened(file: Path, content: bytes) -> tuple[Any, list[str]]:
    """Returns a data set whose images are not decoded, and the columns that contain them."""
    datasets, data = optional("datasets", "hf"), _loaded(file)
    images = [column for column, kind in data.features.items() if isinstance(kind, datasets.Image)]
    for column in images:
        data = data.cast_column(column, datasets.Image(decode=False))
    images += [
        one for one in data.features if one not in images and holds_images(data.features.arrow_schema.field(one))
    ]
    return data, images


def _loaded(file: Path) -> Any:
    """Returns the data set that a TOML file names: saved in a folder, in files of a folder, in one file, or on the hub.

    Raises:
        ValueError: It cannot be loaded.
    """
    settings, datasets = settings_in(file), optional("datasets", "hf")
    name, path = settings["dataset"], file.parent / settings["dataset"]
    builder = _FILES.get(path.suffix.lower()) if path.is_file() else None
    if path.is_file() and builder is None:
        known = ", ".join(f"*{suffix}" for suffix in _FILES)
        raise ValueError(f"{file}: dataset {name!r} is a file; only {known} are read so, pass others as they are")
    split = settings.get("split", "train")
    try:
        if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
            data = datasets.load_from_disk(str(path))
            return data[split] if isinstance(data, dict) else data
        options = {"split": split, "revision": settings.get("revision")}
        if builder is not None:
            return datasets.load_dataset(builder, data_files={split: str(path)}, **options)
        return datasets.load_dataset(str(path) if path.is_dir() else name, settings.get("config"), **options)
    except Exception as error:  # the library raises errors of a dozen others
        raise ValueError(f"{file}: dataset {name!r} cannot be loaded: {type(error).__name__}: {error}") from error


HUGGINGFACE = Reader("huggingface", (".toml",), lambda file, start: describes(start, "dataset"), _read, of_rows=True)
