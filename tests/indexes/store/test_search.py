from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from indexes.store.entity_index import open_search
from indexes.store.keys import Keys
from indexes.store.manifest import SearchKind, SearchRecord
from indexes.store.recall import HeldOutQueries
from indexes.store.search import DeviceSearch, RescoredSearch, StoredVectors, load_vectors, padded, read_faiss, to_host
from indexes.store.search_kinds import write_search
from retriever.types import FloatArray, IntArray
from tests.fakes.vectors import clustered

QUERIES = HeldOutQueries(torch.zeros(0, 48), "none")
KINDS: list[SearchKind] = ["flat", "sq8", "hnsw", "ivf-pq"]


def unit(count: int, width: int = 48, seed: int = 0) -> FloatArray:
    vectors = np.random.default_rng(seed).normal(size=(count, width))
    unit_vectors: FloatArray = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit_vectors


def halved(vectors: FloatArray, rows: IntArray, block: int = 1 << 20) -> DeviceSearch:
    return DeviceSearch(torch.from_numpy(vectors).half(), torch.from_numpy(rows), block)


@pytest.mark.parametrize("block", [7, 100, 1000])
def test_both_exact_searches_find_what_a_full_sort_finds(tmp_path: Path, block: int) -> None:
    """Scores are those of float16 vectors and float32 queries, up to rounding in sums."""
    vectors, queries = unit(300), unit(5, seed=1)
    rows = np.arange(0, 300, 2)  # every other entity can be searched
    record = write_search(tmp_path, Keys((vectors,), rows), "flat", QUERIES)
    stored = vectors.astype(np.float16).astype(np.float64)
    products = queries.astype(np.float64) @ stored[rows].T
    order = np.argsort(-products, axis=1)[:, :10]
    on_device = halved(vectors[rows], rows, block)
    for search, loss in ((open_search(tmp_path, record), 1e-6), (on_device, 1e-3)):
        assert search.shape == (150, 48)
        scores, found = search.search(torch.from_numpy(queries), 10)
        assert scores.dtype == np.float32 and found.dtype == np.int64
        np.testing.assert_allclose(scores, np.take_along_axis(products, order, axis=1), atol=loss)
        np.testing.assert_array_equal(found, rows[order])


@pytest.mark.parametrize("kind", KINDS)
def test_a_device_searches_every_kind_exactly(tmp_path: Path, kind: SearchKind) -> None:
    vectors, rows = clustered(2200, 16), np.arange(0, 2200, 2)
    record = write_search(
        tmp_path, Keys((vectors[:, :8], vectors[:, 8:]), rows), kind, HeldOutQueries(torch.zeros(0, 16), "")
    )
    queries = torch.from_numpy(vectors[1:6])
    read, expected = DeviceSearch.read(tmp_path, record, "cpu"), halved(vectors[rows], rows)
    for one, other in zip(read.search(queries, 10), expected.search(queries, 10), strict=True):
        np.testing.assert_array_equal(one, other)
    stored = StoredVectors(tmp_path, record)
    np.testing.assert_array_equal(stored.rows, rows)
    np.testing.assert_array_equal(stored.read(3, 7), vectors[rows[3:7]].astype(np.float16))


@pytest.mark.parametrize("kind", ["sq8", "hnsw", "ivf-pq"])
def test_rescored_candidates_are_the_exact_best(tmp_path: Path, kind: SearchKind) -> None:
    """If the approximation loses nothing, rows and scores equal those computed by hand from float16 vectors."""
    vectors = clustered(3000, 32)
    rows = np.delete(np.arange(3000), [0, 17, 18, 2999])  # some have no key
    queries = torch.from_numpy(clustered(40, 32, seed=1))
    record = write_search(tmp_path, Keys((vectors,), rows), kind, HeldOutQueries(queries, "other vectors"))
    assert record.kind == kind and record.recall is not None and record.recall >= 0.98 and record.queries
    search = RescoredSearch(read_faiss(tmp_path), load_vectors(tmp_path), 10)
    products = queries.double().numpy() @ vectors.astype(np.float16).astype(np.float64)[rows].T
    order = np.argsort(-products, axis=1)[:, :20]
    scores, found = search.search(queries, 20)
    same = (found == rows[order]).all(axis=1)
    assert same.mean() >= 0.75
    np.testing.assert_allclose(scores[same], np.take_along_axis(products, order, axis=1)[same], atol=1e-6)
    right = np.mean([len(set(a) & set(b)) for a, b in zip(found.tolist(), rows[order].tolist(), strict=True)]) / 20
    assert right >= 0.98
    for number in range(5):
        alone = search.search(queries[number : number + 1], 20)
        np.testing.assert_array_equal(alone[1][0], found[number])
        np.testing.assert_array_equal(alone[0][0], scores[number])
    fewer = search.search(queries, 3)
    np.testing.assert_array_equal(fewer[1], found[:, :3])  # it always searches for 20


