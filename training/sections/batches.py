"""Batches for step 3's encoder of questions: questions about some articles, and all sections of these articles."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from indexes.store.index import Index
from training.batch import Batch
from training.sections.data import AskedArticle, passages

ASKED = 8
"""Most questions about an article in a batch."""


@dataclass(frozen=True, slots=True)
class SectionBatch(Batch):
    """Questions and sections of several articles.

    Attributes:
        questions: Token ids of each question.
        windows: Normalized vectors of the sections' windows, float32 [W, D].
        sections: The section of each window, ascending from 0, int64 [W].
        gold: The section with the answer of each question, int64 [Q].
        alike: A number for each section, the same for sections of the same text, int64 [S]: they are no negatives of
            each other.
    """

    questions: list[array[int]]
    windows: Tensor
    sections: Tensor
    gold: Tensor
    alike: Tensor


class SectionBatches:
    """Draws batches; each follows from its number and the seed.

    An article is drawn as often as there are questions about it. Its other sections are the hard negatives, those of
    the batch's other articles are further ones.

    Args:
        index: The index with the articles and the vectors of their sections.
        articles: The articles.
        questions: Questions per batch, about.
        seed: The seed.
    """

    def __init__(self, index: Index, articles: Sequence[AskedArticle], questions: int, seed: int) -> None:
        self._index, self._articles, self._questions, self._seed = index, articles, questions, seed
        self._weights = list(accumulate(len(article.questions) for article in articles))

    def __call__(self, number: int) -> SectionBatch:
        """Returns a batch."""
        rng = random.Random(f"{self._seed} {number}")
        asked: list[array[int]] = []
        drawn, golds, texts, alike = dict[int, AskedArticle](), list[int](), dict[str, int](), list[int]()
        windows, sections = list[Tensor](), list[Tensor]()
        while len(asked) < self._questions and len(drawn) < len(self._articles):
            [article] = rng.choices(self._articles, cum_weights=self._weights)
            if article.row in drawn:
                continue
            drawn[article.row] = article
            for question in rng.sample(article.questions, min(ASKED, len(article.questions))):
                asked.append(question.ids)
                golds.append(len(alike) + question.gold)
            vectors, owners = windows_of(self._index, article)
            windows.append(vectors)
            sections.append(owners + len(alike))
            for passage in passages(self._index, article):
                alike.append(texts.setdefault(passage.partition("\n")[2], len(texts)))
        return SectionBatch(asked, torch.cat(windows), torch.cat(sections), torch.tensor(golds), torch.tensor(alike))


def windows_of(index: Index, article: AskedArticle) -> tuple[Tensor, Tensor]:
    """Returns the normalized windows of an article, float32 [W, D], and the section of each, int64 [W]."""
    encoded = index.encoded_sections(article.row)
    assert encoded is not None  # checked before training
    vectors = torch.nn.functional.normalize(torch.from_numpy(encoded.vectors.astype(np.float32)), dim=1)
    return vectors, torch.from_numpy(encoded.sections)
