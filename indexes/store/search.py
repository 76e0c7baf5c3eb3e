"""Entity search: with FAISS on a CPU, exact or approximate with exact rescoring, and with PyTorch on a GPU.

`indexes.store.search_faiss_gpu` has the search with FAISS on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import faiss
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from indexes.store.engines import Search, find_engine
from indexes.store.manifest import KEY_IDS, SEARCH, VECTORS, SearchRecord
from retriever.arrays import map_array
from retriever.gpu import to_device
from retriever.types import BoolArray, FloatArray, IntArray

DEPTH = 20
"""Lowest number of results that an approximate search looks for; its recall was measured with this number."""
SCANNED = 30_000
"""Most rows whose vectors are compared one by one if a search is limited to them: it loses none of the best."""
_SPARE = 64
"""Vectors beyond `k` that the half-precision scan of `DeviceSearch` returns: one of the best `k` is lost only if this
many others are within the scan's rounding error (0.00024 for products from 0.25 to 0.5) of the last."""
_TOGETHER = 1 << 12
"""Vectors that are compared at a time if a search is limited to a few rows."""
_COPIED = 1 << 18
"""Number of vectors copied to a device at a time."""

GpuSearch = Literal["torch", "faiss"]
"""The library that searches on a GPU: PyTorch, always exactly, or FAISS (`indexes.store.search_faiss_gpu`)."""


class FaissSearch:
    """Searches with FAISS alone. Where FAISS supports it, vectors are memory-mapped from the file.

    Args:
        index: The FAISS index, see `read_faiss`.
    """

    def __init__(self, index: Any) -> None:
        self._faiss = index
        self.shape: tuple[int, int] = (index.ntotal, index.d)

    def search(self, vectors: Tensor, k: int, among: BoolArray | None = None) -> tuple[FloatArray, IntArray]:
        """Returns inner products and rows, best first."""
        params = None if among is None else self._params(among)
        scores, rows = self._faiss.search(vectors.float().contiguous().cpu().numpy(), k, params=params)
        scores[rows < 0] = -np.inf
        return scores, rows

    def _params(self, among: BoolArray) -> Any:
        """Returns FAISS's parameters of a search among some rows, which sees twice as many of them as one among all.

        The nearest of these are farther away, where lists and graphs are less to the point.
        """
        library: Any = faiss  # its stubs know no selections
        selector = library.IDSelectorBitmap(np.packbits(among, bitorder="little"))
        inner, rarity = library.downcast_index(self._faiss.index), 2 * len(among) / max(int(among.sum()), 1)
        if isinstance(inner, faiss.IndexIVF):
            probed = min(math.ceil(inner.nprobe * rarity), inner.nlist)
            return library.SearchParametersIVF(sel=selector, nprobe=probed)
        if isinstance(inner, faiss.IndexHNSW):
            visited = min(math.ceil(inner.hnsw.efSearch * rarity), len(among))
            return library.SearchParametersHNSW(sel=selector, efSearch=visited)
        return library.SearchParameters(sel=selector)


class RescoredSearch:
    """Searches approximately with FAISS and rescores the best candidates exactly, up to the rounding to float16.

    Args:
        index: The FAISS index.
        vectors: Float16 [rows, dimension], memory-mapped or not.
        factor: Candidates to rescore per result.
    """

    def __init__(self, index: Any, vectors: NDArray[np.float16], factor: int) -> None:
        self._search, self._ids, self._vectors, self._factor = FaissSearch(index), index.id_map, vectors, factor
        self.shape: tuple[int, int] = self._search.shape

    def search(self, vectors: Tensor, k: int, among: BoolArray | None = None) -> tuple[FloatArray, IntArray]:
        """Returns inner products and rows, best first; may return fewer than `k` if the approximate search does."""
        queries = vectors.float().cpu()
        if among is not None:
            rows = np.flatnonzero(among & self._searchable)
            if len(rows) <= SCANNED:
                return scanned(self._vectors, queries, rows, k)
        depth = min(self._factor * max(k, DEPTH), self.shape[0])
        return rescored(self._vectors, queries, self._search.search(queries, depth, among)[1] if depth else (), k)

    @cached_property
    def _searchable(self) -> BoolArray:
        """Which rows have a vector."""
        searchable = np.zeros(len(self._vectors), np.bool_)
        searchable[faiss.vector_to_array(self._ids)] = True
        return searchable


