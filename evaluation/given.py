"""Replaces step 1 by given candidates: those of a file (`indexes.rankings`), or an oracle's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from evaluation.datasets import Question
from indexes.ids import meant
from retriever.asking import EntityIndex
from retriever.protocols import Finish
from retriever.types import Candidate, Query

GOLD = "gold"
"""Stands for the right entities instead of a file."""

Rankings = Mapping[str, Sequence[tuple[str, float | None]]]
"""Entities by question id, best first, with their scores (higher is better) if known."""


class GivenCandidates:
    """A `Step` that returns given candidates, in place of `EntitySearch`.

    Entities that the index lacks are left out. Without scores, step 2 decides alone.
    """

    name = "step1"

    def __init__(self, rankings: Rankings, index: EntityIndex, k: int) -> None:
        self.rankings, self.index, self.k = rankings, index, k

    def start(self, queries: Sequence[Query]) -> Finish:
        """Returns a function that returns the candidates."""
        return lambda _: [self._candidates(query.id) for query in queries]

    def has(self, entity: str) -> bool:
        """Returns whether an entity is in the index."""
        return self.index.row_of(entity) is not None

    def _candidates(self, question_id: str) -> list[Candidate]:
        rows: dict[int, float | None] = {}
        for entity, score in self.rankings.get(question_id, ()):
            if (row := self.index.row_of(meant(entity, self.has))) is not None:
                rows.setdefault(row, score)
        candidates, last = list[Candidate](), math.inf
        for rank, (row, sim_c) in enumerate(list(rows.items())[: self.k], start=1):
            if sim_c is not None:  # of equal scores, as rounded ones are, the first comes first in metrics, too
                sim_c = last = min(sim_c, float(np.nextafter(np.float32(last), np.float32(-math.inf))))
            candidates.append(Candidate(row, sim_c, score=1 / rank if sim_c is None else sim_c))
        return candidates


def gold_candidates(questions: Sequence[Question]) -> Rankings:
    """Returns the right entities of questions, without scores."""
    return {question.id: [(entity, None) for entity in question.entity_ids] for question in questions}
