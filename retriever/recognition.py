"""Recognition: how likely it is that the best candidate is what the image shows, told from the scores of all steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields

from retriever.types import Candidate


@dataclass(frozen=True, slots=True)
class Signs:
    """What the scores of a query say about its best candidate.

    Attributes:
        sim_c: Its score in step 1.
        sim_m: Its score in step 2; 0 without one.
        lead_c: Its score in step 1 less the highest of the others': below 0 if step 1 preferred another.
        lead: Its fused score less the next one's.
        distance: Its fused score less the mean of the others', in their standard deviations, at most 20.
    """

    sim_c: float = 0.0
    sim_m: float = 0.0
    lead_c: float = 0.0
    lead: float = 0.0
    distance: float = 0.0


def signs_of(candidates: Sequence[Candidate]) -> Signs | None:
    """Returns the signs of a result, best candidate first, or `None` with fewer than two candidates."""
    if len(candidates) < 2:
        return None
    best, *others = candidates
    first = [candidate.sim_c or 0.0 for candidate in others]
    fused = [candidate.score for candidate in others]
    spread = statistics.pstdev(fused)
    return Signs(
        sim_c=best.sim_c or 0.0,
        sim_m=best.sim_m or 0.0,
        lead_c=(best.sim_c or 0.0) - max(first),
        lead=best.score - fused[0],
        distance=min(20.0, (best.score - statistics.fmean(fused)) / spread) if spread else 0.0,
    )


def is_declined(recognized: float | None, threshold: float) -> bool:
    """Returns whether a question is declined; never if the probability that the best candidate is right is unknown."""
    return recognized is not None and recognized < threshold


SIGNS = tuple(field.name for field in fields(Signs))


@dataclass(frozen=True, slots=True)
class Recognition:
    """A logistic regression over the signs, fitted for one set of models by `omgm calibrate`.

    Attributes:
        bias: Its constant.
        weights: Its coefficients.
        threshold: Results with a lower probability are declined. An answer is given if it is worth the risk that a
            wrong one costs `threshold / (1 - threshold)` times what a declined question costs.
    """

    bias: float
    weights: Signs
    threshold: float = 0.5

    def probability(self, candidates: Sequence[Candidate]) -> float | None:
        """Returns the probability that the best candidate is right, or `None` with fewer than two candidates."""
        signs = signs_of(candidates)
        return None if signs is None else self.of(signs)

    def of(self, signs: Signs) -> float:
        """Returns the probability that signs stand for."""
        logit = self.bias + sum(getattr(self.weights, name) * getattr(signs, name) for name in SIGNS)
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, logit))))
