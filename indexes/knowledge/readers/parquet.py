"""Parquet files with one row per entity, and images in their columns; and the rows of any of Arrow's tables."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from indexes.arrow_rows import BATCH, Labels, is_bytes, parquet_rows
from indexes.decoding import begins_with
from indexes.extras import optional
from indexes.knowledge.document import Document
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.rows import is_image, json_value, outside

_IMAGE_NAME = re.compile("image|img|photo|picture|thumb", re.IGNORECASE)


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the rows of a file with their places.

    Raises:
        ValueError: pyarrow is not installed, or the file is damaged.
    """
    others = list[str]()

    def documents(content: Any) -> Iterator[Document]:
        schema, batches = content.schema_arrow, content.iter_batches(batch_size=BATCH)
        images = [column.name for column in schema if holds_images(column, _first(content, column))]
        others.extend(column.name for column in schema if is_bytes(column.type) and column.name not in images)
        return documents_in(batches, schema, images, file, folder)

    yield from parquet_rows(file, documents)
    if others:
        yield str(file), outside(" ".join(others), "columns of bytes that are no images")


def documents_in(
    batches: Iterable[Any], schema: Any, images: list[str], file: Path, folder: Folder
) -> Iterator[Document]:
    """Yields the rows of batches of Arrow, without bytes.

    Images in these columns are named `embedded:FILE#COLUMN/ROW`, with rows counted from 0, or by the path of one that
    is elsewhere; labels have the names that the hub's metadata declares.
    """
    types, name = optional("pyarrow", "parquet").types, f"embedded:{file.relative_to(folder.root).as_posix()}"
    left_out = [column.name for column in schema if column.name in images or is_bytes(column.type)]
    labels, maps = Labels(schema), [column.name for column in schema if types.is_map(column.type)]
    start = 0
    for batch in batches:
        names = {column: _image_names(batch.column(column), f"{name}#{column}", start) for column in images}
        for place, row in enumerate(batch.drop_columns(left_out).to_pylist() or [{} for _ in range(len(batch))]):
            row |= {column: names[column][place] for column in images}
            row |= {column: dict(row[column]) for column in maps if row[column]}
            yield Document(values=json_value(labels.named(row)))
        start += len(batch)


def _first(content: Any, column: Any) -> Any:
    """Returns the first value of a column of bytes."""
    if not is_bytes(column.type) or not content.metadata.num_rows:
        return None
    return next(content.iter_batches(batch_size=1, columns=[column.name])).column(0)[0].as_py()


def _image_names(values: Any, column: str, start: int) -> list[str | None]:
    values = values.combine_chunks() if hasattr(values, "combine_chunks") else values  # of a table, not of a batch
    packed = _has_path(values.type)
    inside = (values.field("bytes") if packed else values).is_valid().to_pylist()
    paths = values.field("path").to_pylist() if packed else [None] * len(inside)
    places = enumerate(zip(inside, paths, strict=True), start=start)
    return [f"{column}/{place}" if is_inside else path for place, (is_inside, path) in places]


def holds_images(column: Any, first: bytes | None = None) -> bool:
    """Returns whether a column of Arrow has images: bytes with a path, as in data sets of the hub, or just bytes.

    Those are images by the column's name, or if the first ones are.
    """
    if is_bytes(column.type):
        return _IMAGE_NAME.search(column.name) is not None or (first is not None and is_image(first))
    return _has_path(column.type) and is_bytes(column.type.field("bytes").type)


def _has_path(type: Any) -> bool:
    is_struct = optional("pyarrow", "parquet").types.is_struct(type)
    return is_struct and {type.field(number).name for number in range(type.num_fields)} == {"bytes", "path"}


def content_of(value: Any) -> bytes | None:
    """Returns the bytes of an image in a row, or `None` if it has none.

    Raises:
        OSError: The image is in a file that cannot be read.
    """
    if value is None or isinstance(value, bytes):
        return value
    data, path = value.get("bytes"), value.get("path")
    if data is not None:
        return bytes(data)
    return None if path is None else Path(path).read_bytes()


def image_bytes(file: Path, name: str) -> bytes | None:
    """Returns the bytes of the image `COLUMN/ROW` in a Parquet file, or `None` if there is none.

    Holds one group of rows in memory, in the expectation that images are read in order.

    Raises:
        ValueError: pyarrow is not installed.
        OSError: The file is damaged or gone.
    """
    column, _, row = name.rpartition("/")
    state = file.stat()
    content, ends = _opened(file, state.st_mtime_ns, state.st_size)
    if not row.isdecimal() or int(row) >= (ends[-1] if ends else 0) or column not in content.schema_arrow.names:
        return None
    group = bisect_right(ends, int(row))
    values = _group(content, group, column)
    return content_of(values[int(row) - (ends[group - 1] if group else 0)].as_py())


@lru_cache(maxsize=2)
def _opened(file: Path, changed: int, size: int) -> tuple[Any, list[int]]:
    content = optional("pyarrow.parquet", "parquet").ParquetFile(file)
    groups = range(content.num_row_groups)
    return content, list(accumulate(content.metadata.row_group(group).num_rows for group in groups))


@lru_cache(maxsize=1)
def _group(content: Any, group: int, column: str) -> Any:
    return content.read_row_group(group, columns=[column]).column(column)


def _recognizes(file: Path, start: bytes) -> bool:
    return file.suffix.lower() == ".parquet" or begins_with(start, b"par1")


PARQUET = Reader("parquet", (".parquet",), _recognizes, _read, of_rows=True)
