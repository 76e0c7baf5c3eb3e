"""When FAISS may search on a GPU, what each kind of index becomes there, and how FAISS is set up."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest
import torch

from indexes.store import search_faiss_gpu
from indexes.store.entity_index import open_search
from indexes.store.keys import Keys
from indexes.store.manifest import SearchKind, SearchRecord
from indexes.store.recall import HeldOutQueries
from indexes.store.search import DeviceSearch
from indexes.store.search_faiss_gpu import FaissGpu, FaissGpuCodes, FaissGpuVectors
from indexes.store.search_kinds import write_search
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
    with pytest.raises(ValueError, match=r'is searched by Milvus, .*; set search.gpu = "torch"'):
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
        assert isinstance(search, expected) and search.shape == (1000, width)
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
        search = FaissGpuVectors.of(torch.from_numpy(clustered(20, 8)).half().to("cuda:0"))
        for number in (3, 9):
            stream = torch.cuda.Stream()
            stream.cuda_stream = number
            monkeypatch.setattr(torch.cuda, "current_stream", lambda _, stream=stream: stream)
            search.search(torch.from_numpy(clustered(2, 8)), 4)
    [resources] = fake.resources
    assert resources.temporary == 256 * 2**20 and resources.streams == [(0, 3), (0, 9)]
