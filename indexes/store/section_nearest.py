"""Finds the sections nearest to a question by their vectors: among all by signs, the best of these by cosine."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from indexes.store.columns import SPREAD
from indexes.store.search import SCANNED
from retriever.types import BoolArray, FloatArray, IntArray

_SHORTLIST = 1000
"""Windows that are compared exactly: signs alone lose some of the nearest."""
_AT_A_TIME = 1 << 16

Place = tuple[int, int]
"""The row of an entity, and the position of a section in it."""


class SectionVectors:
    """The vectors of sections, in windows.

    Only the signs of the vectors are held in memory, 48 bytes per window of 384 values.

    Args:
        values: The windows, int8 [N, D]; memory-mapped or not.
        keys: The place of each: its entity's row times `SPREAD`, and the section's position; ascending.
    """

    def __init__(self, values: NDArray[np.int8], keys: IntArray) -> None:
        self._values, self._keys, self.dimension = values, keys, values.shape[1]
        self._signs = faiss.IndexBinaryFlat(-(-max(values.shape[1], 1) // 8) * 8)
        for first in range(0, len(values), _AT_A_TIME):
            self._signs.add(_signs(values[first : first + _AT_A_TIME]))

    def nearest(
        self, question: FloatArray, k: int, left_out: Collection[int] = (), among: BoolArray | None = None
    ) -> dict[Place, float]:
        """Returns the cosines of the `k` windows nearest to a normalized vector [D], by their sections, best first.

        Entities at the rows in `left_out` have none. If only the rows that are true in `among` may have any, and they
        have few windows, all of these are compared exactly.
        """
        if not len(self._values):
            return {}
        chosen = None if among is None else np.flatnonzero(among[self._keys // SPREAD])
        if chosen is not None and len(chosen) <= SCANNED:
            numbers = chosen
        else:
            rarity = 1 if chosen is None else len(self._values) / len(chosen)
            wanted = math.ceil((_SHORTLIST + len(left_out)) * rarity)
            numbers = np.sort(self._shortlist(question, min(wanted, len(self._values))))
            numbers = numbers if among is None else numbers[among[self._keys[numbers] // SPREAD]]
        if left_out:
            numbers = numbers[~np.isin(self._keys[numbers] // SPREAD, list(left_out))]
        return self._best(question, numbers, k)

    def _shortlist(self, question: FloatArray, k: int) -> IntArray:
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)  # of this thread; several wait for each other 17 times a million windows
        try:
            numbers: IntArray = self._signs.search(_signs(question[None]), k)[1][0]
        finally:
            faiss.omp_set_num_threads(threads)
        return numbers

    def cosines(self, question: FloatArray, places: Sequence[Place]) -> dict[Place, float]:
        """Returns the highest cosine of a normalized vector [D] with the windows of each section that has any."""
        keys = np.array([row * SPREAD + position for row, position in places], np.int64)
        first, last = np.searchsorted(self._keys, keys), np.searchsorted(self._keys, keys, side="right")
        numbers = [np.arange(*span) for span in zip(first.tolist(), last.tolist(), strict=True)]
        return self._best(question, np.concatenate([np.empty(0, np.int64), *numbers]))

    def _best(self, question: FloatArray, numbers: IntArray, k: int | None = None) -> dict[Place, float]:
        windows = self._values[numbers].astype(np.float32)
        cosines = windows @ question / np.maximum(np.linalg.norm(windows, axis=1), 1e-12)
        best = dict[Place, float]()
        for number in np.argsort(-cosines, kind="stable")[:k].tolist():
            row, position = divmod(int(self._keys[numbers[number]]), SPREAD)
            best.setdefault((row, position), float(cosines[number]))
        return best


def _signs(values: NDArray[Any]) -> NDArray[np.uint8]:
    return np.packbits(values > 0, axis=1)
