"""Vectors that lie in clusters, as embeddings do."""

from __future__ import annotations

import numpy as np

from retriever.types import FloatArray


def clustered(count: int, width: int, seed: int = 0) -> FloatArray:
    """Returns unit vectors, float32 [count, width], around the same 20 centers for every seed."""
    centers = np.random.default_rng(1234).normal(size=(20, width))
    draw = np.random.default_rng(seed)
    vectors = centers[draw.integers(0, len(centers), count)] + 0.6 * draw.normal(size=(count, width))
    unit: FloatArray = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit
