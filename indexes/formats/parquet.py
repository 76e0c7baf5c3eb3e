"""Parquet files with the columns of the project's JSON lines format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from indexes.formats.fields import Names, optional
from indexes.formats.jsonl import entry_of
from indexes.formats.skipped import Entry

_BATCH = 256


def read_parquet(path: Path, names: Names) -> Iterator[Entry]:
    """Yields the articles of a `.parquet` file, with their places, holding one batch of rows in memory.

    Raises:
        ValueError: pyarrow is not installed, the file is damaged.
    """
    pyarrow, parquet = optional("pyarrow", "parquet"), optional("pyarrow.parquet", "parquet")
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield entry_of(row, f"{path}: row {number}", names)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: after row {number}: not UTF-8 ({error.reason})") from error
    except (pyarrow.ArrowInvalid, pyarrow.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{path}: after row {number}: damaged, or not a Parquet file ({error})") from error
