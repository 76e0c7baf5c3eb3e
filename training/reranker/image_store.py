"""The images of step 2's training: by row, and in shards on disk as features of a frozen image tower or as pixels."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from indexes.store.article_store import ArticleImages
from retriever.borders import load_query_image
from retriever.identity import Items, files_as_items


class ImageName(NamedTuple):
    """Names an image: the file of a query image, or the name of an article's image."""

    kind: Literal["query", "article"]
    name: str


@dataclass(frozen=True)
class ImageTable:
    """Images by row.

    Attributes:
        names: The name of each image.
        articles: Those of articles.
        trim_borders: Whether to cut uniform borders off query images.
    """

    names: Sequence[ImageName]
    articles: ArticleImages
    trim_borders: bool = False

    def load(self, row: int) -> Image.Image:
        """Reads an image.

        Raises:
            ImageError: The image is missing or unreadable.
        """
        name = self.names[row]
        if name.kind == "query":
            return load_query_image(name.name, self.trim_borders)
        return self.articles.load(name.name)

    def contents(self) -> Items:
        """Returns the images by kind and name, query images without their folder, so that the data may be moved."""

        def files() -> Iterator[tuple[object, Path | bytes]]:
            for kind, name in self.names:
                if kind == "query":
                    yield (kind, Path(name).name), Path(name)
                else:
                    yield (kind, name), self.articles.content(name)

        return files_as_items(files(), "image")


SHARD_BYTES = 2**30
SHARD_IMAGES = 2048
"""Most images per shard, and therefore most that a resumed run computes again."""


@dataclass(frozen=True)
class FeatureStore:
    """Features of images on disk; a shard contains those of some consecutive images, view after view.

    Attributes:
        folder: Folder of the shards.
        views: Number of views per image, [I]; the first is the original image, the others are augmented.
        shape: Shape of a view: (cells, width) of features, which are bfloat16, or (3, side, side) of pixels, uint8.
    """

    folder: Path
    views: NDArray[np.int64]
    shape: tuple[int, ...]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the values."""
        return torch.uint8 if len(self.shape) == 3 else torch.bfloat16

    @property
    def row_bytes(self) -> int:
        """Size of a view in bytes."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size of all views in bytes."""
        return int(self.views.sum()) * self.row_bytes

    @cached_property
    def shard_images(self) -> int:
        """Images per shard."""
        largest = self.row_bytes * int(self.views.max(initial=1))
        return min(SHARD_IMAGES, max(1, SHARD_BYTES // largest))

    @cached_property
    def _first_view(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.views)])

    def shards(self) -> list[range]:
        """Returns the images of each shard."""
        size = self.shard_images
        return [range(first, min(first + size, len(self.views))) for first in range(0, len(self.views), size)]

    def path(self, shard: int) -> Path:
        """Returns the file of a shard."""
        return self.folder / f"{shard:05}.bin"

    def problems_path(self, shard: int) -> Path:
        """Returns the file that lists a shard's unreadable images."""
        return self.path(shard).with_suffix(".json")

    def read(self, rows: Sequence[int], views: Sequence[int]) -> Tensor:
        """Reads one view of each image, [N, *shape]."""
        features = torch.empty(len(rows), *self.shape, dtype=self.dtype)
        target = features.view(torch.uint8).numpy()
        files: dict[int, int] = {}
        try:
            for i, (row, view) in enumerate(zip(rows, views, strict=True)):
                shard = row // self.shard_images
                if shard not in files:
                    files[shard] = os.open(self.path(shard), os.O_RDONLY)
                place = int(self._first_view[row] - self._first_view[shard * self.shard_images]) + view
                if os.preadv(files[shard], [target[i]], place * self.row_bytes) != self.row_bytes:
                    raise ValueError(f"{self.path(shard)}: cut short; delete it to compute it again")
        finally:
            for file in files.values():
                os.close(file)
        return features

    def unreadable(self) -> dict[int, str]:
        """Returns the images that could not be read, with the reasons."""
        found: dict[int, str] = {}
        for shard in range(len(self.shards())):
            content = json.loads(self.problems_path(shard).read_text(encoding="utf-8"))
            found |= {int(row): reason for row, reason in content.items()}
        return found
