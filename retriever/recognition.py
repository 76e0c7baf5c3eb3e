"""Recognition: estimates from the scores of all steps how likely the best candidate is what the image shows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from PIL import Image

from retriever.fusion import agreed
from retriever.types import Candidate

FEW = 8
"""With fewer other candidates, their mean and standard deviation are chance."""
LEADS = (-0.05, 0.2)
"""Lowest and highest lead of alignment; leads beyond count as these."""
PLAIN = 3.0
"""What shows something has more `contrast`, or else at least half that of the image it is taken for. Noise of 640 x 480
pixels has 2.5, the plainest of 1,066 images of nine collections 6.8, of 196 drawn flags 3.3."""
_SAMPLE, _CELLS = 384, 16  # pixels, in both directions


@dataclass(frozen=True, slots=True)
class Signs:
    """Features of the best candidate, computed from a query's scores, or else the value in `COMMON`.

    Attributes:
        sim_c: Its score in step 1.
        sim_m: Its score in step 2, or 0 if it has none.
        lead_c: Its score in step 1 minus the highest of the others; negative if step 1 preferred another candidate.
        lead: Its fused score minus that of the runner-up.
        lead_p: Its `sim_p` minus the highest of the others, or 0 if they have none. What is left out of an index often
            has a near twin there, by which one network is misled more often than both.
        lead_a: Its `alignment` minus the highest of the others, within `LEADS`. What is left out of an index agrees
            about as little with its twin there as with others.
        distance: Its fused score minus the mean of the others, in their standard deviations, at most 20; not of fewer
            than `FEW`.
        images: The logarithm of the number of its images in step 2: the best of more scores higher by chance.
        lead_w: Its `sim_w` minus the highest of the others; 0 if the words on the image were not read.
        lead_k: Its agreement of keypoints minus the highest of the others; 0 if the candidates were not verified.
    """

    sim_c: float = 0.0
    sim_m: float = 0.0
    lead_c: float = 0.0
    lead: float = 0.0
    lead_p: float = 0.0
    lead_a: float = 0.0
    distance: float = 0.0
    images: float = 0.0
    lead_w: float = 0.0
    lead_k: float = 0.0


APART = ("lead_w", "lead_k")
"""The signs that are 0 unless words were read or candidates verified, and are therefore fitted apart."""
SURE = 0.75
"""From this probability on, words and keypoints would not change what an image is recognized as."""
REACH = 0.1
"""From this lead on, neither would they if it counts as recognized without them: of 601 verified images, candidates
changed places in 104, all with a lead below 0.07."""
COMMON = Signs(lead_c=0.05, lead=0.05, lead_a=0.05, distance=4.0)
"""Values that are as common among right candidates as among wrong ones: they stand for signs without scores."""


def signs_of(candidates: Sequence[Candidate]) -> Signs | None:
    """Returns the signs of a result, best candidate first, or `None` without candidates."""
    if not candidates:
        return None
    (best, *others), (low, high) = candidates, LEADS
    first = [candidate.sim_c or 0.0 for candidate in others]
    second = [candidate.sim_p for candidate in others if candidate.sim_p is not None]
    third = [candidate.alignment for candidate in others if candidate.alignment is not None]
    lead_a = best.alignment - max(third) if best.alignment is not None and third else COMMON.lead_a
    fused = [candidate.score for candidate in others]
    spread = statistics.pstdev(fused) if len(fused) >= FEW else 0.0
    return Signs(
        sim_c=best.sim_c or 0.0,
        sim_m=best.sim_m or 0.0,
        lead_c=(best.sim_c or 0.0) - max(first) if first else COMMON.lead_c,
        lead=best.score - fused[0] if fused else COMMON.lead,
        lead_p=best.sim_p - max(second) if best.sim_p is not None and second else COMMON.lead_p,
        lead_a=min(max(lead_a, low), high),
        images=math.log(max(best.images, 1)),
        distance=min(20.0, (best.score - statistics.fmean(fused)) / spread) if spread else COMMON.distance,
        lead_w=(best.sim_w or 0.0) - max((candidate.sim_w or 0.0 for candidate in others), default=0.0),
        lead_k=agreed(best.places) - max((agreed(candidate.places) for candidate in others), default=0.0),
    )


def contrast(image: Image.Image) -> float:
    """Returns the mean distance of an image's cells from their mean, in levels of 0 to 255; noise averages out."""
    sample = image.resize((_SAMPLE, _SAMPLE), Image.Resampling.NEAREST).convert("RGB")  # a large one costs no more
    cells = np.asarray(sample.reduce(_SAMPLE // _CELLS), np.float32)
    return float(np.abs(cells - cells.mean((0, 1))).mean())


def is_declined(recognized: float | None, threshold: float) -> bool:
    """Returns whether to decline a question; never if the probability `recognized` is unknown."""
    return recognized is not None and recognized < threshold


SIGNS = tuple(field.name for field in fields(Signs))


@dataclass(frozen=True, slots=True)
class Recognition:
    """A logistic regression over the signs, fitted for one set of models by `omgm sweep --recognition`.

    Attributes:
        bias: The intercept.
        weights: The coefficients.
        threshold: Results with a lower probability are declined. This is optimal if a wrong answer loses
            `threshold / (1 - threshold)` times what a right answer gains over declining.
        crop_threshold: The lowest probability with which the best of several looks at an image counts
            (`retriever.looks`); `None` if there is only one.
    """

    bias: float
    weights: Signs
    threshold: float = 0.5
    crop_threshold: float | None = None

    def probability(self, candidates: Sequence[Candidate]) -> float:
        """Returns the probability that the best candidate is right, 0 without candidates."""
        signs = signs_of(candidates)
        return 0.0 if signs is None else self.of(signs)

    def is_unsure(self, candidates: Sequence[Candidate]) -> bool:
        """Returns whether there is something to verify: words or keypoints could change the verdict."""
        signs = signs_of(candidates)
        if signs is None:
            return False
        probability = self.of(signs)
        return probability < self.threshold or (probability < SURE and signs.lead < REACH)

    def is_undecided(self, candidates: Sequence[Candidate]) -> bool:
        """Returns whether the lead of alignment, not known yet, decides if the best candidate counts."""
        signs = signs_of(candidates)
        if signs is None or len(candidates) < 2:  # one candidate leads nobody
            return False
        low, high = sorted(self.of(replace(signs, lead_a=lead)) for lead in LEADS)
        thresholds = (self.threshold, self.crop_threshold)
        return any(threshold is not None and low < threshold <= high for threshold in thresholds)

    def of(self, signs: Signs) -> float:
        """Returns the probability for the given signs."""
        logit = self.bias + sum(getattr(self.weights, name) * getattr(signs, name) for name in SIGNS)
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, logit))))
