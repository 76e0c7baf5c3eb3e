from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
import torch
from PIL import Image

from retriever.asking import EntityIndex
from retriever.step1_search import EntitySearch
from retriever.types import Filter, FloatArray, IntArray, Options, Query

KEYS = torch.tensor([[0.8, 0.0, 0.6, 0.0], [0.8, 0.0, 0.0, 0.6], [0.0, 0.8, 0.36, 0.48], [0.0, 0.8, -0.6, 0.0]])


class TwoNetworks:
    """An encoder of images to the same vector, of which the last two values are the second network's."""

    dimension, appended, fingerprint = 4, 2, "two"

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        return torch.tensor([[0.8, 0.0, 0.48, 0.36]] * len(images))

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        return torch.zeros(len(texts), 4)


class Exact:
    """An index that is searched exactly, the part of it that step 1 needs."""

    searched: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(KEYS)

    def search(self, vectors: torch.Tensor, k: int, filter: Filter = ()) -> tuple[FloatArray, IntArray]:
        self.searched += (len(vectors),)
        scores, rows = (vectors @ KEYS.T).topk(k)
        return scores.numpy(), rows.numpy().astype(np.int64)


def test_candidates_have_the_second_networks_share_of_their_score() -> None:
    index = Exact()
    search = EntitySearch(TwoNetworks(), cast(EntityIndex, index), k=3, second_network=True)
    image = Image.new("RGB", (8, 8))
    queries = [Query(image, "", "whole"), Query(image, "", "without", Options(exclude=(0,)))]
    whole, without = search.start(queries)([[], []])
    assert [one.row for one in whole] == [0, 1, 2] and [one.row for one in without] == [1, 2, 3]
    assert [one.sim_c for one in whole] == pytest.approx([0.928, 0.856, 0.3456])
    assert [one.sim_p for one in whole] == pytest.approx([0.288, 0.216, 0.3456])  # of row 2, all of its score
    assert [one.sim_p for one in without] == pytest.approx([0.216, 0.3456, -0.288])
    assert index.searched == (4,)


def test_only_who_weighs_the_second_network_pays_for_its_search() -> None:
    index = Exact()
    (found,) = EntitySearch(TwoNetworks(), cast(EntityIndex, index), k=2).start(
        [Query(Image.new("RGB", (8, 8)), "", "whole")]
    )([[]])
    assert [one.sim_p for one in found] == [None, None] and index.searched == (1,)


def test_a_candidate_beyond_the_second_networks_nearest_has_at_least_the_lowest_of_these() -> None:
    search = EntitySearch(TwoNetworks(), cast(EntityIndex, Exact()), k=2, second_network=True)
    (found,) = search.start([Query(Image.new("RGB", (8, 8)), "", "whole")])([[]])
    assert [one.row for one in found] == [0, 1]
    assert [one.sim_p for one in found] == pytest.approx([0.288, 0.288])  # the second one's is 0.216
