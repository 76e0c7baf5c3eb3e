"""Rows of Parquet files and of Hugging Face's data sets, for knowledge bases and questions alike: labels are named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from indexes.extras import optional

BATCH = 256
"""Rows that are held in memory; fewer of those with images."""
Row = dict[str, Any]
T = TypeVar("T")


class Labels:
    """The labels in a table whose names the hub's metadata declares, at any depth.

    Args:
        schema: The table's schema of Arrow.
    """

    def __init__(self, schema: Any) -> None:
        try:
            features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        except ValueError:  # of another program
            features = {}
        for name in ("info", "features"):
            features = features.get(name) if isinstance(features, dict) else None
        columns = features.items() if isinstance(features, dict) else ()
        self._columns = {name: kind for name, kind in columns if '"ClassLabel"' in json.dumps(kind)}

    def named(self, row: Row) -> Row:
        """Returns a row with the names of its labels in place of their numbers."""
        return row | {name: _named(row[name], kind) for name, kind in self._columns.items() if name in row}


def _named(value: Any, kind: Any) -> Any:
    """Returns a value with the names of the labels in it; `kind` declares it, or its items if it is a list."""
    if isinstance(kind, list):
        kind = next(iter(kind), None)
    elif isinstance(kind, dict) and "_type" in kind and "feature" in kind:
        kind = kind["feature"]
    if not isinstance(kind, dict):
        return value
    if isinstance(value, list):
        return [_named(item, kind) for item in value]
    if isinstance(value, Mapping):
        return {name: _named(inner, kind.get(name)) for name, inner in value.items()}
    names = kind.get("names") if kind.get("_type") == "ClassLabel" else None
    if isinstance(names, list) and isinstance(value, int) and 0 <= value < len(names):
        return names[value]
    return value


def parquet_rows(file: Path, rows_of: Callable[[Any], Iterable[T]]) -> Iterator[tuple[str, T]]:
    """Yields what `rows_of` makes of an open Parquet file, each with its place.

    Raises:
        ValueError: pyarrow is not installed, or the file is damaged.
    """
    pyarrow, parquet = optional("pyarrow", "parquet"), optional("pyarrow.parquet", "parquet")
    number = 0
    try:
        with parquet.ParquetFile(file) as content:
            for number, row in enumerate(rows_of(content), start=1):
                yield f"{file}: row {number}", row
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:  # such as dates after the year 9999
        raise ValueError(f"{file}: after row {number}: damaged, or not a Parquet file ({error})") from error


def rows_of_parquet(*paths: Path, images: bool = True) -> Iterator[tuple[str, Row]]:
    """Yields the rows of Parquet files, or of all those in folders, with their places; labels have their names.

    Args:
        *paths: The files or folders.
        images: Whether to read columns of images, which make up most of such a file.

    Raises:
        ValueError: A file cannot be read, or a folder has none.
    """

    def rows(content: Any) -> Iterator[Row]:
        schema = content.schema_arrow
        columns = [field.name for field in schema if images or not _has_bytes(field.type)]
        return labeled_rows(content.iter_batches(batch_size=4 if images else BATCH, columns=columns), schema)

    files = (file for path in paths for file in (parquet_files(path) if path.is_dir() else [path]))
    return chain.from_iterable(parquet_rows(file, rows) for file in files)


def parquet_files(folder: Path) -> list[Path]:
    """Returns the Parquet files in a folder.

    Raises:
        ValueError: There is none.
    """
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise ValueError(f"{folder}: the folder has no .parquet files")
    return files


def is_bytes(type: Any) -> bool:
    """Returns whether a type of Arrow is of bytes."""
    types = optional("pyarrow", "parquet").types
    return bool(types.is_binary(type) or types.is_large_binary(type))


def _has_bytes(type: Any) -> bool:
    is_struct = optional("pyarrow", "parquet").types.is_struct(type)
    return is_bytes(type) or (is_struct and any(type.field(n).name == "bytes" for n in range(type.num_fields)))


def labeled_rows(batches: Iterable[Any], schema: Any) -> Iterator[Row]:
    """Yields the rows of batches of Arrow, with the names of their labels."""
    labels = Labels(schema)
    return (labels.named(row) for batch in batches for row in batch.to_pylist())
