"""Reads rows of search data sets: Parquet with embedded images, or JSON lines that name images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evaluation.datasets.question import ImageFile, RowImages
from evaluation.datasets.rows import Row, json_lines
from indexes.extras import optional
from indexes.image_paths import find_image


def images_of(folder: Path, *fields: Any) -> RowImages:
    """Returns the images in some fields: embedded ones, and files under `folder` by longest matching path suffix."""
    found: list[ImageFile] = []
    missing: list[str] = []
    for field in fields:
        # As the library `datasets` stores images: the bytes, or a path without bytes.
        value = field.get("bytes") or field.get("path") if isinstance(field, Mapping) else field
        if value is None or value == "":
            continue
        file = value if isinstance(value, bytes) else find_image(folder, str(value))
        if file is None:
            missing.append(str(value)[:200])
        else:
            found.append(file)
    return RowImages(tuple(found), tuple(missing))


def rows_of(path: Path, *, images: bool = True) -> Iterator[tuple[str, Row]]:
    """Yields the rows of a Parquet file, of all Parquet files of a folder, or of JSON lines, with their places.

    Args:
        path: The file or folder.
        images: Whether to read embedded images, which make up most of such a file; otherwise these fields are absent.

    Raises:
        ValueError: A file cannot be read, or the folder has none.
    """
    if path.is_dir():
        files = sorted(path.glob("*.parquet"))
        if not files:
            raise ValueError(f"{path}: the folder has no .parquet files")
        for file in files:
            yield from rows_of(file, images=images)
    elif path.suffix == ".parquet":
        yield from _parquet_rows(path, images)
    else:
        for where, row in json_lines(path):
            if isinstance(row, ValueError):
                raise row
            yield where, row


def _parquet_rows(path: Path, images: bool) -> Iterator[tuple[str, Row]]:
    pyarrow, parquet = optional("pyarrow", "parquet"), optional("pyarrow.parquet", "parquet")
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            columns = [field.name for field in file.schema_arrow if images or not _holds_image(field.type, pyarrow)]
            for batch in file.iter_batches(batch_size=4 if images else 256, columns=columns):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}: row {number}", row
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path}: after row {number}: cannot be read ({error})") from error


def _holds_image(kind: Any, pyarrow: Any) -> bool:
    types = pyarrow.types
    if types.is_struct(kind):
        return any(kind.field(at).name == "bytes" for at in range(kind.num_fields))
    return bool(types.is_binary(kind) or types.is_large_binary(kind))
