"""Parquet files with the columns of the project's JSON lines format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indexes.extras import optional
from indexes.formats.jsonl import entries_of
from indexes.formats.reading import Reading
from indexes.formats.skipped import Entry

_BATCH = 256


def read_parquet(path: Path, reading: Reading) -> Iterator[Entry]:
    """Yields the articles of a `.parquet` file, with their places, holding one batch of rows in memory.

    Raises:
        ValueError: pyarrow is not installed, or the file is damaged.
    """
    pyarrow, parquet = optional("pyarrow", "parquet"), optional("pyarrow.parquet", "parquet")
    yield from entries_of(_rows(path, pyarrow, parquet), reading, str(path))


def _rows(path: Path, pyarrow: Any, parquet: Any) -> Iterator[tuple[str, Any]]:
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}: row {number}", row
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: after row {number}: not UTF-8 ({error.reason})") from error
    except (pyarrow.ArrowInvalid, pyarrow.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{path}: after row {number}: damaged, or not a Parquet file ({error})") from error
