from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from indexes.keys import Keys
from indexes.search import DeviceSearch, FaissSearch, open_search, save_search
from retriever.types import FloatArray, IntArray


def unit(count: int, width: int = 48, seed: int = 0) -> FloatArray:
    vectors = np.random.default_rng(seed).normal(size=(count, width))
    unit_vectors: FloatArray = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit_vectors


def halved(vectors: FloatArray, rows: IntArray, block: int = 1 << 20) -> DeviceSearch:
    return DeviceSearch(torch.from_numpy(vectors).half(), torch.from_numpy(rows), block)


@pytest.mark.parametrize("block", [7, 100, 1000])
def test_both_searches_find_what_a_full_sort_finds(tmp_path: Path, block: int) -> None:
    vectors, queries = unit(300), unit(5, seed=1)
    rows = np.arange(0, 300, 2)  # every other entity can be searched
    save_search(tmp_path / "x.faiss", Keys((vectors,), rows), block=64)
    products = queries.astype(np.float64) @ vectors[rows].astype(np.float64).T
    order = np.argsort(-products, axis=1)[:, :10]
    on_device = halved(vectors[rows], rows, block)
    for search, loss in ((FaissSearch(tmp_path / "x.faiss"), 1e-6), (on_device, 1e-3)):
        assert search.shape == (150, 48)
        scores, found = search.search(torch.from_numpy(queries), 10)
        assert scores.dtype == np.float32 and found.dtype == np.int64
        np.testing.assert_allclose(scores, np.take_along_axis(products, order, axis=1), atol=loss)
        np.testing.assert_array_equal(found, rows[order])
    read = DeviceSearch.read(tmp_path / "x.faiss", "cpu")
    for a, b in zip(
        read.search(torch.from_numpy(queries), 10), on_device.search(torch.from_numpy(queries), 10), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("count", [0, 3])
def test_more_asked_than_there_are(tmp_path: Path, count: int) -> None:
    vectors, rows = unit(count).reshape(count, 48), np.arange(count)
    save_search(tmp_path / "x.faiss", Keys((vectors,), rows))
    for search in (open_search(tmp_path / "x.faiss"), halved(vectors, rows)):
        scores, found = search.search(torch.from_numpy(unit(2, seed=1)), 5)
        assert found.shape == (2, 5) and (found[:, count:] == -1).all() and np.isneginf(scores[:, count:]).all()
        assert sorted(found[0, :count].tolist()) == list(range(count))
        assert search.search(torch.zeros(0, 48), 5)[1].shape == (0, 5)


def test_rounding_of_the_scan_loses_no_near_tie() -> None:
    """60 vectors within the step of a float16 product: the scan cannot order them, the sum in float32 does."""
    base = unit(1, 48)[0]
    vectors = np.stack([base * (1 - 2e-6 * i) for i in range(60)]).astype(np.float32)
    search = halved(vectors, np.arange(60))
    expected = vectors.astype(np.float16).astype(np.float64) @ base.astype(np.float16).astype(np.float64)
    scores, _ = search.search(torch.from_numpy(base[None]), 5)
    np.testing.assert_allclose(scores[0], np.sort(expected)[::-1][:5], atol=1e-6)
