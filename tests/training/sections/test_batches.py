from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from indexes.store.columns import Encoded
from retriever.types import Entity, Section
from training.sections.data import ASKED, AskedArticle, AskedSection, SectionBatch, SectionBatches
from training.sections.train import SCALE, section_loss


class TwoArticles:
    """An index of two articles of three sections; the second section has two windows, and "same" is in both."""

    def entity(self, row: int) -> Entity:
        texts = ("same", f"own {row}", f"other {row}")
        return Entity(str(row), f"Title {row}", tuple(Section("", text, i) for i, text in enumerate(texts)))

    def column(self, name: str, row: int) -> Encoded:
        vectors: NDArray[np.int8] = np.full((4, 2), 3 + row, np.int8)
        return Encoded(vectors, np.array([0, 1, 1, 2]))


def asked(row: int, count: int) -> AskedArticle:
    questions = [AskedSection(f"{row} {i}", np.array([i]), i % 3) for i in range(count)]  # type: ignore[arg-type]
    return AskedArticle(row, str(row), questions)


def test_a_batch_has_all_sections_of_its_articles() -> None:
    index: Any = TwoArticles()
    batches = SectionBatches(index, [asked(0, 2), asked(1, 20)], 100, seed=0)
    batch = batches(0)
    assert len(batch.questions) == 2 + ASKED and len(batch.gold) == 2 + ASKED
    assert batch.sections.tolist() == [0, 1, 1, 2, 3, 4, 4, 5]
    assert batch.alike.tolist() == [0, 1, 2, 0, 3, 4]
    assert torch.allclose(batch.windows.norm(dim=1), torch.ones(8))
    again = SectionBatches(index, [asked(0, 2), asked(1, 20)], 100, seed=0)(0)
    assert [list(ids) for ids in again.questions] == [list(ids) for ids in batch.questions]
    assert len(SectionBatches(index, [asked(0, 2), asked(1, 20)], 1, seed=0)(0).alike) == 3  # one article is enough


def test_the_best_window_counts_and_copies_are_no_negatives() -> None:
    windows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [1.0, 0.0]])
    batch = SectionBatch([], windows, torch.tensor([0, 1, 1, 2]), torch.tensor([1, 0]), torch.tensor([0, 1, 0]))
    questions = torch.tensor([[0.6, 0.8], [1.0, 0.0]])
    # The first question: sections 0 and 2 (copies of each other) 0.6, section 1 the larger of 0.8 and 1.
    first = -np.log(np.exp(SCALE) / (np.exp(SCALE) + 2 * np.exp(0.6 * SCALE)))
    # The second: its own section 1, its copy left out, section 1 the larger of 0 and 0.6.
    second = -np.log(np.exp(SCALE) / (np.exp(SCALE) + np.exp(0.6 * SCALE)))
    assert float(section_loss(questions, batch)) == pytest.approx((first + second) / 2, rel=1e-3)
