"""The build stage of a column: reads the articles, computes the column's rows, and writes them in batches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from indexes.article_images import ImageUse
from indexes.builder.image_stage import read_images
from indexes.builder.stages import BuildRun
from indexes.image_source import ImageSource, main_candidates
from indexes.lines import Articles
from indexes.store.columns import MAIN, Column, ColumnFiles, ColumnModel, Encoded, Stored, picture_part
from indexes.store.layout import THUMBNAILS
from indexes.workers import in_batches
from retriever.types import Entity


def write_column(run: BuildRun, articles: Articles, column: Column, source: ImageSource | None) -> int:
    """Writes the files of a column, and returns the number of rows; a killed run resumes at a batch."""
    batch = max(1, run.batch // run.use.keys) if column.of == "pictures" else run.batch  # as many images in memory
    with ColumnFiles(column, run.folder, run.workers.columns[column.name].dimension) as files:
        left = range(files.resume(batch), len(articles))
        make = partial(EncodeColumn, column, articles.path, source, run.use)
        results = in_batches(column.name, run.workers, make, [column.name], left, batch)
        with closing(results):
            for rows, encoded in results:
                files.append(rows, encoded)
        count = files.finish()
    if column.finish is not None:
        column.finish(run.folder, articles)
    return count


class EncodeColumn:
    """Reads the articles of a batch and computes their rows of a column.

    Args:
        column: The column.
        articles: The file of articles, beside the folder of thumbnails.
        source: Where the images are.
        use: Which images are used.
        models: Its model, by its name.
    """

    def __init__(
        self, column: Column, articles: Path, source: ImageSource | None, use: ImageUse, **models: ColumnModel
    ) -> None:
        self._column, self._articles, self._model = column, Articles(articles), models[column.name]
        self._images, self._source, self._use = articles.parent / THUMBNAILS, source, use

    def read(self, row: int) -> Stored:
        """Returns an article, with what the column is of: its thumbnail or its searched images."""
        entity, path = self._articles[row], self._images / f"{row}.jpg"
        if self._column.of == "pictures" and self._source is not None:
            return self._pictures(entity, self._source)
        return Stored(entity, path.read_bytes() if self._column.of == "images" and path.is_file() else b"")

    def _pictures(self, entity: Entity, source: ImageSource) -> Stored:
        """Returns an article with its searched images by their parts, the main one first."""
        several = len([*main_candidates(entity)]) >= self._column.least
        if not several or not (read := read_images(entity, source, self._use, source.load)).main.readable:
            return Stored(entity)
        names = {name: picture_part(image.url) for image in reversed(entity.images) if (name := source.find(image.url))}
        main, names[str(read.main.path)] = names.get(str(read.main.path), MAIN), MAIN
        shown = (name for name in (str(read.main.path), *read.further.keys) if name in names)
        return Stored(entity, pictures={names[name]: read.images[name] for name in shown}, main=main)

    def encode(self, items: Sequence[Stored]) -> list[Encoded]:
        """Computes the rows of a batch."""
        return self._column.encode(self._model, items)
