"""Exact entity search: by FAISS on a CPU, by matrix products on a GPU."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Protocol

import faiss
import numpy as np
import torch
from torch import Tensor

from indexes.keys import Keys
from retriever.files import replace_with
from retriever.types import FloatArray, IntArray

_SPARE = 64
"""Vectors that the half-precision scan of `DeviceSearch` returns beyond `k`: one of the best `k` is lost only if
so many others are within the scan's rounding (0.00024 for products from 0.25 to 0.5) of the last."""
_COPIED = 1 << 18
"""Vectors copied to a device at a time."""


class Search(Protocol):
    """Finds the vectors with the largest inner products."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of vectors and their length."""

    def search(self, vectors: Tensor, k: int) -> tuple[FloatArray, IntArray]:
        """Returns inner products float32 and rows int64, both [B, k], best first, padded with -inf and -1."""


class FaissSearch:
    """Exact search by FAISS, in float32.

    Args:
        path: The file that `save_search` wrote.
    """

    def __init__(self, path: Path) -> None:
        self._faiss: Any = faiss.read_index(str(path))
        self.shape: tuple[int, int] = (self._faiss.ntotal, self._faiss.d)

    def search(self, vectors: Tensor, k: int) -> tuple[FloatArray, IntArray]:
        """Returns inner products and rows, best first."""
        scores, rows = self._faiss.search(vectors.float().contiguous().cpu().numpy(), k)
        scores[rows < 0] = -np.inf
        return scores, rows


class DeviceSearch:
    """Exact search over float16 vectors on a device: 5.1 GB for 2 million of length 1280, read once per batch.

    A scan in float16 finds `k` and some spare vectors in blocks; their products are then computed in float32. For unit
    vectors a score differs from that of float32 vectors by less than 1e-3, from rounding them to float16.

    Args:
        vectors: Float16 [N, dimension], normalized, on the device.
        rows: Int64 [N], the row of each vector, on the device.
        block: Vectors per matrix product; bounds the memory of its result.
    """

    def __init__(self, vectors: Tensor, rows: Tensor, block: int = 1 << 20) -> None:
        self._vectors, self._rows, self._block = vectors, rows, block
        self.shape: tuple[int, int] = (vectors.shape[0], vectors.shape[1])
        self.nbytes: int = vectors.nbytes

    @classmethod
    def read(cls, path: Path, device: torch.device | str) -> DeviceSearch:
        """Reads the file that `save_search` wrote."""
        index: Any = faiss.read_index(str(path))
        flat: Any = faiss.downcast_index(index.index)
        vectors = faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d).reshape(flat.ntotal, flat.d)
        halves = torch.empty(vectors.shape, dtype=torch.float16, device=device)
        for start in range(0, len(vectors), _COPIED):
            halves[start : start + _COPIED].copy_(torch.from_numpy(vectors[start : start + _COPIED]))
        return cls(halves, torch.from_numpy(faiss.vector_to_array(index.id_map)).to(device))

    @torch.inference_mode()
    def search(self, vectors: Tensor, k: int) -> tuple[FloatArray, IntArray]:
        """Returns inner products and rows, best first; only these results wait for the device."""
        queries = vectors.to(self._vectors.device).half()
        found = [self._scan(queries, start, k + _SPARE) for start in range(0, max(len(self._rows), 1), self._block)]
        coarse, places = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        kept = coarse.topk(min(k + _SPARE, coarse.shape[1]), dim=1).indices
        places = places.gather(1, kept)
        exact = torch.einsum("bd,bnd->bn", queries.float(), self._vectors[places].float())
        best = exact.topk(min(k, exact.shape[1]), dim=1)
        scores = np.full((len(queries), k), -np.inf, np.float32)
        rows = np.full((len(queries), k), -1, np.int64)
        scores[:, : best.values.shape[1]] = best.values.cpu().numpy()
        rows[:, : best.values.shape[1]] = self._rows[places.gather(1, best.indices)].cpu().numpy()
        return scores, rows

    def _scan(self, queries: Tensor, start: int, k: int) -> tuple[Tensor, Tensor]:
        block = self._vectors[start : start + self._block]
        best = (queries @ block.T).topk(min(k, len(block)), dim=1)
        return best.values, best.indices + start


def open_search(path: Path, device: torch.device | str = "cpu") -> Search:
    """Opens the file that `save_search` wrote, for search on a device."""
    return FaissSearch(path) if torch.device(device).type == "cpu" else DeviceSearch.read(path, device)


def _write(index: Any, path: Path) -> None:
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:  # FAISS knows no other
        raise OSError(f"{path}: cannot be written: {error}") from error


def save_search(path: Path, keys: Keys, block: int = 65536) -> None:
    """Writes a FAISS index of exact inner products over entities' keys; an entity without a key is never found.

    Args:
        path: The file.
        keys: Keys by entity.
        block: Keys in memory at a time besides the index itself.
    """
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(keys.length))
    for start in range(0, len(keys.rows), block):
        part = keys.rows[start : start + block]
        index.add_with_ids(keys.read(part), part)
    replace_with(path, partial(_write, index))
