"""Batches for training step 2: every sample once per epoch, every pair once per batch, with the least padding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from training.reranker.batches import PASS_COST, BatchMaker, Order, Pairs, least_padding
from training.reranker.image_store import FeatureStore
from training.reranker.rows import Rows, write_rows
from training.reranker.samples import SampleSet

UINT16 = np.dtype(np.uint16)


def order(count: int, batch_size: int, accumulate: int = 1, processes: int = 1) -> Order:
    return Order(100 + np.arange(count), batch_size, accumulate, processes, seed=4)


def test_every_sample_is_seen_once_an_epoch() -> None:
    once = order(10, 4)
    assert (once.step_size, once.steps_per_epoch) == (4, 3)
    epochs = [[once.part(step, 0, 0) for step in range(first, first + 3)] for first in (0, 3)]
    for number, parts in enumerate(epochs):
        assert [epoch for epoch, _, _ in parts] == [number] * 3
        assert sorted(np.concatenate([chosen for _, chosen, _ in parts]).tolist()) == list(range(100, 110))
    assert epochs[0][0][1].tolist() != epochs[1][0][1].tolist()


@pytest.mark.parametrize(("batch_size", "accumulate", "processes"), [(2, 1, 4), (4, 2, 1), (2, 2, 2)])
def test_parts_and_processes_share_a_step(batch_size: int, accumulate: int, processes: int) -> None:
    whole, shared = order(19, 8), order(19, batch_size, accumulate, processes)
    for step in range(3):
        parts = [shared.part(step, part, rank) for part in range(accumulate) for rank in range(processes)]
        expected = whole.part(step, 0, 0)[1]
        assert np.concatenate([chosen for _, chosen, weight in parts if weight]).tolist() == expected.tolist()
        # The mean over processes of the sum over parts of the weighted means is the mean over the step.
        total = sum(weight * chosen.mean() for _, chosen, weight in parts) / processes
        assert total == pytest.approx(expected.mean())


def test_a_process_without_a_sample_counts_nothing() -> None:
    parts = [order(5, 1, processes=4).part(1, 0, rank) for rank in range(4)]
    assert [len(chosen) for _, chosen, _ in parts] == [1, 1, 1, 1]
    assert [weight for _, _, weight in parts] == [4, 0, 0, 0]


@pytest.fixture
def maker(tmp_path: Path) -> BatchMaker:
    """Four entities with eight sections and an image each, and three questions; section i is i + 1 tokens i."""
    texts = [np.full(i + 1, i) for i in range(32)] + [np.full(2, 40 + i) for i in range(3)]
    write_rows(tmp_path / "texts.bin", texts, UINT16)
    store = FeatureStore(tmp_path, np.ones(7, np.int64), (2, 3))
    (tmp_path / "00000.bin").write_bytes(
        torch.stack([torch.full((2, 3), float(i)) for i in range(7)]).bfloat16().view(torch.int16).numpy().tobytes()
    )
    found = np.array([0, 1, 2, 3] * 3, dtype=np.int32)
    samples = SampleSet(
        question=np.array([32, 33, 34], dtype=np.int32),
        query_image=np.array([4, 5, 6], dtype=np.int32),
        gold=np.array([0, 1, 2], dtype=np.int32),
        evidence=np.array([1, 8, 16], dtype=np.int32),
        positive_image=np.array([0, 1, 2], dtype=np.int32),
        held_out=np.zeros(3, dtype=bool),
        first_found=np.array([0, 4, 8, 12]),
        found=found,
        similarity=np.zeros(12, np.float32),
        right=np.array([i % 4 == i // 4 for i in range(12)]),
        first_section=np.arange(0, 40, 8),
        published=np.arange(32, dtype=np.int32),
        main_image=np.arange(4, dtype=np.int32),
        image_owners=np.empty(0, np.int32),
        own_images=np.empty(0, np.int32),
        original=np.arange(4, dtype=np.int32),
    )
    order = Order(np.arange(3), 3, 1, 1, seed=0)
    return BatchMaker(samples, Rows(tmp_path / "texts.bin", UINT16), store, order, 0, "spread", 200, 4, padding=9)


def pairs_of(pairs: Pairs) -> list[tuple[float, int, int]]:
    """Returns (image, token, tokens) of each pair, read from the tensors."""
    rows = []
    for texts in pairs.texts:
        for ids, mask, image in zip(texts.ids, texts.mask, texts.image, strict=True):
            length = int(mask.sum())
            assert ids[:length].unique().numel() == 1 and (ids[length:] == 9).all()
            rows.append((float(pairs.features[image].unique()), int(ids[0]), length))
    return rows


def test_a_batch_holds_its_pairs_once_and_points_at_them(maker: BatchMaker) -> None:
    batch = maker(0)
    rows = pairs_of(batch.pairs)
    assert len(rows) == len(set(rows))
    assert batch.pairs.features.shape[0] == len({image for image, _, _ in rows})
    asked = [rows[int(query)][1] for query in batch.query]
    by_question = dict(zip(asked, batch.candidates, strict=True))
    assert sorted(by_question) == [40, 41, 42]
    for question, (evidence, image) in {40: (1, 0), 41: (8, 1), 42: (16, 2)}.items():
        candidates = [rows[int(place)] for place in by_question[question]]
        assert candidates[0] == (image, evidence, evidence + 1)
        assert len({section for _, section, _ in candidates}) == 16
        assert all(section // 8 == found for found, section, _ in candidates)
    assert batch.weight == 1


def test_no_forward_pass_has_more_tokens_than_allowed(maker: BatchMaker) -> None:
    sizes = [texts.ids.shape for texts in maker(0).pairs.texts]
    assert len(sizes) > 1
    assert all(count * (4 + length) <= 200 for count, length in sizes)


def test_equal_numbers_give_equal_batches(maker: BatchMaker) -> None:
    one, other = maker(5), maker(5)
    assert torch.equal(one.candidates, other.candidates) and pairs_of(one.pairs) == pairs_of(other.pairs)


def test_features_that_are_cut_short_are_an_error(maker: BatchMaker) -> None:
    assert isinstance(maker.store, FeatureStore)
    (maker.store.folder / "00000.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="cut short"):
        maker(0)


def cost(groups: Sequence[Sequence[int]], pass_cost: int) -> int:
    return sum(len(group) * max(group) + pass_cost for group in groups)


def least_cost(lengths: Sequence[int], budget: int, pass_cost: int) -> int:
    """Tries every way to cut the sorted lengths."""
    ordered = sorted(lengths)
    found = []
    for count in range(len(ordered)):
        for cuts in itertools.combinations(range(1, len(ordered)), count):
            bounds = [0, *cuts, len(ordered)]
            groups = [ordered[first:last] for first, last in itertools.pairwise(bounds)]
            if all(len(group) == 1 or len(group) * max(group) <= budget for group in groups):
                found.append(cost(groups, pass_cost))
    return min(found)


@pytest.mark.parametrize("seed", range(20))
def test_no_other_way_costs_less(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 60, int(rng.integers(1, 11))).tolist()
    budget, pass_cost = int(rng.integers(20, 400)), int(rng.integers(0, 80))
    groups = least_padding(lengths, budget, pass_cost)
    assert sorted(itertools.chain(*groups)) == list(range(len(lengths)))
    of_lengths = [[lengths[position] for position in group] for group in groups]
    assert all(len(group) == 1 or len(group) * max(group) <= budget for group in of_lengths)
    assert cost(of_lengths, pass_cost) == least_cost(lengths, budget, pass_cost)


def test_equal_texts_share_as_few_passes_as_fit() -> None:
    assert [len(group) for group in least_padding([100] * 50, 2000)] == [10, 20, 20]
    assert least_padding([], 2000) == []


def test_a_step_of_the_recipe_takes_three_passes() -> None:
    """136 pairs with sections of a median of 156 tokens, as `benchmarks.made_up` generates them."""
    rng = np.random.default_rng(0)
    lengths = [44] * 8 + [32 + min(512, int(length)) for length in rng.lognormal(np.log(156), 0.8, 128)]
    groups = least_padding(lengths, 32_768)
    padded = sum(len(group) * max(lengths[position] for position in group) for group in groups)
    assert len(groups) == 3 and padded < 1.4 * sum(lengths)
    assert padded / len(groups) > PASS_COST
