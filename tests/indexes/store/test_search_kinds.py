from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import torch

from indexes.store import search_kinds
from indexes.store.entity_index import open_search
from indexes.store.keys import Keys
from indexes.store.manifest import SearchKind
from indexes.store.recall import HeldOutQueries
from indexes.store.search import load_vectors, read_faiss
from indexes.store.search_kinds import FLAT_UP_TO, choose_kind, describe, lists_for, write_search
from tests.fakes.vectors import clustered

NONE = HeldOutQueries(torch.zeros(0, 32), "none")


def test_the_kind_is_chosen_by_the_number_of_entities() -> None:
    assert choose_kind("auto", 0) == choose_kind("auto", FLAT_UP_TO) == "flat"
    assert choose_kind("auto", FLAT_UP_TO + 1) == "ivf-pq"
    assert choose_kind("flat", 10**7) == choose_kind("flat", 0) == "flat"
    assert choose_kind("hnsw", 1000) == "hnsw"
    with pytest.raises(ValueError, match=r"search\.kind = 'hnsw' needs at least 1000 .* got 999; use 'flat'"):
        choose_kind("hnsw", 999)


def test_lists_and_codes() -> None:
    # 4 * sqrt(n), to a power of two, unless too few vectors are left to train a list (40) or it is above 4,096
    assert [lists_for(n) for n in (1, 1000, 10_000, 100_000, 1_000_000, 10**8)] == [1, 16, 128, 1024, 4096, 4096]
    assert describe("ivf-pq", 1_000_000, 2560) == "IVF4096,PQ320x4fsr"
    assert describe("ivf-pq", 1_000_000, 36) == "IVF4096,PQ9x4fsr"
    assert describe("ivf-pq", 1_000_000, 7) == "IVF4096,PQ7x4fsr"


@pytest.mark.parametrize("kind", ["flat", "sq8", "hnsw", "ivf-pq"])
def test_the_same_keys_make_the_same_files_whatever_the_blocks_of_input(
    tmp_path: Path, kind: SearchKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = clustered(1500, 32)
    keys = Keys((vectors,), np.delete(np.arange(1500), [3, 700]))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_search(tmp_path / name, keys, kind, NONE)
    for file in ("entities.faiss", "vectors.npy"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    monkeypatch.setattr("indexes.store.keys.BLOCK", 100)
    write_search(tmp_path / "b", keys, kind, NONE)
    assert (tmp_path / "a" / "vectors.npy").read_bytes() == (tmp_path / "b" / "vectors.npy").read_bytes()
    if kind != "hnsw":  # HNSW draws its levels block by block
        assert (tmp_path / "a" / "entities.faiss").read_bytes() == (tmp_path / "b" / "entities.faiss").read_bytes()
    held = load_vectors(tmp_path / "a")
    if kind == "flat":
        assert held.shape == (0, 32)
    else:
        expected = vectors.astype(np.float16)
        expected[[3, 700]] = 0
        np.testing.assert_array_equal(held, expected)


def test_settings_are_the_cheapest_that_reach_the_target_and_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keys = Keys((clustered(4000, 32),), np.arange(4000))
    queries = HeldOutQueries(torch.from_numpy(clustered(64, 32, seed=1)), "64 other vectors")

    def build(target: float) -> tuple[int, int, float]:
        monkeypatch.setattr("indexes.store.search_kinds.TARGET", target)
        record = write_search(tmp_path, keys, "ivf-pq", queries)
        ivf = faiss.extract_index_ivf(read_faiss(tmp_path))
        assert ivf.nprobe == record.parameters["nprobe"] and record.queries == "64 other vectors"
        assert record.recall is not None and record.k == 20
        found = open_search(tmp_path, record).search(queries.vectors, 20)[1]
        best = np.argsort(-(queries.vectors.numpy() @ keys.parts[0].T), axis=1)[:, :20]
        by_hand = np.mean([len(set(a) & set(b)) for a, b in zip(found.tolist(), best.tolist(), strict=True)]) / 20
        assert record.recall == pytest.approx(by_hand, abs=2e-3)  # float16 may swap two that are equal in float32
        return ivf.nprobe, record.rescored, record.recall

    low, high = build(0.5), build(0.98)
    assert low[2] >= 0.5 and high[2] >= 0.98
    assert low[0] <= high[0] and low[1] * low[0] < high[1] * high[0]
    assert not caplog.records
    build(1.1)  # unreachable: the best available, with a warning
    assert "recall@20 of the entity index is" in caplog.text and "set search.kind to 'hnsw' or 'flat'" in caplog.text


def test_too_few_keys_are_refused(tmp_path: Path) -> None:
    keys = Keys((clustered(2000, 32),), np.arange(500))
    with pytest.raises(ValueError, match="at least 1000 searchable entities, got 500"):
        write_search(tmp_path, keys, "sq8", NONE)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(index: object, path: str) -> None:
        raise RuntimeError("no space left on device")

    monkeypatch.setattr(faiss, "write_index", full)
    with pytest.raises(OSError, match=r"entities\.faiss\.partial: cannot be written: no space left"):
        write_search(tmp_path, Keys((clustered(20, 8),), np.arange(20)), "flat", HeldOutQueries(torch.zeros(0, 8), ""))
    assert [path.name for path in tmp_path.iterdir()] == ["vectors.npy"]


@pytest.mark.parametrize("kind", ["flat", "sq8", "hnsw"])
def test_memory_for_all_codes_is_taken_at_once(kind: SearchKind) -> None:
    vectors = clustered(3000, 32)
    inner = faiss.index_factory(32, describe(kind, 3000, 32), faiss.METRIC_INNER_PRODUCT)
    inner.train(vectors)
    index = faiss.IndexIDMap(inner)
    search_kinds._reserve(index, 3000)
    storage: Any = inner
    if kind == "hnsw":
        storage = faiss.downcast_index(storage.storage)
    codes = storage.codes
    place = int(codes.data())
    for start in range(0, 3000, 500):
        index.add_with_ids(vectors[start : start + 500], np.arange(start, start + 500))
    assert codes.size() == 3000 * (64 if kind == "flat" else 32)
    assert int(codes.data()) == place  # if they had grown, they would have moved, and been in memory twice meanwhile
