"""Entity search with FAISS on a GPU: `search.gpu = "faiss"`.

Of this project's kinds of entity index, "ivf-pq" keeps its codes on the GPU, in a small part of the memory of its
vectors; the best candidates are rescored from `vectors.npy`. The other kinds become float16 vectors that are searched
exactly and need no rescoring: FAISS has no 8-bit vectors on a GPU, and its graphs there, with cuVS, would have to be
built at every start and hold the vectors as well.

FAISS on a GPU reads product quantizers of 8 bits but not of 4. Two quantizers of 4 bits are one of 8 bits: its 256
centroids are the pairs of their 16 each. FAISS packs two codes of 4 bits into a byte, the first in the lower half, so a
byte of the old codes is the new code. Nothing is trained again, and nothing is lost.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from indexes.store.engines import Search
from indexes.store.manifest import FAISS_KINDS, SearchRecord
from indexes.store.search import DEPTH, StoredVectors, load_vectors, padded, read_faiss, rescored, to_host
from retriever.gpu import to_device
from retriever.types import BoolArray, FloatArray, IntArray

logger = logging.getLogger(__name__)

MOST = 2048
"""Most results of a search, and most lists that it reads, in FAISS's own kernels."""
_TEMPORARY = 256 << 20
"""Bytes of GPU memory that FAISS keeps for intermediate results. More is allocated only while a search needs it."""
_BLOCK = 1 << 20
"""Vectors per index: FAISS copies an index whenever it grows, so opening takes the memory of one block twice."""
_ADDED = 1 << 16
"""Vectors passed to FAISS at a time, in float32."""
Read = Callable[[int, int], NDArray[np.float16]]
_TORCH = 'set search.gpu = "torch"'


def open_faiss_gpu(
    folder: Path, record: SearchRecord | None, device: torch.device | str, on_cpu: Callable[[], Search]
) -> Search:
    """Opens the entity index in a folder for search with FAISS on a GPU.

    Args:
        folder: The folder of an index.
        record: How to search it, from the manifest; `None` for an index of format version 2.
        device: The GPU.
        on_cpu: Opens the same for search on the CPU.

    Raises:
        ValueError: The device is not a GPU, the installed FAISS cannot use one, or a database searches this index.
    """
    if record is not None and record.kind not in FAISS_KINDS:
        raise ValueError(f'{folder}: is searched by {record.kind}, not by search.gpu = "faiss"; {_TORCH}')
    return WithSelections(_open(FaissGpu(device), folder, record), functools.cache(on_cpu))


def _open(gpu: FaissGpu, folder: Path, record: SearchRecord | None) -> FaissGpuVectors | FaissGpuCodes:
    if record is not None and record.kind == "ivf-pq":
        codes = as_byte_codes(read_faiss(folder), any_size=gpu.cuvs, most_lists=MOST)
        if codes is not None:
            return FaissGpuCodes(gpu, codes, load_vectors(folder), record.rescored)
        logger.warning("%s: FAISS has no form of %s on a GPU, so its vectors are searched exactly", folder, record)
    stored = StoredVectors(folder, record)
    return FaissGpuVectors(gpu, stored.read, stored.dimension, stored.rows)


class WithSelections:
    """Searches on a GPU among all rows, and on the CPU among some: FAISS selects no rows on a GPU.

    Args:
        on_gpu: Searches on the GPU.
        on_cpu: Returns a search on the CPU.
    """

    def __init__(self, on_gpu: FaissGpuVectors | FaissGpuCodes, on_cpu: Callable[[], Search]) -> None:
        self.on_gpu, self._on_cpu = on_gpu, on_cpu
        self.shape: tuple[int, int] = on_gpu.shape

    def search(self, vectors: Tensor, k: int, among: BoolArray | None = None) -> tuple[FloatArray, IntArray]:
        """Returns inner products and rows, best first."""
        return self.on_gpu.search(vectors, k) if among is None else self._on_cpu().search(vectors, k, among)