def scanned(vectors: NDArray[np.float16], queries: Tensor, rows: IntArray, k: int) -> tuple[FloatArray, IntArray]:
    """Returns exact inner products and rows [B, k], best first, of the same candidates for all; see `rescored`."""
    blocks = (rows[start : start + _TOGETHER] for start in range(0, len(rows), _TOGETHER))
    products = [torch.empty(len(queries), 0), *(queries @ torch.from_numpy(vectors[own]).float().T for own in blocks)]
    best = torch.cat(products, dim=1).topk(min(k, len(rows)), dim=1)
    return padded(k, best.values.numpy(), rows[best.indices.numpy()])


def rescored(
    vectors: NDArray[np.float16], queries: Tensor, candidates: Iterable[IntArray], k: int
) -> tuple[FloatArray, IntArray]:
    """Returns exact inner products and rows [B, k], best first, of each query's candidates.

    Args:
        vectors: Float16 [rows, dimension], memory-mapped or not.
        queries: Float32 [B, dimension].
        candidates: Rows of vectors for each query, padded with -1.
        k: Number of results.
    """
    scores = np.full((len(queries), k), -np.inf, np.float32)
    rows = np.full((len(queries), k), -1, np.int64)
    for number, own in enumerate(candidates):
        found = np.sort(own[own >= 0])  # in file order
        products = torch.from_numpy(vectors[found]).float() @ queries[number]
        best = products.topk(min(k, len(found)))
        scores[number, : len(best.indices)] = best.values.numpy()
        rows[number, : len(best.indices)] = found[best.indices.numpy()]
    return scores, rows