@pytest.mark.parametrize("weight", [0.0, 0.5, 0.95])
def test_a_weight_given_with_the_query_is_scored_exactly(tmp_path: Path, weight: float) -> None:
    """The halves of combined keys are weighed by the query, not by what FAISS was trained on."""
    image, text = clustered(2000, 16), clustered(2000, 16, seed=5)
    record = write_search(tmp_path, Keys((image, text), np.arange(2000)), "sq8", HeldOutQueries(torch.zeros(0, 32), ""))
    asked = clustered(6, 16, seed=2)
    queries = torch.from_numpy(np.concatenate([weight * asked, (1 - weight) * asked], axis=1))
    scores, rows = open_search(tmp_path, record).search(queries, 5)
    by_hand = weight * asked @ image.astype(np.float16).astype(np.float32).T
    by_hand += (1 - weight) * asked @ text.astype(np.float16).astype(np.float32).T
    np.testing.assert_allclose(scores, np.take_along_axis(by_hand, rows, axis=1), atol=1e-6)
    np.testing.assert_allclose(scores[:, 0], by_hand.max(axis=1), atol=1e-6)


@pytest.mark.parametrize("count", [0, 3])
def test_more_asked_than_there_are(tmp_path: Path, count: int) -> None:
    vectors, rows = unit(count).reshape(count, 48), np.arange(count)
    record = write_search(tmp_path, Keys((vectors,), rows), "flat", QUERIES)
    for search in (open_search(tmp_path, record), halved(vectors, rows), DeviceSearch.read(tmp_path, record, "cpu")):
        scores, found = search.search(torch.from_numpy(unit(2, seed=1)), 5)
        assert found.shape == (2, 5) and (found[:, count:] == -1).all() and np.isneginf(scores[:, count:]).all()
        assert sorted(found[0, :count].tolist()) == list(range(count))
        assert search.search(torch.zeros(0, 48), 5)[1].shape == (0, 5)


def test_more_asked_than_an_approximation_finds(tmp_path: Path) -> None:
    vectors = clustered(1000, 16)
    write_search(tmp_path, Keys((vectors,), np.arange(1000)), "ivf-pq", HeldOutQueries(torch.zeros(0, 16), ""))
    search = RescoredSearch(read_faiss(tmp_path), load_vectors(tmp_path), 2)  # only one of many lists is probed
    scores, rows = search.search(torch.from_numpy(vectors[:2]), 1500)
    assert rows.shape == (2, 1500) and (rows[:, 1000:] == -1).all()
    assert ((rows < 0) == np.isneginf(scores)).all() and (np.diff(scores[:, :5]) <= 0).all()
    assert search.search(torch.zeros(0, 16), 5)[1].shape == (0, 5)


def test_rounding_of_the_scan_loses_no_near_tie() -> None:
    """60 vectors within float16 resolution: the float16 scan cannot order them, the float32 sum can."""
    base = unit(1, 48)[0]
    vectors = np.stack([base * (1 - 2e-6 * i) for i in range(60)]).astype(np.float32)
    search = halved(vectors, np.arange(60))
    expected = vectors.astype(np.float16).astype(np.float64) @ base.astype(np.float16).astype(np.float64)
    scores, _ = search.search(torch.from_numpy(base[None]), 5)
    np.testing.assert_allclose(scores[0], np.sort(expected)[::-1][:5], atol=1e-6)


def test_values_come_from_a_device_as_they_are() -> None:
    parts = (torch.arange(7).bool(), torch.arange(6.0).view(2, 3).T, torch.zeros(2, 0), torch.tensor([[2**62]]))
    for one, other in zip(to_host(*parts), parts, strict=True):
        assert one.shape == tuple(other.shape) and one.dtype == other.numpy().dtype and (one == other.numpy()).all()


def test_padding() -> None:
    scores, rows = padded(3, np.array([[0.5, 0.1]], np.float32), np.array([[4, -1]]))
    np.testing.assert_array_equal(scores, np.array([[0.5, -np.inf, -np.inf]], np.float32))
    np.testing.assert_array_equal(rows, [[4, -1, -1]])
    assert scores.dtype == np.float32 and rows.dtype == np.int64


def test_the_record_says_what_was_chosen() -> None:
    record = SearchRecord(
        kind="ivf-pq",
        faiss="IVF64,PQ8x4fsr",
        parameters={"nprobe": 4},
        rescored=5,
        recall=0.98765,
        queries="256 main images",
    )
    assert str(record) == (
        "ivf-pq (IVF64,PQ8x4fsr, nprobe 4), 5 candidates rescored per result, recall@20 0.9877 on 256 main images"
    )
