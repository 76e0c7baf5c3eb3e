"""A FAISS for GPUs that is a fake: its GPU classes by their names, on the CPU.

They take pointers and have the limits of FAISS's own kernels, according to its source (`faiss/gpu`). Everything else is
the installed FAISS's.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import faiss
import numpy as np

from retriever.types import FloatArray

MOST = 2048
SHARED_MEMORY = 48 << 10
CODE_SIZES = {1, 2, 3, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96}


class FakeFaiss:
    """The module.

    Args:
        gpus: Number of GPUs.
        cuvs: Whether it is built with cuVS.
    """

    def __init__(self, gpus: int = 1, cuvs: bool = False) -> None:
        self.gpus, self.cuvs = gpus, cuvs
        self.resources: list[Resources] = []
        self.searches: list[tuple[str, int, int, int]] = []
        """The class of the index, the number of queries, `k` and the stream of each search."""

    def __getattr__(self, name: str) -> Any:
        return getattr(faiss, name)

    def get_num_gpus(self) -> int:
        return self.gpus

    def StandardGpuResources(self) -> Resources:
        self.resources.append(Resources())
        return self.resources[-1]

    def GpuIndexFlatConfig(self) -> SimpleNamespace:
        return SimpleNamespace(device=0, useFloat16=False, use_cuvs=self.cuvs)

    def GpuClonerOptions(self) -> SimpleNamespace:
        return SimpleNamespace(useFloat16=False, useFloat16CoarseQuantizer=False, use_cuvs=self.cuvs)

    def GpuIndexFlatIP(self, resources: Resources, length: int, config: SimpleNamespace) -> GpuIndex:
        kind = faiss.ScalarQuantizer.QT_fp16
        assert config.useFloat16 and not config.use_cuvs
        index = faiss.IndexScalarQuantizer(length, kind, faiss.METRIC_INNER_PRODUCT)
        return GpuIndex(self, resources, config.device, "GpuIndexFlatIP", index)

    def index_cpu_to_gpu(self, resources: Resources, device: int, index: Any, options: SimpleNamespace) -> GpuIndex:
        require(isinstance(index, faiss.IndexIVFPQ), "This index type is not implemented on GPU.")
        require(index.by_residual and index.metric_type == faiss.METRIC_INNER_PRODUCT, "not supported")
        require(0 < index.nprobe <= MOST, "GPU IVF index only supports nprobe selection up to 2048")
        if not options.use_cuvs:
            require(index.pq.nbits == 8, "GPU: only pq.nbits == 8 is supported")
            require(index.pq.M in CODE_SIZES and index.d % index.pq.M == 0, "Number of bytes is not supported")
            needed = (2 if options.useFloat16 else 4) * index.pq.M * 256
            require(needed <= SHARED_MEMORY, "Consider useFloat16LookupTables and/or reduce parameters")
        return GpuIndex(self, resources, device, "GpuIndexIVFPQ", faiss.clone_index(index))

    def cast_integer_to_cudastream_t(self, stream: int) -> int:
        return stream


class Resources:
    """`StandardGpuResources`: what they were told."""

    def __init__(self) -> None:
        self.temporary: int | None = None
        self.streams: list[tuple[int, int]] = []

    def setTempMemory(self, size: int) -> None:
        self.temporary = size

    def setDefaultStream(self, device: int, stream: int) -> None:
        self.streams.append((device, stream))


class GpuIndex:
    """An index that is searched on the CPU."""

    def __init__(self, module: FakeFaiss, resources: Resources, device: int, kind: str, index: Any) -> None:
        self._module, self._resources, self.device, self.kind, self.index = module, resources, device, kind, index

    @property
    def ntotal(self) -> int:
        return int(self.index.ntotal)

    @property
    def d(self) -> int:
        return int(self.index.d)

    def add(self, vectors: FloatArray) -> None:
        self.index.add(vectors)

    def search_ex(self, count: int, queries: Any, numeric_type: int, k: int, scores: Any, ids: Any) -> None:
        require(0 < k <= MOST, f"GPU index only supports min/max-K selection up to {MOST} (requested {k})")
        require(numeric_type == faiss.Float32, "unsupported numeric type")
        assert self._resources.streams, "the stream of PyTorch was not set"
        self._module.searches.append((self.kind, count, k, self._resources.streams[-1][1]))
        if count:
            asked = faiss.rev_swig_ptr(queries, count * self.d).reshape(count, self.d)
            if self.kind == "GpuIndexFlatIP":
                asked = asked.astype(np.float16).astype(np.float32)
            self.index.search_ex(count, faiss.swig_ptr(asked), numeric_type, k, scores, ids)


def require(true: bool, message: str) -> None:
    """Raises what FAISS raises."""
    if not true:
        raise RuntimeError(message)
