"""The step `manifold`: candidates are ranked by their neighbors among the candidates, too (SCAR, manifold ranking)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from retriever.protocols import DualEncoder, Finish
from retriever.types import BoolArray, Candidate, FloatArray, Query

_Floats = NDArray[np.float64]

SPREAD = 0.9
"""Share of a candidate's score that goes to its neighbors in each step of the diffusion."""
NEIGHBORS = 10
"""Neighbors of a candidate in a view's graph, itself included."""
ALIKE, LESS, OVERLAP = 0.7, 0.8, 0.2
"""From this cosine of two graphs on, the second view has `LESS` weight, and of candidates in both `OVERLAP` of that."""
_TINY = 1e-10

Views = Callable[[int], Sequence[FloatArray]]
"""Returns the vectors of an entity in all views, the most telling view first; zeros where it has none."""


class Manifold:
    """Ranks candidates on a graph per view: their main images, and their summaries if these are keys, too.

    The sum over views of min-max scaled similarities, Y, spreads to F = (I - 0.9 S)^-1 Y, where S is the normalized
    Gaussian affinity of nearest neighbors. The rankings of all views are added as z-scores. As later steps use `sim_c`,
    the n-th candidate gets the n-th highest `sim_c` of all. `search.k` should exceed `keep`.

    Args:
        encoder: Step 1's model.
        views: Returns the vectors of an entity.
        keep: How many candidates stay.
    """

    name = "manifold"

    def __init__(self, encoder: DualEncoder, views: Views, keep: int = 20) -> None:
        self._encoder, self._views, self._keep = encoder, views, keep

    def start(self, queries: Sequence[Query]) -> Finish:
        """Encodes the images; the returned function ranks the candidates of each query."""
        vectors = self._encoder.encode_images([query.image for query in queries]).float().cpu().numpy()
        return lambda candidates: [self._ranked(*pair) for pair in zip(vectors, candidates, strict=True)]

    def _ranked(self, vector: FloatArray, candidates: list[Candidate]) -> list[Candidate]:
        if len(candidates) < 2:
            return candidates
        views = [np.stack(view) for view in zip(*(self._views(one.row) for one in candidates), strict=True)]
        order = np.argsort(-manifold_scores(vector, views), kind="stable")
        scores = sorted((candidate.sim_c or 0.0 for candidate in candidates), reverse=True)
        ranked = [candidates[place] for place in order.tolist()]
        for candidate, score in zip(ranked, scores, strict=True):
            candidate.sim_c = candidate.score = score
        return ranked[: self._keep]


def manifold_scores(vector: FloatArray, views: Sequence[FloatArray]) -> _Floats:
    """Returns scores [N] of candidates.

    Args:
        vector: The query's, L2-normalized [D].
        views: The candidates' in each view, [N, D], zeros where a candidate has none.
    """
    there = [np.linalg.norm(view, axis=1) > 1e-6 for view in views]
    seeds = np.zeros(len(views[0]))
    for view, known in zip(views, there, strict=True):
        sims = view[known] @ vector
        if known.any() and np.ptp(sims) > 1e-12:
            seeds[known] += (sims - sims.min()) / np.ptp(sims)
    graphs = [_graph(view, known) for view, known in zip(views, there, strict=True)]
    weights, scales = np.full(len(views), 1 / len(views)), np.ones((len(views), len(seeds)))
    for second, graph in enumerate(graphs):
        for first in range(second):
            both = there[first] & there[second]
            if both.any() and _cosine(graphs[first][np.ix_(both, both)], graph[np.ix_(both, both)]) >= ALIKE:
                weights[second] *= LESS
                scales[second][both] *= OVERLAP
    total = np.zeros(len(seeds))
    for graph, known, weight, scale in zip(graphs, there, weights / weights.sum(), scales, strict=True):
        spread = np.linalg.solve(np.eye(len(seeds)) - SPREAD * graph, seeds) if known.any() else seeds
        total += weight * scale * (spread - spread.mean()) / (spread.std() + _TINY)
    return total


def _graph(view: FloatArray, known: BoolArray) -> _Floats:
    """Returns the affinity of candidates [N, N], normalized by the sums of rows."""
    unit = view.astype(np.float64) / (np.linalg.norm(view, axis=1, keepdims=True) + _TINY)
    squares = (unit**2).sum(1)
    distances = np.sqrt(np.maximum(0, squares[:, None] + squares - 2 * unit @ unit.T))  # [N, N], not [N, N, D]
    affinity = np.exp(-(distances**2) / (2 * (distances.mean() + _TINY) ** 2))
    affinity[~known], affinity[:, ~known] = 0, 0
    farther = np.argsort(affinity, axis=1)[:, : -min(NEIGHBORS, len(view) - 1)]
    np.put_along_axis(affinity, farther, 0, axis=1)
    scale = (affinity.sum(1, keepdims=True) + _TINY) ** -0.5
    normalized: _Floats = scale * affinity * scale.T
    return normalized


def _cosine(first: _Floats, second: _Floats) -> float:
    return float((first * second).sum() / (np.linalg.norm(first) * np.linalg.norm(second) + 1e-12))