class DeviceSearch:
    """Exact search over float16 vectors on a device: 5.1 GB for 2 million vectors of length 1280, read once per batch.

    A blockwise scan in float16 finds `k` vectors and some spare ones; their products are then computed in float32. For
    unit vectors, a score differs from that of float32 vectors by less than 1e-3, because they are rounded to float16.

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
    def read(cls, folder: Path, record: SearchRecord | None, device: torch.device | str) -> DeviceSearch:
        """Reads the exact vectors of an entity index of any kind."""
        stored = StoredVectors(folder, record)
        halves = torch.empty((len(stored.rows), stored.dimension), dtype=torch.float16, device=device)
        for start in range(0, len(halves), _COPIED):
            halves[start : start + _COPIED].copy_(torch.from_numpy(stored.read(start, start + _COPIED)))
        return cls(halves, torch.from_numpy(stored.rows).to(device))

    @torch.inference_mode()
    def search(self, vectors: Tensor, k: int, among: BoolArray | None = None) -> tuple[FloatArray, IntArray]:
        """Returns inner products and rows, best first; waits for the device once, to copy them from it."""
        queries = to_device(vectors, self._vectors.device).half()
        out = None if among is None else ~to_device(torch.from_numpy(among), self._vectors.device)[self._rows]
        starts = range(0, max(len(self._rows), 1), self._block)
        found = [self._scan(queries, start, k + _SPARE, out) for start in starts]
        coarse, places = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        kept = coarse.topk(min(k + _SPARE, coarse.shape[1]), dim=1)
        places = places.gather(1, kept.indices)
        exact = torch.einsum("bd,bnd->bn", queries.float(), self._vectors[places].float())
        rows = self._rows[places]
        if out is not None:
            exact, rows = exact.masked_fill(out[places], -torch.inf), rows.masked_fill(out[places], -1)
        best = exact.topk(min(k, exact.shape[1]), dim=1)
        return padded(k, *to_host(best.values, rows.gather(1, best.indices)))

    def _scan(self, queries: Tensor, start: int, k: int, out: Tensor | None) -> tuple[Tensor, Tensor]:
        block = self._vectors[start : start + self._block]
        products = queries @ block.T
        if out is not None:
            products.masked_fill_(out[start : start + self._block], -torch.inf)
        best = products.topk(min(k, len(block)), dim=1)
        return best.values, best.indices + start


def to_host(*parts: Tensor) -> list[NDArray[Any]]:
    """Returns the values of tensors that are on one device, copied from it in one transfer."""
    packed = torch.cat([part.flatten().view(torch.uint8) for part in parts]).cpu()
    pieces = packed.split([part.numel() * part.element_size() for part in parts])
    aligned = (piece.clone().view(part.dtype) for piece, part in zip(pieces, parts, strict=True))
    return [one.reshape(part.shape).numpy() for one, part in zip(aligned, parts, strict=True)]


def padded(k: int, scores: FloatArray, rows: IntArray) -> tuple[FloatArray, IntArray]:
    """Returns scores and rows [B, up to k] with `k` columns; where a row is -1 or missing, the score is -inf."""
    missing = ((0, 0), (0, k - rows.shape[1]))
    rows = np.pad(rows, missing, constant_values=-1)
    scores = np.pad(scores, missing, constant_values=-np.inf)
    scores[rows < 0] = -np.inf
    return scores, rows


class BestKeySearch:
    """Searches several keys per entity and finds each entity once, by its best key.

    Args:
        search: Searches all keys, including further keys.
        entities: Number of entities; keys with this number or higher are further keys.
        owners: The entity of each further key, ascending, int64.
    """

    def __init__(self, search: Search, entities: int, owners: IntArray) -> None:
        self._search, self._entities, self._owners = search, entities, owners
        self.shape: tuple[int, int] = search.shape

    def search(self, vectors: Tensor, k: int, among: BoolArray | None = None) -> tuple[FloatArray, IntArray]:
        """Returns inner products and rows of entities, best first."""
        asked = min(2 * k, self.shape[0])
        own = None if among is None else np.concatenate([among, among[self._owners]])
        while True:
            scores, keys = self._search.search(vectors, max(asked, 1), own)
            rows = keys.copy()
            further = keys >= self._entities
            rows[further] = self._owners[keys[further] - self._entities]
            best = best_of_each(scores, rows, k)
            # An approximate search may find no more keys, however many are requested.
            if asked == self.shape[0] or ((best[1][:, -1] >= 0) | (keys[:, -1] < 0)).all():
                return best
            asked = min(4 * asked, self.shape[0])


def best_of_each(scores: FloatArray, rows: IntArray, k: int) -> tuple[FloatArray, IntArray]:
    """Returns the `k` best scores of distinct rows, best first, padded with -inf and -1.

    Args:
        scores: [B, N], in any order.
        rows: [B, N]; a row may occur several times; -1 is padding.
        k: Number of results.
    """
    best_scores, best_rows = np.full((len(rows), k), -np.inf, np.float32), np.full((len(rows), k), -1, np.int64)
    for number, order in enumerate(np.argsort(-scores, axis=1, kind="stable")):
        ordered = rows[number][order]
        first = np.sort(np.unique(ordered, return_index=True)[1])
        first = first[ordered[first] >= 0][:k]
        best_rows[number, : len(first)] = ordered[first]
        best_scores[number, : len(first)] = scores[number][order][first]
    return best_scores, best_rows


class StoredVectors:
    """The exact vectors of an entity index of any kind, read from its files on demand.

    Args:
        folder: The folder of an index.
        record: The entity index's record in the manifest; `None` for an index of format version 2.
    """

    def __init__(self, folder: Path, record: SearchRecord | None) -> None:
        engine = None if record is None else find_engine(record.kind)
        kept = record is not None and record.rescored and (engine is None or (folder / VECTORS).is_file())
        self._vectors, self._search = load_vectors(folder) if kept else None, None
        self.rows: IntArray
        self.dimension: int
        if engine is not None and record is not None:
            self.rows = np.sort(map_array(folder / KEY_IDS)[1])
            if self._vectors is None:
                self._search = engine.open(folder, record)
                self.dimension = self._search.shape[1]
            else:
                self.dimension = self._vectors.shape[1]
            return
        self._faiss = read_faiss(folder)
        self.rows = faiss.vector_to_array(self._faiss.id_map)
        self.dimension = self._faiss.d

    def read(self, start: int, stop: int) -> NDArray[np.float16]:
        """Returns the vectors of `rows[start:stop]`, float16 [number of rows, dimension]."""
        stop = min(stop, len(self.rows))
        if self._vectors is not None:
            return self._vectors[self.rows[start:stop]]
        if self._search is not None:
            return self._search.read(self.rows[start:stop]).astype(np.float16)
        found: NDArray[np.float16] = self._faiss.index.reconstruct_n(start, stop - start).astype(np.float16)
        return found


def read_faiss(folder: Path) -> Any:
    """Returns the FAISS index in a folder, with vectors memory-mapped where FAISS supports it."""
    return faiss.read_index(str(folder / SEARCH), faiss.IO_FLAG_MMAP_IFC)


def load_vectors(folder: Path) -> NDArray[np.float16]:
    """Returns `vectors.npy`, memory-mapped."""
    vectors: NDArray[np.float16] = map_array(folder / VECTORS)
    return vectors
