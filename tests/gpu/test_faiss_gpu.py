"""FAISS on a GPU against FAISS on the CPU and PyTorch on the GPU: pretended with a fake FAISS, or real."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from indexes.live.editor import Editor
from indexes.store import search_faiss_gpu
from indexes.store.engines import Search
from indexes.store.entity_index import open_search
from indexes.store.keys import Keys
from indexes.store.manifest import SearchKind, SearchRecord
from indexes.store.recall import HeldOutQueries
from indexes.store.search import BestKeySearch, DeviceSearch
from indexes.store.search_faiss_gpu import (
    MOST,
    FaissGpu,
    FaissGpuCodes,
    FaissGpuVectors,
    WithSelections,
)
from indexes.store.search_kinds import write_search
from retriever.types import FloatArray, IntArray
from tests.fakes.faiss_gpu import FakeFaiss
from tests.fakes.live import BASE, World, painting
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.vectors import clustered
from tests.gpu.conftest import Card, Device

WIDTH = 32


@pytest.fixture
def library(cuda: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeFaiss | None]:
    """A fake FAISS on a pretended device; `None` for the real one."""
    if not isinstance(cuda, Card):
        monkeypatch.setattr(search_faiss_gpu, "faiss", fake := FakeFaiss())
        yield fake
    elif hasattr(faiss, "StandardGpuResources"):
        yield None
    else:
        pytest.skip("the installed FAISS has no GPU support")


def halves(count: int, seed: int = 0) -> NDArray[np.float16]:
    return clustered(count, WIDTH, seed).astype(np.float16)


def searching(vectors: NDArray[np.float16], rows: IntArray, block: int = 1000) -> FaissGpuVectors:
    return FaissGpuVectors(FaissGpu("cuda"), lambda start, stop: vectors[start:stop], WIDTH, rows, block)


def written(folder: Path, kind: SearchKind, vectors: FloatArray, rows: IntArray, queries: FloatArray) -> SearchRecord:
    return write_search(folder, Keys((vectors,), rows), kind, HeldOutQueries(torch.from_numpy(queries), "others"))


def same(one: tuple[FloatArray, IntArray], other: tuple[FloatArray, IntArray], loss: float) -> None:
    """Checks scores, and rows except where two scores are too close to tell which is better."""
    assert one[0].dtype == np.float32 and one[1].dtype == np.int64
    np.testing.assert_allclose(one[0], other[0], atol=loss)
    np.testing.assert_array_equal(one[1] < 0, other[1] < 0)
    for first, second in zip(one[1], other[1], strict=True):
        assert len(set(first.tolist()) & set(second.tolist())) >= 0.9 * len(set(second.tolist()))


@pytest.mark.parametrize("size", [1000, 300, 999])
def test_vectors_are_searched_exactly(library: FakeFaiss | None, size: int) -> None:
    vectors, rows = halves(1000), np.arange(1000) * 3 + 1
    queries = torch.from_numpy(clustered(6, WIDTH, seed=1))
    search = searching(vectors, rows, size)
    assert search.shape == (1000, WIDTH)
    scores, found = search.search(queries, 20)
    rounded = queries.numpy().astype(np.float16).astype(np.float64)
    products = rounded @ vectors.astype(np.float64).T
    order = np.argsort(-products, axis=1)[:, :20]
    same((scores, found), (np.take_along_axis(products, order, axis=1).astype(np.float32), rows[order]), 1e-5)
    assert (np.diff(scores) <= 0).all()
    on_device = DeviceSearch(torch.from_numpy(vectors).to("cuda"), torch.from_numpy(rows).to("cuda"))
    same((scores, found), on_device.search(queries, 20), 1e-3)


@pytest.mark.parametrize("kind", ["flat", "sq8", "hnsw", "ivf-pq"])
def test_each_kind_finds_what_it_finds_on_the_cpu(library: FakeFaiss | None, tmp_path: Path, kind: SearchKind) -> None:
    vectors, queries = clustered(3000, WIDTH), clustered(40, WIDTH, seed=1)
    rows = np.delete(np.arange(3000), [0, 17, 18, 2999])  # some have no key
    record = written(tmp_path, kind, vectors, rows, queries)
    asked = torch.from_numpy(queries)
    search = open_search(tmp_path, record, "cuda", "faiss")
    assert isinstance(search, WithSelections)
    assert isinstance(search.on_gpu, FaissGpuCodes if kind == "ivf-pq" else FaissGpuVectors)
    assert search.shape == open_search(tmp_path, record).shape == (2996, WIDTH)
    scores, found = search.search(asked.to("cuda"), 20)
    products = np.einsum("qd,qnd->qn", queries, vectors.astype(np.float16).astype(np.float32)[found])
    np.testing.assert_allclose(scores, products, atol=1e-6 if kind == "ivf-pq" else 1e-3)
    exact = DeviceSearch.read(tmp_path, record, "cuda").search(asked, 20)[1]
    right = np.mean([len(set(a) & set(b)) / 20 for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
    assert right >= (0.98 if kind == "ivf-pq" else 0.995)  # exactly the same but for rounded scores that are equal
    again = search.search(asked, 3)
    np.testing.assert_array_equal(again[1], found[:, :3])


def test_an_index_of_format_version_2(library: FakeFaiss | None, tmp_path: Path) -> None:
    vectors = clustered(60, WIDTH)
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(WIDTH))
    index.add_with_ids(vectors, np.arange(60) * 3)
    faiss.write_index(index, str(tmp_path / "entities.faiss"))
    asked = torch.from_numpy(clustered(4, WIDTH, seed=3))
    same(
        open_search(tmp_path, None, "cuda", "faiss").search(asked, 5),
        open_search(tmp_path, None).search(asked, 5),
        1e-3,
    )


@pytest.mark.parametrize("count", [0, 3])
def test_more_asked_than_there_are(library: FakeFaiss | None, tmp_path: Path, count: int) -> None:
    record = written(tmp_path, "flat", clustered(count, WIDTH), np.arange(count), clustered(0, WIDTH))
    search = open_search(tmp_path, record, "cuda", "faiss")
    scores, rows = search.search(torch.from_numpy(clustered(2, WIDTH, seed=1)), 5)
    assert rows.shape == (2, 5) and (rows[:, count:] == -1).all() and np.isneginf(scores[:, count:]).all()
    assert sorted(rows[0, :count].tolist()) == list(range(count))
    assert search.search(torch.zeros(0, WIDTH), 5)[1].shape == (0, 5)
    assert search.search(torch.zeros(1, WIDTH), 5)[1].shape == (1, 5)


def test_more_asked_than_codes_are_found(library: FakeFaiss | None, tmp_path: Path) -> None:
    vectors = clustered(1000, WIDTH)
    record = written(tmp_path, "ivf-pq", vectors, np.arange(1000), clustered(0, WIDTH))
    index = faiss.read_index(str(tmp_path / "entities.faiss"))
    faiss.ParameterSpace().set_index_parameter(index, "nprobe", 1)  # of many lists
    faiss.write_index(index, str(tmp_path / "entities.faiss"))
    search = open_search(tmp_path, record.model_copy(update={"rescored": 2}), "cuda", "faiss")
    scores, rows = search.search(torch.from_numpy(vectors[:2]), 1500)
    assert rows.shape == (2, 1500) and (rows[:, 1000:] == -1).all()
    assert ((rows < 0) == np.isneginf(scores)).all() and (rows[:, 0] == [0, 1]).all()
    assert search.search(torch.zeros(0, WIDTH), 5)[1].shape == (0, 5)


def test_a_search_waits_once(library: FakeFaiss | None, cuda: Device, tmp_path: Path) -> None:
    vectors, rows = halves(1000), np.arange(1000)
    exact = searching(vectors, rows, 300)
    record = written(tmp_path, "ivf-pq", clustered(1000, WIDTH), rows, clustered(0, WIDTH))
    searches: list[Search] = [open_search(tmp_path, record, "cuda", "faiss")]
    searches.insert(0, WithSelections(exact, lambda: searches[1]))
    searches += [DeviceSearch(torch.from_numpy(vectors).to("cuda"), torch.arange(1000).to("cuda"), block=300)]
    searches += [BestKeySearch(one, 800, np.arange(200)) for one in searches]
    asked = torch.from_numpy(clustered(4, WIDTH, seed=2))
    for search in searches:
        for queries in (asked, asked.to("cuda")):
            search.search(queries, 5)
            with cuda.counting() as waits:
                search.search(queries, 5)
            assert len(waits) == 1, (search, waits)


def test_keys_of_one_entity_are_found_once(library: FakeFaiss | None, tmp_path: Path) -> None:
    vectors, owners = clustered(600, WIDTH), np.sort(np.arange(200) % 50)
    record = written(tmp_path, "flat", vectors, np.arange(600), clustered(0, WIDTH))
    found = [
        BestKeySearch(open_search(tmp_path, record, device, "faiss" if device == "cuda" else "torch"), 400, owners)
        for device in ("cpu", "cuda")
    ]
    asked = torch.from_numpy(clustered(4, WIDTH, seed=2))
    same(found[1].search(asked, 10), found[0].search(asked, 10), 1e-3)


def test_the_most_that_is_found(library: FakeFaiss | None, caplog: pytest.LogCaptureFixture) -> None:
    search_faiss_gpu._report_limit.cache_clear()
    rows = np.arange(MOST + 500)
    search = searching(halves(len(rows)), rows, MOST)
    queries = torch.from_numpy(clustered(2, WIDTH, seed=1))
    assert (search.search(queries, MOST)[1] >= 0).all() and not caplog.records
    for _ in range(2):
        found = search.search(queries, MOST + 7)[1]
        assert found.shape == (2, MOST + 7) and (found[:, :MOST] >= 0).all() and (found[:, MOST:] == -1).all()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert 'at most 2048 keys per query on a GPU; to find more, set search.gpu = "torch"' in caplog.text


def test_searches_of_several_threads(library: FakeFaiss | None) -> None:
    search = searching(halves(1000), np.arange(1000))
    queries = torch.from_numpy(clustered(64, WIDTH, seed=1))
    alone = search.search(queries, 5)[1]

    def ask(part: torch.Tensor) -> IntArray:
        with torch.cuda.stream(torch.cuda.Stream()):
            return search.search(part.to("cuda"), 5)[1]

    with ThreadPoolExecutor(4) as threads:
        np.testing.assert_array_equal(np.concatenate(list(threads.map(ask, queries.split(4)))), alone)


def test_an_index_keeps_its_library(library: FakeFaiss | None, tmp_path: Path) -> None:
    """After a compaction of its own, or of another process."""
    world = World(tmp_path, BASE)
    options: dict[str, Any] = {"device": "cuda", "gpu_search": "faiss"}
    writer, reader = world.open(write=True, **options), world.open(**options)
    Editor(writer, FakeSummarizer, FakeEncoder(), FakeFusion()).remove(["kb/c"])
    assert writer.compact() and reader.refresh()
    writer.close()
    asked = FakeEncoder().encode_images([painting(seed) for seed in range(6)])
    names = [
        [index.entity(row).id for row in index.search(asked, 3)[1].flatten().tolist()]
        for index in (world.open(), writer, reader)
    ]
    assert names[0] == names[1] == names[2] and len(names[0]) == 18
    searches = [index.version.base._search for index in (writer, reader)]
    assert all(isinstance(search, WithSelections) for search in searches)
