"""Reads rows of search data sets: Parquet with embedded images, or JSON lines that name images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evaluation.datasets.question import ImageFile, RowImages
from evaluation.datasets.rows import Row, json_lines
from indexes.arrow_rows import rows_of_parquet
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
    if path.is_dir() or path.suffix == ".parquet":
        yield from rows_of_parquet(path, images=images)
        return
    for where, row in json_lines(path):
        if isinstance(row, ValueError):
            raise row
        yield where, row
