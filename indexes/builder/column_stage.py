"""The build stage of a column: reads the articles, computes the column's rows, and writes them in batches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from indexes.builder.stages import BuildRun
from indexes.lines import Articles
from indexes.store.columns import Column, ColumnFiles, ColumnModel, Encoded, Stored
from indexes.store.layout import THUMBNAILS
from indexes.workers import in_batches


def write_column(run: BuildRun, articles: Articles, column: Column) -> int:
    """Writes the files of a column, and returns the number of rows; a killed run resumes at a batch."""
    with ColumnFiles(column, run.folder, run.workers.columns[column.name].dimension) as files:
        left = range(files.resume(run.batch), len(articles))
        make = partial(EncodeColumn, column, articles.path)
        results = in_batches(column.name, run.workers, make, [column.name], left, run.batch)
        with closing(results):
            for rows, encoded in results:
                files.append(rows, encoded)
        return files.finish()


class EncodeColumn:
    """Reads the articles of a batch and computes their rows of a column.

    Args:
        column: The column.
        articles: The file of articles, beside the folder of thumbnails.
        models: Its model, by its name.
    """

    def __init__(self, column: Column, articles: Path, **models: ColumnModel) -> None:
        self._column, self._articles, self._model = column, Articles(articles), models[column.name]
        self._images = articles.parent / THUMBNAILS

    def read(self, row: int) -> Stored:
        """Returns an article, and its thumbnail if the column is of images."""
        path = self._images / f"{row}.jpg"
        thumbnail = path.read_bytes() if self._column.of == "images" and path.is_file() else b""
        return Stored(self._articles[row], thumbnail)

    def encode(self, items: Sequence[Stored]) -> list[Encoded]:
        """Computes the rows of a batch."""
        return self._column.encode(self._model, items)
