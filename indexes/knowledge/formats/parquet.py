"""Parquet files with the columns of the project's JSON lines format."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from indexes.extras import optional
from indexes.knowledge.formats.jsonl import entries_of
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.reading import Entry, Reading

_BATCH = 256


def read_parquet(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the articles of a `.parquet` file, with their places, holding one batch of rows in memory.

    Images in the file are named by column and row, `image/12`.

    Raises:
        ValueError: pyarrow is not installed, or the file is damaged.
    """
    pyarrow, parquet = optional("pyarrow", "parquet"), optional("pyarrow.parquet", "parquet")
    yield from entries_of(_rows(path, pyarrow, parquet, reading.losses), reading, str(path))


def _rows(path: Path, pyarrow: Any, parquet: Any, losses: Losses) -> Iterator[tuple[str, Any]]:
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            images = [column.name for column in file.schema_arrow if is_image(column)]
            unread = [column.name for column in file.schema_arrow if _is_bytes(column.type) and not is_image(column)]
            labels = _labels(file.schema_arrow.metadata or {})
            maps = [column.name for column in file.schema_arrow if pyarrow.types.is_map(column.type)]
            for batch in file.iter_batches(batch_size=_BATCH):
                for name in unread:
                    count = len(batch) - batch.column(name).null_count
                    losses.leave_out("bytes in columns without the name of an image", name, count, "files")
                named = {name: _names(batch.column(name), name, number) for name in images}
                for place, row in enumerate(batch.drop_columns([*images, *unread]).to_pylist()):
                    row |= {name: names[place] for name, names in named.items()}
                    row |= {name: dict(row[name]) for name in maps if row[name]}
                    row |= {
                        name: words[label]
                        for name, words in labels.items()
                        if isinstance(label := row.get(name), int) and label in words
                    }
                    number += 1
                    yield f"{path}: row {number}", row
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: after row {number}: not UTF-8 ({error.reason})") from error
    except (pyarrow.ArrowInvalid, pyarrow.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{path}: after row {number}: damaged, or not a Parquet file ({error})") from error


def _labels(metadata: Mapping[bytes, bytes]) -> dict[str, dict[int, str]]:
    """Returns the names of the labels in each column that the hub's metadata declares to hold labels, by number."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))
    except ValueError:  # of another program
        return {}
    for name in ("info", "features"):
        features = features.get(name) if isinstance(features, dict) else None
    kinds = features.items() if isinstance(features, dict) else ()
    named = {name: kind.get("names") for name, kind in kinds if isinstance(kind, dict)}
    return {name: dict(enumerate(words)) for name, words in named.items() if isinstance(words, list)}


def _names(values: Any, column: str, start: int) -> list[str | None]:
    """Returns the name of each image in a part of a column, or the path of one that is elsewhere."""
    packed = _has_path(values.type)
    inside = (values.field("bytes") if packed else values).is_valid().to_pylist()
    paths = values.field("path").to_pylist() if packed else [None] * len(inside)
    own = zip(inside, paths, strict=True)
    return [f"{column}/{start + place}" if valid else path for place, (valid, path) in enumerate(own)]


def is_image(column: Any) -> bool:
    """Returns whether a column has images: bytes with a path, as in data sets of the hub, or bytes, by its name."""
    if _is_bytes(column.type):
        return re.search("image|img|photo|picture|thumb", column.name, re.IGNORECASE) is not None
    return _has_path(column.type) and _is_bytes(column.type.field("bytes").type)


def _has_path(type: Any) -> bool:
    is_struct = optional("pyarrow", "parquet").types.is_struct(type)
    return is_struct and {type.field(number).name for number in range(type.num_fields)} == {"bytes", "path"}


def _is_bytes(type: Any) -> bool:
    types = optional("pyarrow", "parquet").types
    return bool(types.is_binary(type) or types.is_large_binary(type))


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


class ParquetImages:
    """The images in a Parquet file; holds one group of its rows in memory. Those columns are `images`."""

    def __init__(self, path: Path) -> None:
        self._file = optional("pyarrow.parquet", "parquet").ParquetFile(path)
        self.images = [column.name for column in self._file.schema_arrow if is_image(column)]
        groups = range(self._file.num_row_groups)
        self._ends = list(accumulate(self._file.metadata.row_group(group).num_rows for group in groups))
        self._group = lru_cache(maxsize=1)(self._read)

    def __len__(self) -> int:
        """Number of rows."""
        return self._ends[-1] if self._ends else 0

    def image(self, column: str, number: int) -> bytes | None:
        """Returns the bytes of an image, or `None` if the row has none.

        Raises:
            OSError: The image is in a file that cannot be read.
        """
        group = bisect_right(self._ends, number)
        start = self._ends[group - 1] if group else 0
        return content_of(self._group(group, column)[number - start].as_py())

    def _read(self, group: int, column: str) -> Any:
        return self._file.read_row_group(group, columns=[column]).column(column)