class FaissGpu:
    """FAISS's memory and streams on a GPU.

    Args:
        device: The GPU.

    Raises:
        ValueError: It is not one, or the installed FAISS cannot use it; the message says what to do.
    """

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self._faiss: Any = _faiss_for(self.device)
        self._number = torch.empty(0, device=self.device).device.index or 0
        self._resources = self._faiss.StandardGpuResources()
        self._resources.setTempMemory(_TEMPORARY)
        self._lock = threading.Lock()
        self.cuvs: bool = self._faiss.GpuClonerOptions().use_cuvs

    def vectors(self, length: int) -> Any:
        """Returns an empty index of float16 vectors for inner products."""
        config = self._faiss.GpuIndexFlatConfig()
        config.device, config.useFloat16, config.use_cuvs = self._number, True, False
        return self._faiss.GpuIndexFlatIP(self._resources, length, config)

    def copied(self, index: Any) -> Any:
        """Returns a copy on the GPU of an index on the CPU, with look-up tables in float16."""
        options = self._faiss.GpuClonerOptions()
        options.useFloat16 = True  # codes of more than 48 bytes need it
        return self._faiss.index_cpu_to_gpu(self._resources, self._number, index, options)

    def search(self, index: Any, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Starts a search in PyTorch's current stream and returns its results, for which nothing waits.

        Args:
            index: An index on the GPU.
            queries: Float32 [B, length] on the GPU.
            k: Number of results, from 1 to `MOST`.

        Returns:
            Scores float32 and ids int64, [B, k] on the GPU; ids are -1 where nothing was found.
        """
        queries = queries.contiguous()
        scores = torch.empty((len(queries), k), dtype=torch.float32, device=self.device)
        ids = torch.empty((len(queries), k), dtype=torch.int64, device=self.device)
        # Not with faiss.contrib.torch_utils, which changes what all methods of FAISS return.
        asked, found = (self._faiss.cast_integer_to_float_ptr(one.data_ptr()) for one in (queries, scores))
        places = self._faiss.cast_integer_to_idx_t_ptr(ids.data_ptr())
        stream = self._faiss.cast_integer_to_cudastream_t(torch.cuda.current_stream(self.device).cuda_stream)
        with self._lock:  # searches share temporary memory: a new stream waits for the last one's, but threads do not
            self._resources.setDefaultStream(self._number, stream)
            index.search_ex(len(queries), asked, self._faiss.Float32, k, found, places)
        return scores, ids


def _faiss_for(device: torch.device) -> Any:
    """Returns the installed FAISS if it can use a device.

    Raises:
        ValueError: It cannot.
    """
    if device.type == "cpu":
        raise ValueError(f'search.gpu = "faiss" needs a GPU, but the device is the CPU; {_TORCH}')
    if not hasattr(faiss, "StandardGpuResources"):
        raise ValueError(
            'search.gpu = "faiss" needs FAISS for GPUs, but the installed one is for CPUs: pip uninstall faiss-cpu, '
            f'then pip install "omgm[faiss-gpu]"; or {_TORCH}'
        )
    if not faiss.get_num_gpus():
        raise ValueError(f'search.gpu = "faiss": FAISS sees no GPU; update the NVIDIA driver, or {_TORCH}')
    return faiss


class FaissGpuVectors:
    """Exact search over float16 vectors; queries are rounded to float16 too, as by `DeviceSearch`.

    Args:
        gpu: The GPU.
        read: Returns the vectors from one position to another, float16 [number, length].
        length: Length of a vector.
        rows: Int64 [N], the row of each vector.
        block: Vectors per index.
    """

    def __init__(self, gpu: FaissGpu, read: Read, length: int, rows: IntArray, block: int = _BLOCK) -> None:
        self._gpu, self._starts = gpu, range(0, len(rows), block)
        self._indexes = [gpu.vectors(length) for _ in self._starts]
        for start, index in zip(self._starts, self._indexes, strict=True):
            stop = min(start + block, len(rows))
            for part in range(start, stop, _ADDED):
                index.add(read(part, min(part + _ADDED, stop)).astype(np.float32))
        self._rows = torch.from_numpy(rows).to(gpu.device)
        self.shape: tuple[int, int] = (len(rows), length)

    @torch.inference_mode()
    def search(self, vectors: Tensor, k: int) -> tuple[FloatArray, IntArray]:
        """Returns inner products and rows, best first, at most `MOST`; waits for the GPU once."""
        if not self._indexes:
            return padded(k, np.empty((len(vectors), 0), np.float32), np.empty((len(vectors), 0), np.int64))
        queries, wanted = to_device(vectors, self._gpu.device).float(), min(_allowed(k), self.shape[0])
        found = []
        for index, start in zip(self._indexes, self._starts, strict=True):
            scores, places = self._gpu.search(index, queries, min(wanted, index.ntotal))
            found.append((scores, places + start))
        scores, places = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        best = scores.topk(wanted, dim=1)
        return padded(k, *to_host(best.values, self._rows[places.gather(1, best.indices)]))


class FaissGpuCodes:
    """Approximate search with codes on the GPU; the best candidates are rescored exactly with vectors in a file.

    Args:
        gpu: The GPU.
        codes: From `as_byte_codes`.
        vectors: Float16 [rows, length], memory-mapped or not.
        factor: Candidates to rescore per result; a search finds at most `MOST`.
    """

    def __init__(self, gpu: FaissGpu, codes: Any, vectors: NDArray[np.float16], factor: int) -> None:
        self._gpu, self._index, self._vectors, self._factor = gpu, gpu.copied(codes), vectors, factor
        self.shape: tuple[int, int] = (codes.ntotal, vectors.shape[1])

    @torch.inference_mode()
    def search(self, vectors: Tensor, k: int) -> tuple[FloatArray, IntArray]:
        """Returns inner products and rows, best first; may return fewer than `k`. Waits for the GPU once."""
        depth = min(self._factor * max(_allowed(k), DEPTH), MOST, self.shape[0])
        queries = to_device(vectors, self._gpu.device).float()
        longer = functional.pad(queries, (0, self._index.d - self.shape[1]))
        asked, candidates = to_host(queries, self._gpu.search(self._index, longer, depth)[1])
        return rescored(self._vectors, torch.from_numpy(asked), candidates, k)


def _allowed(k: int) -> int:
    """Returns `k`, or `MOST` with a warning if it is larger."""
    if k > MOST:
        _report_limit()
    return min(k, MOST)


@functools.cache
def _report_limit() -> None:
    logger.warning("FAISS finds at most %d keys per query on a GPU; to find more, %s", MOST, _TORCH)


_SIZES = (1, 2, 3, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96)
"""Bytes per code that FAISS's own kernels support; those of cuVS support any number."""


def as_byte_codes(index: Any, *, any_size: bool, most_lists: int) -> Any | None:
    """Returns a FAISS `IndexIVFPQ` with the codes of an entity index, or `None` if FAISS has no form of it on a GPU.

    Its ids are rows. Its vectors may be longer than the index's: they end with zeros, so that a code has a supported
    size.

    Args:
        index: An `IndexIDMap` of an `IndexIVFPQFastScan` with residuals, as `read_faiss` returns it.
        any_size: Whether codes of any size are supported.
        most_lists: Most lists that a search may read.
    """
    inner: Any = faiss.downcast_index(index.index)
    pairs = -(-inner.pq.M // 2)
    size = pairs if any_size else next((size for size in _SIZES if size >= pairs), None)
    if size is None or inner.nprobe > most_lists:
        return None
    length = size * 2 * inner.pq.dsub
    lists = np.zeros((inner.nlist, length), np.float32)
    lists[:, : inner.d] = inner.quantizer.reconstruct_n(0, inner.nlist)
    quantizer = faiss.IndexFlatIP(length)
    quantizer.add(lists)
    codes = faiss.IndexIVFPQ(quantizer, length, inner.nlist, size, 8, faiss.METRIC_INNER_PRODUCT)
    faiss.copy_array_to_vector(_paired(inner.pq, size).ravel(), codes.pq.centroids)
    _copy_lists(index, inner, codes)
    codes.is_trained, codes.ntotal, codes.nprobe = True, index.ntotal, inner.nprobe
    return codes


def _paired(quantizer: Any, size: int) -> FloatArray:
    """Returns the centroids of pairs of quantizers, [size, 256, length of a part]; missing quantizers have zeros."""
    own = faiss.vector_to_array(quantizer.centroids).reshape(quantizer.M, 16, quantizer.dsub)
    centroids = np.zeros((2 * size, 16, quantizer.dsub), np.float32)
    centroids[: len(own)] = own
    byte = np.arange(256)
    return np.concatenate([centroids[0::2][:, byte & 15], centroids[1::2][:, byte >> 4]], axis=2)


def _copy_lists(index: Any, inner: Any, codes: Any) -> None:
    """Copies ids and codes, which fast scans keep in blocks of interleaved vectors."""
    plain = faiss.ArrayInvertedLists(inner.nlist, inner.code_size)
    inner.orig_invlists = plain
    inner.reconstruct_orig_invlists()
    inner.orig_invlists = None
    rows = faiss.vector_to_array(index.id_map)
    for number in range(inner.nlist):
        if not (count := plain.list_size(number)):
            continue
        own = faiss.rev_swig_ptr(plain.get_codes(number), count * inner.code_size).reshape(count, inner.code_size)
        bytes_ = np.zeros((count, codes.code_size), np.uint8)
        bytes_[:, : inner.code_size] = own
        ids = rows[faiss.rev_swig_ptr(plain.get_ids(number), count)]
        codes.invlists.add_entries(number, count, faiss.swig_ptr(ids), faiss.swig_ptr(bytes_))
