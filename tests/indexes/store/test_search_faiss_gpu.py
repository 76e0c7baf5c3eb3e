"""When FAISS may search on a GPU, what each kind of index becomes there, and how FAISS is set up.

Codes for FAISS on a GPU give the scores of the 4-bit codes that they were made of.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import torch

from indexes.store import search_faiss_gpu
from indexes.store.entity_index import open_search
from indexes.store.keys import Keys
from indexes.store.manifest import SearchKind, SearchRecord
from indexes.store.recall import HeldOutQueries
from indexes.store.search import DeviceSearch, read_faiss
from indexes.store.search_faiss_gpu import FaissGpu, FaissGpuCodes, FaissGpuVectors, WithSelections, as_byte_codes
from indexes.store.search_kinds import describe, write_search
from tests.fakes.faiss_gpu import FakeFaiss
from tests.fakes.vectors import clustered
from tests.gpu.pretend import pretend_cuda


def written(folder: Path, kind: SearchKind, width: int = 16) -> SearchRecord:
    keys = Keys((clustered(1000, width),), np.arange(1000))
    return write_search(folder, keys, kind, HeldOutQueries(torch.zeros(0, width), "none"))


def with_fake(monkeypatch: pytest.MonkeyPatch, fake: FakeFaiss) -> FakeFaiss:
    monkeypatch.setattr(search_faiss_gpu, "faiss", fake)
    return fake


@pytest.mark.skipif(hasattr(faiss, "StandardGpuResources"), reason="the installed FAISS has GPU support")
def test_a_faiss_for_cpus_cannot() -> None:
    with pretend_cuda(), pytest.raises(ValueError) as raised:
        FaissGpu("cuda")
    assert str(raised.value) == (
        'search.gpu = "faiss" needs FAISS for GPUs, but the installed one is for CPUs: pip uninstall faiss-cpu, then '
        'pip install "omgm[faiss-gpu]"; or set search.gpu = "torch"'
    )


def test_a_cpu_cannot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_fake(monkeypatch, FakeFaiss())
    record = written(tmp_path, "flat")
    with pytest.raises(ValueError, match=r'needs a GPU, but the device is the CPU; set search.gpu = "torch"'):
        open_search(tmp_path, record, "cpu", "faiss")


def test_a_gpu_that_faiss_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    with_fake(monkeypatch, FakeFaiss(gpus=0))
    with pretend_cuda(), pytest.raises(ValueError, match=r'FAISS sees no GPU; .*, or set search.gpu = "torch"'):
        FaissGpu("cuda")


def test_milvus_searches_itself(tmp_path: Path) -> None:
    record = SearchRecord(kind="milvus", faiss="", rescored=2)
    with pytest.raises(ValueError, match=r'is searched by milvus, .*; set search.gpu = "torch"'):
        open_search(tmp_path, record, "cuda", "faiss")


def test_torch_needs_no_faiss_for_gpus(tmp_path: Path) -> None:
    record = written(tmp_path, "sq8")
    with pretend_cuda():
        assert isinstance(open_search(tmp_path, record, "cuda", "torch"), DeviceSearch)
        assert isinstance(open_search(tmp_path, record, "cuda"), DeviceSearch)


@pytest.mark.parametrize(
    ("kind", "width", "cuvs", "expected", "searched"),
    [
        ("flat", 16, False, FaissGpuVectors, "GpuIndexFlatIP"),
        ("sq8", 16, True, FaissGpuVectors, "GpuIndexFlatIP"),
        ("hnsw", 16, False, FaissGpuVectors, "GpuIndexFlatIP"),
        ("ivf-pq", 16, False, FaissGpuCodes, "GpuIndexIVFPQ"),
        ("ivf-pq", 16, True, FaissGpuCodes, "GpuIndexIVFPQ"),
        ("ivf-pq", 1544, False, FaissGpuVectors, "GpuIndexFlatIP"),
        ("ivf-pq", 1544, True, FaissGpuCodes, "GpuIndexIVFPQ"),
    ],
)
def test_what_each_kind_becomes(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    kind: SearchKind,
    width: int,
    cuvs: bool,
    expected: type,
    searched: str,
) -> None:
    fake, record = with_fake(monkeypatch, FakeFaiss(cuvs=cuvs)), written(tmp_path, kind, width)
    caplog.clear()
    with pretend_cuda():
        search = open_search(tmp_path, record, "cuda", "faiss")
        assert (
            isinstance(search, WithSelections) and isinstance(search.on_gpu, expected) and search.shape == (1000, width)
        )
        stream = torch.cuda.Stream()
        stream.cuda_stream = 7
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _: stream)
        search.search(torch.from_numpy(clustered(3, width, seed=1)), 4)
    depth = 4 if expected is FaissGpuVectors else min(20 * record.rescored, 1000)
    assert fake.searches == [(searched, 3, depth, 7)]
    told = [line for line in caplog.messages if "FAISS has no form of ivf-pq (IVF" in line]
    assert len(told) == len(caplog.messages) == (kind == "ivf-pq" and expected is FaissGpuVectors)


def test_memory_and_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search runs in the stream of its caller, and temporary memory has a bound."""
    fake = with_fake(monkeypatch, FakeFaiss())
    with pretend_cuda():
        vectors = clustered(20, 8).astype(np.float16)
        search = FaissGpuVectors(FaissGpu("cuda:0"), lambda start, stop: vectors[start:stop], 8, np.arange(20))
        for number in (3, 9):
            stream = torch.cuda.Stream()
            stream.cuda_stream = number
            monkeypatch.setattr(torch.cuda, "current_stream", lambda _, stream=stream: stream)
            search.search(torch.from_numpy(clustered(2, 8)), 4)
    [resources] = fake.resources
    assert resources.temporary == 256 * 2**20 and resources.streams == [(0, 3), (0, 9)]


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
