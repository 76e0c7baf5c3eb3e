"""What an index holds of its knowledge base: articles, summaries, ids and images, without what it searches by."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image

from indexes.ids import hash_id, other_ids, spellings
from indexes.image_source import ImageSource, main_candidates
from indexes.lines import Articles, Lines
from indexes.store.layout import REBUILD, THUMBNAILS
from retriever.arrays import map_array
from retriever.images import load_image
from retriever.types import LABELED, Entity, IntArray

T = TypeVar("T")
_CACHED_ENTITIES = 4096
_THUMBNAIL = "thumbnail:"


class ArticleStore:
    """The articles of an index with their summaries and thumbnails, by row; thread-safe.

    They are read from files on demand, and no model is needed; `indexes.store.articles.open_articles` checks the files.

    Args:
        folder: The files of a complete index.
        digest: The SHA-256 of the articles.
    """

    def __init__(self, folder: Path, digest: str) -> None:
        self.folder, self.digest = folder, digest
        self._articles = Articles(folder / "entities.jsonl")
        self._summaries = Lines(folder / "summaries.jsonl")
        self._ids: IntArray = opened(map_array, folder / "entity_ids.npy")
        self._cached_entity = lru_cache(_CACHED_ENTITIES)(self._articles.__getitem__)

    def __len__(self) -> int:
        """Returns the number of entities."""
        return len(self._articles)

    def entity(self, row: int) -> Entity:
        """Returns the article at `row`; recently read articles are cached.

        Raises:
            IndexError: There is no such row.
        """
        return self._cached_entity(int(row))

    def summary(self, row: int) -> str:
        """Returns the summary of the article at `row`.

        Raises:
            IndexError: There is no such row.
        """
        return str(self._summaries.read(row)["summary"])

    def row_of(self, entity_id: str) -> int | None:
        """Returns the row of an entity, or `None` if it is not in the index.

        The entity is also found by its other names and by the canonical spelling of a URL: `%27` finds `'`.
        """
        rows = map(self._row_of, spellings(entity_id))
        return next((row for row in rows if row is not None), None)

    def _row_of(self, entity_id: str) -> int | None:
        hashes, rows = self._ids
        key = np.int64(hash_id(entity_id))
        equal = slice(np.searchsorted(hashes, key), np.searchsorted(hashes, key, side="right"))
        for row in sorted(rows[equal].tolist(), reverse=True):  # ids before other names
            entity = self.entity(row if row >= 0 else ~row)
            if entity_id == entity.id if row >= 0 else entity_id in other_ids(entity):
                return row if row >= 0 else int(~row)
        return None

    def image_path(self, row: int) -> Path | None:
        """Returns the path of the main image's thumbnail (JPEG, at most 320 pixels per side), or `None`."""
        path = self.folder / THUMBNAILS / f"{row}.jpg"
        return path if path.is_file() else None


class ArticleImages:
    """The images of the articles of an index: as they were when it was built, or else the thumbnails of the main ones.

    Labeled images, which a build adds to those of articles, are none of them.

    Args:
        articles: The articles.
        originals: Where the images that it was built from are; `None` if they are not there any more.
    """

    def __init__(self, articles: ArticleStore, originals: ImageSource | None = None) -> None:
        self.articles, self.originals = articles, originals

    def __reduce__(self) -> tuple[Callable[..., ArticleImages], tuple[Path, str, ImageSource | None]]:
        """Lets another process open the same files."""
        return _reopened, (self.articles.folder, self.articles.digest, self.originals)

    def main(self, row: int) -> str | None:
        """Returns the name of the main image of the entity at `row`, or `None` if it has none."""
        urls = [url for url in main_candidates(self.articles.entity(row)) if not url.startswith(LABELED)]
        name = next((name for url in urls if (name := self.find(url)) is not None), None)
        if name is None and urls and self.articles.image_path(row) is not None:
            return f"{_THUMBNAIL}{row}"
        return name

    def find(self, url: str) -> str | None:
        """Returns the name of the original at a URL, or `None` if there is none."""
        return None if self.originals is None or url.startswith(LABELED) else self.originals.find(url)

    def content(self, name: str) -> Path | bytes:
        """Returns the file of an image that has this name, or its bytes if it has no file of its own."""
        if name.startswith(_THUMBNAIL):
            return self.articles.folder / THUMBNAILS / f"{name.removeprefix(_THUMBNAIL)}.jpg"
        assert self.originals is not None  # else it has no such name
        return self.originals.content(name)

    def load(self, name: str) -> Image.Image:
        """Returns the image that has this name, in RGB.

        Raises:
            ImageError: The image is unreadable.
        """
        if name.startswith(_THUMBNAIL):
            return load_image(self.articles.folder / THUMBNAILS / f"{name.removeprefix(_THUMBNAIL)}.jpg")
        assert self.originals is not None  # else it has no such name
        return self.originals.load(name)


def _reopened(folder: Path, digest: str, originals: ImageSource | None) -> ArticleImages:
    return ArticleImages(ArticleStore(folder, digest), originals)


def opened(read: Callable[[Path], T], path: Path) -> T:
    """Reads a file of an index with `read`; if that fails, the error says to rebuild the index."""
    try:
        return read(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; {REBUILD}") from error
