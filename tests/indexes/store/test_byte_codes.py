"""Codes for FAISS on a GPU give the scores of the 4-bit codes that they were made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from indexes.store.byte_codes import as_byte_codes
from indexes.store.search import read_faiss
from indexes.store.search_kinds import describe
from tests.fakes.vectors import clustered


def stored(folder: Path, width: int, count: int = 1000, nprobe: int = 4) -> Any:
    """Returns an index as `search_kinds` writes it, read from its file; ids are not positions."""
    vectors = clustered(count, width)
    inner: Any = faiss.index_factory(width, describe("ivf-pq", count, width), faiss.METRIC_INNER_PRODUCT)
    inner.cp.min_points_per_centroid = 5
    inner.train(vectors)
    inner.nprobe = nprobe
    index = faiss.IndexIDMap(inner)
    index.add_with_ids(vectors, np.arange(count) * 3 + 1)
    faiss.write_index(index, str(folder / "entities.faiss"))
    return read_faiss(folder)


def plain_search(index: Any, queries: Any, k: int) -> tuple[Any, Any]:
    """Searches the stored codes with FAISS's reference implementation, whose tables are not rounded."""
    inner: Any = faiss.downcast_index(index.index)
    lists = faiss.ArrayInvertedLists(inner.nlist, inner.code_size)
    inner.orig_invlists = lists
    inner.reconstruct_orig_invlists()
    inner.implem = 1
    return index.search(queries, k)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("width", "any_size", "size", "length"),
    [
        (48, False, 3, 48),
        (16, False, 1, 16),
        (80, False, 8, 128),  # codes of 5 bytes are not supported
        (80, True, 5, 80),
        (100, False, 16, 128),  # 25 parts of 4 dimensions, so the last byte holds one
        (100, True, 13, 104),
        (1280, False, 96, 1536),  # of EVA-CLIP-8B
        (1280, True, 80, 1280),
        (2560, True, 160, 2560),  # its combined keys
    ],
)
def test_scores_are_those_of_the_stored_codes(
    tmp_path: Path, width: int, any_size: bool, size: int, length: int
) -> None:
    index = stored(tmp_path, width, count=600 if width > 1000 else 1000)
    codes: Any = as_byte_codes(index, any_size=any_size, most_lists=2048)
    assert (codes.code_size, codes.pq.nbits, codes.d, codes.ntotal) == (size, 8, length, index.ntotal)
    assert codes.nprobe == 4 and codes.by_residual
    queries = clustered(7, width, seed=1)
    longer = np.zeros((7, length), np.float32)
    longer[:, :width] = queries
    (scores, ids), (expected, rows) = codes.search(longer, 20), plain_search(index, queries, 20)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert np.mean([len(set(a) & set(b)) / 20 for a, b in zip(ids.tolist(), rows.tolist(), strict=True)]) >= 0.99
    assert set(ids.flatten().tolist()) <= set((np.arange(index.ntotal) * 3 + 1).tolist())


def test_what_has_no_form_on_a_gpu(tmp_path: Path) -> None:
    assert as_byte_codes(stored(tmp_path, 1544, count=400), any_size=False, most_lists=2048) is None  # 97 bytes
    assert as_byte_codes(stored(tmp_path, 48), any_size=False, most_lists=3) is None
