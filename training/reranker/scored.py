"""Validated questions with their scores, and how often gold entities and evidence come first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retriever.step2_rerank import rank_candidates
from retriever.step3_sections import rescore_sections
from retriever.types import Candidate
from training.reranker.samples import SampleSet


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """A validated question with what step 1 found for its image.

    Attributes:
        sample: The question's row.
        candidates: The entities in step 1's order, scored by step 2; `row` is the entity's row in the samples.
        right: Whether each candidate is gold.
        evidence: The `sim_m` of the evidence.
    """

    sample: int
    candidates: list[Candidate]
    right: list[bool]
    evidence: float

    @property
    def sim_c(self) -> list[float | None]:
        """The entities' scores in step 1, `None` if unknown."""
        return [candidate.sim_c for candidate in self.candidates]

    @property
    def sim_m(self) -> list[float | None]:
        """The entities' scores in step 2, `None` without an image or sections."""
        return [candidate.sim_m for candidate in self.candidates]

    def ranking(self, alpha: float) -> list[Candidate]:
        """Returns the candidates ranked by equation 5, best first."""
        return rank_candidates(self.candidates, alpha)

    def rank(self, alpha: float) -> int | None:
        """Returns the rank of the first gold entity, from 1, or `None` if step 1 missed it."""
        golds = {candidate.row for candidate, right in zip(self.candidates, self.right, strict=True) if right}
        return next((rank for rank, found in enumerate(self.ranking(alpha), 1) if found.row in golds), None)


def recall_at_1(scored: Sequence[ScoredQuestion], alpha: float) -> float:
    """Returns the share of questions whose gold entity comes first."""
    return sum(question.rank(alpha) == 1 for question in scored) / len(scored)


def section_recall(
    samples: SampleSet,
    scored: Sequence[ScoredQuestion],
    alpha: float,
    beta: float = 1.0,
    sim_t: Mapping[int, Sequence[float]] | None = None,
) -> float:
    """Returns the share of questions whose evidence comes first in the entity that comes first.

    Args:
        samples: The samples.
        scored: Validated questions.
        alpha: Weight of step 1.
        beta: Weight of step 2 in step 3.
        sim_t: Scores of step 3 by sample, one for each section of its gold entity; without them step 2 decides alone.
    """
    hits = 0
    for question in scored:
        best = next(iter(question.ranking(alpha)), None)
        if best is None or best.row != samples.gold[question.sample] or not best.sections:
            continue
        sections = best.sections
        if sim_t is not None:
            sims = sim_t[question.sample]
            sections = rescore_sections(sections, [sims[section.position] for section in sections], beta)
        first = samples.sections_of(best.row)
        hits += first[sections[0].position] == int(samples.evidence[question.sample])
    return hits / len(scored)
