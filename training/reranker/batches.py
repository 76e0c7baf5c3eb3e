"""Batches for step 2's training: chooses the samples of each step and makes their tensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from retriever.texts import by_length
from retriever.types import IntArray
from training.batch import Batch
from training.reranker.config import Negatives
from training.reranker.rows import Rows
from training.reranker.samples import CANDIDATES, SampleSet


class Features(Protocol):
    """Features of images, precomputed or computed on demand by an image tower."""

    @property
    def views(self) -> IntArray:
        """Number of views per image, [I]."""

    def read(self, rows: Sequence[int], views: Sequence[int]) -> Tensor:
        """Returns one view of each image, [N, cells, width]."""


@dataclass(frozen=True, slots=True)
class Texts(Batch):
    """Texts of similar length that go through the Q-Former together.

    Attributes:
        ids: Token ids, int64 [N, T], padded.
        mask: 1 for tokens and 0 for padding, int64 [N, T].
        image: Row in `Pairs.features` of each text's image, int64 [N].
    """

    ids: Tensor
    mask: Tensor
    image: Tensor


@dataclass(frozen=True, slots=True)
class Pairs(Batch):
    """Distinct pairs of image and text; every image is contained once.

    Attributes:
        features: Features of the images, bfloat16 [V, cells, width].
        texts: The pairs, grouped by length of their text.
    """

    features: Tensor
    texts: list[Texts]


@dataclass(frozen=True, slots=True)
class SampleBatch(Batch):
    """Samples of a process in one part of a step.

    Attributes:
        pairs: All pairs of image and text.
        query: The pair of each question, int64 [B].
        candidates: The pairs of each question's candidates, the evidence first, int64 [B, 16].
        weight: Weight of the mean loss, so that the mean over processes of the sum over parts is the step's mean loss.
    """

    pairs: Pairs
    query: Tensor
    candidates: Tensor
    weight: float


@dataclass(frozen=True, slots=True)
class Order:
    """Which samples each process sees in each part of each step: every sample once per epoch, in a seeded order.

    Attributes:
        samples: The samples, [N].
        batch_size: Samples per process and part.
        accumulate: Parts per step.
        processes: Number of processes.
        seed: Seed of the order.
    """

    samples: IntArray
    batch_size: int
    accumulate: int
    processes: int
    seed: int

    @property
    def step_size(self) -> int:
        """Samples per step."""
        return self.batch_size * self.accumulate * self.processes

    @property
    def steps_per_epoch(self) -> int:
        """Steps per epoch; the last one may be smaller."""
        return math.ceil(len(self.samples) / self.step_size)

    def part(self, step: int, part: int, rank: int) -> tuple[int, IntArray, float]:
        """Returns the epoch, the samples of a process in a part of a step, int64, and the weight of their mean loss."""
        epoch, number = divmod(step, self.steps_per_epoch)
        order = _permutation(self.seed, epoch, len(self.samples))
        of_step = self.samples[order[number * self.step_size : (number + 1) * self.step_size]]
        # The last step of an epoch is divided evenly; a process without a sample gets one with weight 0.
        parts = np.array_split(of_step, self.accumulate * self.processes)
        chosen = parts[part * self.processes + rank]
        weight = len(chosen) * self.processes / len(of_step)
        return epoch, chosen if len(chosen) else of_step[:1], weight


@functools.lru_cache(maxsize=2)
def _permutation(seed: int, epoch: int, count: int) -> IntArray:
    return np.random.default_rng([seed, epoch]).permutation(count)


@dataclass(frozen=True, slots=True)
class BatchMaker:
    """Makes batches; equal arguments give equal batches, in any thread.

    Attributes:
        samples: The samples.
        texts: Token ids of all texts.
        store: Features of all images.
        order: Which samples a step sees.
        rank: The number of this process.
        negatives: How negatives are drawn, see `training.reranker.config.Recipe`.
        tokens_per_forward: Most tokens per forward pass, padding and query tokens included.
        queries: Number of query tokens.
        padding: Token id of padding.
        group: Groups the lengths of texts into forward passes of at most `tokens_per_forward`.
    """

    samples: SampleSet
    texts: Rows
    store: Features
    order: Order
    rank: int
    negatives: Negatives
    tokens_per_forward: int
    queries: int
    padding: int
    group: Callable[[Sequence[int], int], list[list[int]]] = by_length

    def __call__(self, number: int) -> SampleBatch:
        """Returns the batch with a number, counted over the parts of all steps."""
        step, part = divmod(number, self.order.accumulate)
        epoch, chosen, weight = self.order.part(step, part, self.rank)
        wanted: list[tuple[int, int, int]] = []  # image, view, text
        for sample in chosen.tolist():
            # Seeded by the sample, so that its candidates depend on neither batch size nor number of processes.
            generator = np.random.default_rng([self.order.seed, epoch, sample, 1])
            sections, images = self.samples.draw(sample, generator, self.negatives)
            rows = np.concatenate([[self.samples.query_image[sample]], images])
            words = np.concatenate([[self.samples.question[sample]], sections])
            views = generator.integers(self.store.views[rows])
            wanted += zip(rows.tolist(), views.tolist(), words.tolist(), strict=True)
        places, pairs = self.pairs(wanted)
        by_sample = places.view(len(chosen), 1 + CANDIDATES)
        return SampleBatch(pairs, by_sample[:, 0], by_sample[:, 1:], weight)

    def pairs(self, wanted: Sequence[tuple[int, int, int]]) -> tuple[Tensor, Pairs]:
        """Returns the position of each (image, view, text) among the distinct pairs, int64 [N], and these pairs."""
        different = sorted(set(wanted), key=lambda pair: (self.texts.length(pair[2]), pair))
        views = {view: row for row, view in enumerate(sorted({pair[:2] for pair in different}))}
        features = self.store.read([row for row, _ in views], [view for _, view in views])
        lengths = [self.queries + self.texts.length(text) for _, _, text in different]
        parts = self.group(lengths, self.tokens_per_forward)
        texts = [self._texts([different[i] for i in part], views) for part in parts]
        place = {pair: number for number, pair in enumerate(different)}
        return torch.tensor([place[pair] for pair in wanted], dtype=torch.int64), Pairs(features, texts)

    def _texts(self, pairs: Sequence[tuple[int, int, int]], views: dict[tuple[int, int], int]) -> Texts:
        image = torch.tensor([views[pair[:2]] for pair in pairs])
        return padded([self.texts[text] for _, _, text in pairs], image, self.padding)


def padded(rows: Sequence[NDArray[Any]], image: Tensor, padding: int) -> Texts:
    """Pads texts to the longest one.

    Args:
        rows: Token ids of each text.
        image: Row of each text's image, int64 [N].
        padding: Token id of padding.
    """
    ids = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    return Texts(torch.from_numpy(ids), torch.from_numpy(mask), image)


PASS_COST = 4096
"""The padding, in tokens, that a further forward pass must save at least.

