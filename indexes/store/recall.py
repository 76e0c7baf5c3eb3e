"""Recall of an entity index relative to exact search, measured on queries that are not in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from indexes.growing import release
from indexes.store.engines import Search
from indexes.store.keys import Keys, as_query
from indexes.store.layout import THUMBNAILS
from indexes.store.manifest import Candidates, keys_are_images
from retriever.images import load_image
from retriever.protocols import DualEncoder
from retriever.types import FloatArray, IntArray

QUERIES = 256
"""Number of held-out queries per measurement."""
_MIXED = 0.5
"""Weight of the second vector in a mixed query; the cosine with the first is 0.9 if the two are orthogonal."""
_FEW = 32
"""With fewer main images than this, mixed queries are used instead."""
_BATCH = 32
"""Images per encoder call."""
_TOGETHER = 8
"""Queries per search."""


class HeldOutQueries(NamedTuple):
    """Held-out queries.

    Attributes:
        vectors: Float32 [Q, length of a key].
        about: A description of the queries.
    """

    vectors: torch.Tensor
    about: str


def held_out_queries(
    keys: Keys, kind: str, candidates: Candidates, image_weight: float, folder: Path, encoder: DualEncoder | None
) -> HeldOutQueries:
    """Returns queries for measuring an entity index that resemble those of images.

    If keys are only texts, the queries are main images, encoded for this purpose; flat search, which only loses by
    rounding to float16, is not worth that effort. Otherwise they are mixtures of stored vectors, of images if the keys
    have any.

    Args:
        keys: The keys.
        kind: The kind of entity index.
        candidates: What the keys encode.
        image_weight: Weight of the main image in a combined key.
        folder: The index or its unfinished build, for the thumbnails.
        encoder: Step 1's model; without one, mixtures are used.
    """
    if encoder is not None and kind != "flat" and not keys_are_images(candidates):
        vectors = [encoder.encode_images(images).cpu() for images in _drawn_images(folder / THUMBNAILS, keys.rows)]
        count = sum(map(len, vectors))
        if count >= _FEW:
            return HeldOutQueries(torch.cat(vectors), f"{count} main images")
    mixed = mixed_queries(keys)
    return HeldOutQueries(as_query(mixed, candidates, image_weight), f"{len(mixed)} mixtures of two stored vectors")


def _drawn_images(folder: Path, rows: IntArray) -> Iterator[list[Image.Image]]:
    """Yields batches of thumbnails of random rows, up to `QUERIES` in total."""
    paths = (folder / f"{row}.jpg" for row in np.random.default_rng(0).permutation(rows))
    shown = (load_image(path) for path in islice(filter(Path.is_file, paths), QUERIES))
    while images := list(islice(shown, _BATCH)):
        yield images


def draw_rows(rows: IntArray, count: int) -> IntArray:
    """Returns up to `count` random rows, in order and reproducibly."""
    chosen = np.random.default_rng(0).permutation(len(rows))[:count]
    return np.sort(rows[chosen])


def mixed_queries(keys: Keys, count: int = QUERIES) -> torch.Tensor:
    """Returns unit vectors [up to count, dimension], each the sum of one stored vector and half of another.

    They are not stored themselves but lie among the stored vectors. Isotropic noise would hardly change which vectors
    are near, because it is nearly orthogonal to all of them.
    """
    first, part = draw_rows(keys.rows, count), keys.parts[0]
    second = np.random.default_rng(1).choice(keys.rows, len(first)) if len(first) else first
    mixed = part[first].astype(np.float32) + _MIXED * part[second].astype(np.float32)
    release(part)
    return functional.normalize(torch.from_numpy(mixed), dim=1)


class ExactSearch:
    """The results of exact search in float32 for some queries, as a reference.

    Args:
        keys: All keys; read once, block by block.
        queries: Float32 [Q, length of a key].
        k: Number of results.
    """

    def __init__(self, keys: Keys, queries: torch.Tensor, k: int) -> None:
        self._keys, self._queries, self.k = keys, queries.float().cpu(), min(k, len(keys.rows))
        best = torch.empty(len(queries), 0)
        for _, block in keys.blocks():
            best = torch.cat([best, self._queries @ torch.from_numpy(block).T], dim=1)
            best = best.topk(min(self.k, best.shape[1]), dim=1).values
        self._last: FloatArray = best[:, -1].numpy() if self.k else np.empty(0, np.float32)

    def recall(self, search: Search, *mapped: NDArray[Any]) -> float | None:
        """Returns the share of the `k` best that a search finds, averaged over the queries; `None` without keys.

        A key that scores at least as well as the last of the exact `k` counts as found, since ties have no order.

        Args:
            search: The search to measure.
            mapped: Memory-mapped arrays that it reads. Reading a vector also brings its neighbors into memory, so their
                memory is released after every few queries.
        """
        if not self.k or not len(self._queries):
            return None
        right = 0
        for start in range(0, len(self._queries), _TOGETHER):
            queries = self._queries[start : start + _TOGETHER]
            found = search.search(queries, self.k)[1]
            for query, rows, last in zip(queries, found, self._last[start:], strict=False):
                scores = torch.from_numpy(self._keys.read(rows[rows >= 0])) @ query
                right += int((scores.numpy() >= last - 1e-6).sum())
            for array in (*self._keys.parts, *mapped):
                release(array)
        return right / (len(self._queries) * self.k)
