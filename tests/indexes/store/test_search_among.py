"""Searches that may find only some rows: every kind finds what brute force finds among these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from indexes.store import search as searching
from indexes.store.engines import Search
from indexes.store.entity_index import open_search
from indexes.store.keys import Keys
from indexes.store.manifest import SearchKind
from indexes.store.recall import HeldOutQueries
from indexes.store.search import BestKeySearch, DeviceSearch, FaissSearch, RescoredSearch, scanned
from indexes.store.search_faiss_gpu import FaissGpuVectors, WithSelections
from indexes.store.search_kinds import write_search
from retriever.types import BoolArray, FloatArray, IntArray
from tests.fakes.vectors import clustered

COUNT, WIDTH, K = 3000, 32, 20
VECTORS = clustered(COUNT, WIDTH)
ROWS = np.delete(np.arange(COUNT), [0, 17, 18, 2999])  # some have no key
QUERIES = clustered(40, WIDTH, seed=1)
KINDS: list[SearchKind] = ["flat", "sq8", "hnsw", "ivf-pq"]


def brute_force(among: BoolArray, k: int = K) -> tuple[FloatArray, IntArray]:
    """The best of the rows that have a key and may be found, in float64, padded."""
    rows = ROWS[among[ROWS]]
    products = QUERIES.astype(np.float64) @ VECTORS.astype(np.float16).astype(np.float64)[rows].T
    order = np.argsort(-products, axis=1)[:, :k]
    scores, found = np.full((len(QUERIES), k), -np.inf, np.float32), np.full((len(QUERIES), k), -1)
    scores[:, : order.shape[1]], found[:, : order.shape[1]] = np.take_along_axis(products, order, axis=1), rows[order]
    return scores, found


def recall(found: IntArray, exact: IntArray) -> float:
    pairs = zip(found.tolist(), exact.tolist(), strict=True)
    return float(np.mean([len(set(a) & set(b)) / len(set(b)) for a, b in pairs]))  # padding counts as a row


def selection(share: float, seed: int = 0) -> BoolArray:
    return np.random.default_rng(seed).random(COUNT) < share


@pytest.mark.parametrize("share", [0.0, 0.003, 0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_finds_what_brute_force_finds(tmp_path: Path, kind: SearchKind, share: float) -> None:
    queries, among = torch.from_numpy(QUERIES), selection(share)
    record = write_search(tmp_path, Keys((VECTORS,), ROWS), kind, HeldOutQueries(queries, "others"))
    exact = brute_force(among)
    for search in (open_search(tmp_path, record), DeviceSearch.read(tmp_path, record, "cpu")):
        scores, found = search.search(queries, K, among)
        assert ((found >= 0) == (exact[1] >= 0)).all() and among[found[found >= 0]].all()
        assert recall(found, exact[1]) >= 0.999  # near ties may swap where queries are rounded to float16
        np.testing.assert_allclose(scores, exact[0], atol=1e-3)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("kind", ["sq8", "hnsw", "ivf-pq"])
def test_larger_selections_are_searched_approximately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: SearchKind, share: float
) -> None:
    """As many of the selected keys are looked at as of all keys without a selection, so that recall stays."""
    monkeypatch.setattr(searching, "SCANNED", 0)
    monkeypatch.setattr(searching, "scanned", None)
    queries, among = torch.from_numpy(QUERIES), selection(share)
    record = write_search(tmp_path, Keys((VECTORS,), ROWS), kind, HeldOutQueries(queries, "others"))
    scores, found = open_search(tmp_path, record).search(queries, K, among)
    exact = brute_force(among)
    assert among[found[found >= 0]].all() and recall(found, exact[1]) >= 0.98
    assert (np.diff(scores[scores[:, -1] > 0], axis=1) <= 0).all()


@pytest.mark.parametrize("share", [0.02, None])
def test_an_entity_is_found_by_any_of_its_keys_if_it_is_selected(tmp_path: Path, share: float | None) -> None:
    """Of 2,000 entities with 1,000 further keys: the best key of each selected one, counted once."""
    owners = np.sort(np.random.default_rng(2).integers(0, 2000, 1000))
    among = None if share is None else np.random.default_rng(3).random(2000) < share
    queries = torch.from_numpy(QUERIES)
    record = write_search(tmp_path, Keys((VECTORS,), np.arange(3000), owners), "hnsw", HeldOutQueries(queries, ""))
    search = BestKeySearch(open_search(tmp_path, record), 2000, owners)
    products = QUERIES @ VECTORS.astype(np.float16).astype(np.float32).T
    best = products[:, :2000].copy()
    for key, owner in enumerate(owners.tolist()):
        best[:, owner] = np.maximum(best[:, owner], products[:, 2000 + key])
    if among is not None:
        best[:, ~among] = -np.inf
    order = np.argsort(-best, axis=1)[:, :K]
    scores, rows = search.search(queries, K, among)
    assert recall(rows, order) >= (0.98 if among is None else 1)
    same = rows == order
    np.testing.assert_allclose(scores[same], np.take_along_axis(best, order, axis=1)[same], atol=1e-6)
    few = np.zeros(2000, np.bool_)
    few[[7, 11]] = True
    assert all(sorted(row) == [-1, 7, 11] for row in search.search(queries, 3, few)[1].tolist())


def test_a_scan_in_parts_is_one_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, halves = np.flatnonzero(selection(0.2)), VECTORS.astype(np.float16)
    whole = scanned(halves, torch.from_numpy(QUERIES), rows, K)
    monkeypatch.setattr(searching, "_TOGETHER", 13)
    scores, found = scanned(halves, torch.from_numpy(QUERIES), rows, K)
    np.testing.assert_allclose(scores, whole[0], atol=1e-6)
    np.testing.assert_array_equal(found, whole[1])


def test_the_cpu_searches_selections_for_faiss_on_a_gpu(tmp_path: Path) -> None:
    class OnGpu(FaissGpuVectors):
        def __init__(self) -> None:
            self.shape = (1, WIDTH)

        def search(self, vectors: torch.Tensor, k: int) -> tuple[FloatArray, IntArray]:
            return np.zeros((len(vectors), k), np.float32), np.full((len(vectors), k), 5)

    queries = torch.from_numpy(QUERIES)
    record = write_search(tmp_path, Keys((VECTORS,), ROWS), "flat", HeldOutQueries(queries, "others"))
    opened = list[Search]()

    def on_cpu() -> Search:
        opened.append(open_search(tmp_path, record))
        return opened[-1]

    search, among = WithSelections(OnGpu(), on_cpu), selection(0.1)
    assert (search.search(queries, K)[1] == 5).all() and not opened
    np.testing.assert_array_equal(search.search(queries, K, among)[1], brute_force(among)[1])
    assert isinstance(opened[0], FaissSearch) and not isinstance(opened[0], RescoredSearch)