Forward and backward, a pass through BLIP-2's 12 layers launches about 2,100 kernels, which takes the CPU 10 ms whatever
their size; an H100 computes 4096 tokens in about 4 ms. CPU and GPU work at the same time, so the slower one counts. A
step of 8 questions (136 pairs, 30,000 tokens) then takes three passes with 32 % padding: 31 ms on the CPU and 37 ms on
the GPU. `retriever.texts.by_length`, which fills every pass, would make it five passes of at most 8192 tokens (50 ms
and 35 ms), or two of at most 32,768 with 64 % padding (21 ms and 46 ms).
"""


def least_padding(lengths: Sequence[int], budget: int, pass_cost: int = PASS_COST) -> list[list[int]]:
    """Groups the positions of `lengths` into passes, shortest first, at the least total cost.

    A pass costs `pass_cost` and all of its tokens, padded to its longest text. It has at most `budget` tokens, unless
    it holds a single text. Lengths are at least 1.

    Example:
        >>> least_padding([5, 30, 4, 5, 9], 1000, pass_cost=20)
        [[2, 0, 3, 4], [1]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    cost = np.zeros(len(order) + 1, np.int64)  # of the first texts, grouped in the best way
    start = np.zeros(len(order) + 1, np.int64)  # of the last of these groups
    for end, length in enumerate((lengths[position] for position in order), 1):
        first = max(0, end - max(1, budget // length))
        costs = cost[first:end] + np.arange(end - first, 0, -1) * length
        best = int(costs.argmin())
        cost[end], start[end] = costs[best] + pass_cost, first + best
    groups: list[list[int]] = []
    end = len(order)
    while end:
        groups.append(order[start[end] : end])
        end = int(start[end])
    return groups[::-1]
