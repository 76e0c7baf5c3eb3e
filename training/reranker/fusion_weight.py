"""Finds alpha and beta, the weights of equations 5 and 7, from a small number of questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from retriever.fusion import choose_weight, fuse
from retriever.protocols import TextReranker
from retriever.section_scores import rescore_sections
from retriever.step2_rerank import rank_candidates
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


GRID = [i / 20 for i in range(21)]
"""The values that a weight may have."""
_RIDGE = 1e-5
"""Keeps the weights finite if the scores separate correct from wrong perfectly."""


def best_alpha(scored: Sequence[ScoredQuestion]) -> float | None:
    """Returns the alpha of `GRID` that fits best, or `None` if the scores of step 1 are unknown.

    The fit is a conditional logit: it maximizes the likelihood of the gold entity under softmax(w1 * sim_c + w2 *
    sim_m) over the candidates, and alpha = w1 / (w1 + w2). It varies less between small validation sets than the alpha
    with the highest Recall@1.
    """
    found = [question for question in scored if any(question.right) and not all(question.right)]
    if not any(sim is not None for question in found for sim in question.sim_c):
        return None
    scores = pad_sequence(
        [
            torch.tensor([fuse(q.sim_c, q.sim_m, 1.0), fuse(q.sim_c, q.sim_m, 0.0)], dtype=torch.float64).T
            for q in found
        ],
        batch_first=True,
    )  # [questions, candidates, 2]
    listed = pad_sequence([torch.ones(len(q.right), dtype=torch.bool) for q in found], batch_first=True)
    gold = pad_sequence([torch.tensor(q.right) for q in found], batch_first=True)
    weights = torch.full((2,), 10.0, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        shares = (scores @ weights).masked_fill(~listed, -torch.inf).log_softmax(1)
        value = -shares.masked_fill(~gold, -torch.inf).logsumexp(1).mean() + _RIDGE * weights.square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)
    first, second = (max(0.0, weight) for weight in weights.tolist())
    if first + second == 0:
        return None
    return min(GRID, key=lambda alpha: abs(alpha - first / (first + second)))


def best_beta(
    samples: SampleSet,
    scored: Sequence[ScoredQuestion],
    alpha: float,
    reranker: TextReranker,
    question_of: dict[int, str],
    passages_of: dict[int, list[str]],
) -> tuple[float, float]:
    """Returns the beta that `choose_weight` chooses by section recall@1, and that recall.

    Args:
        samples: The samples.
        scored: Validated questions.
        alpha: Weight of step 1, which determines the best entity.
        reranker: Step 3's model.
        question_of: The question of each sample.
        passages_of: The passages of each gold entity.
    """
    found = [question for question in scored if question.rank(alpha) == 1]
    golds = [int(samples.gold[question.sample]) for question in found]
    sims = reranker.score([question_of[question.sample] for question in found], [passages_of[gold] for gold in golds])
    sim_t = {question.sample: row.tolist() for question, row in zip(found, sims, strict=True)}
    recall = {beta: section_recall(samples, scored, alpha, beta, sim_t) for beta in GRID}
    beta = choose_weight(recall, len(scored))
    return beta, recall[beta]
