from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from retriever.manifold import Manifold, manifold_scores
from retriever.types import Candidate, Query

Row = Sequence[float]


def by_the_paper(query: Row, views: Sequence[Sequence[Row]]) -> list[float]:
    """Returns the scores of SCAR, term by term, with a sum of 400 powers instead of an inverse matrix."""
    count = len(views[0])
    known = [[any(row) for row in view] for view in views]
    seeds = [0.0] * count
    for view, there in zip(views, known, strict=True):
        sims = {i: sum(a * b for a, b in zip(view[i], query, strict=True)) for i in range(count) if there[i]}
        for i, sim in sims.items():
            seeds[i] += (sim - min(sims.values())) / (max(sims.values()) - min(sims.values()))
    graphs = []
    for view, there in zip(views, known, strict=True):
        units = [[value / (math.hypot(*row) or 1) for value in row] for row in view]
        distances = [[math.dist(a, b) for b in units] for a in units]
        sigma = sum(map(sum, distances)) / count**2
        near = [[math.exp(-(d**2) / (2 * sigma**2)) for d in row] for row in distances]
        near = [[near[i][j] * there[i] * there[j] for j in range(count)] for i in range(count)]
        for row in near:
            for j in sorted(range(count), key=lambda j: row[j])[: -min(10, count - 1)]:
                row[j] = 0.0
        sums = [sum(row) or 1.0 for row in near]
        graphs.append([[near[i][j] / math.sqrt(sums[i] * sums[j]) for j in range(count)] for i in range(count)])
    weights, scales = [1 / len(views)] * len(views), [[1.0] * count for _ in views]
    for first in range(len(views)):
        for second in range(first + 1, len(views)):
            both = [i for i in range(count) if known[first][i] and known[second][i]]
            one, other = ([graph[i][j] for i in both for j in both] for graph in (graphs[first], graphs[second]))
            cosine = sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))
            if cosine >= 0.7:
                weights[second] *= 0.8
                for i in both:
                    scales[second][i] *= 0.2
    totals = [0.0] * count
    for graph, weight, scale in zip(graphs, weights, scales, strict=True):
        term, spread = seeds, list(seeds)
        for _ in range(400):
            term = [0.9 * sum(graph[i][j] * term[j] for j in range(count)) for i in range(count)]
            spread = [a + b for a, b in zip(spread, term, strict=True)]
        mean = sum(spread) / count
        deviation = math.sqrt(sum((value - mean) ** 2 for value in spread) / count)
        for i in range(count):
            totals[i] += weight / sum(weights) * scale[i] * (spread[i] - mean) / deviation
    return totals


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("second", ["alike", "other", "none"])
def test_scores_are_those_of_the_paper(seed: int, second: str) -> None:
    rng = np.random.default_rng(seed)
    query, images = rng.standard_normal(6).astype(np.float32), rng.standard_normal((14, 6)).astype(np.float32)
    texts = images + 0.1 * rng.standard_normal((14, 6)) if second == "alike" else rng.standard_normal((14, 6))
    texts[3:5], images[9] = 0, 0
    views = [images] if second == "none" else [images, texts.astype(np.float32)]
    expected = by_the_paper(query.tolist(), [view.tolist() for view in views])
    np.testing.assert_allclose(manifold_scores(query, views), expected, atol=1e-4)


class Encoder:
    dimension, fingerprint = 2, ""

    def encode_images(self, images: Sequence[Any]) -> torch.Tensor:
        return torch.tensor([[1.0, 0.0]]).expand(len(images), 2)

    encode_texts = encode_images


def test_a_candidate_among_many_that_fit_passes_a_lonely_one() -> None:
    angles = [0.5, -0.55, -0.56, -0.57, -0.58, -0.59, 2.0]  # of the candidates' vectors to the query's
    vectors = [np.array([math.cos(angle), math.sin(angle)], np.float32) for angle in angles]
    step = Manifold(Encoder(), lambda row: [vectors[row]], keep=6)
    ranked = [Candidate(row, math.cos(angle)) for row, angle in enumerate(angles)]
    query = Query(Image.new("RGB", (4, 4)), "")
    [found, [alone], nothing] = step.start([query] * 3)([list(ranked), [Candidate(6, 0.25)], []])
    assert {one.row for one in found[:5]} == {1, 2, 3, 4, 5} and found[5].row == 0  # which step 1 had first
    assert [one.sim_c for one in found] == sorted((math.cos(angle) for angle in angles), reverse=True)[:6]
    assert [one.score for one in found] == [one.sim_c for one in found]
    assert (alone.sim_c, nothing) == (0.25, [])
