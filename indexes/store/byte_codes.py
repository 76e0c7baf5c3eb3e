"""Codes of an "ivf-pq" entity index for FAISS on a GPU, which reads product quantizers of 8 bits but not of 4.

Two quantizers of 4 bits are one of 8 bits: its 256 centroids are the pairs of their 16 each. FAISS packs two codes of
4 bits into a byte, the first in the lower half, so a byte of the old codes is the new code. Nothing is trained again,
and nothing is lost.
"""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np

from retriever.types import FloatArray

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
