"""Learning rate schedules, as functions of the completed share of a run, so that they suit limits of steps or time."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A warm-up followed by a cosine decay to (nearly) zero, and possibly cut short by a cooldown.

    Attributes:
        warmup: Share of the run in which the learning rate rises, in 0..1.
        first: The initial learning rate, as a fraction of the peak.
        last: The final learning rate, as a fraction of the peak.
        cosine_warmup: Whether the warm-up follows a cosine instead of a line.
        momentum: The first beta at both ends and at the peak; `None` keeps AdamW's.
        planned: Length of the run that warm-up and decay are planned for, relative to the actual run.
        cooldown: Share of the run, at its end, in which the learning rate falls in a straight line to zero.
    """

    warmup: float = 0.05
    first: float = 0.0
    last: float = 0.0
    cosine_warmup: bool = False
    momentum: tuple[float, float] | None = None
    planned: float = 1.0
    cooldown: float = 0.0

    def factor(self, share: float) -> float:
        """Returns the learning rate at a share of the run, as a fraction of the peak."""
        start = 1 - self.cooldown
        if share > start:
            return self._planned(start) * (1 - share) / self.cooldown
        return self._planned(share)

    def _planned(self, share: float) -> float:
        """Returns the factor without a cooldown."""
        rising, part = self._phase(share / self.planned)
        if not rising:
            return _cosine(1.0, self.last, part)
        return _cosine(self.first, 1.0, part) if self.cosine_warmup else self.first + (1 - self.first) * part

    def beta(self, share: float) -> float | None:
        """Returns the first beta at a share of the run, or `None` to keep AdamW's."""
        if self.momentum is None:
            return None
        ends, peak = self.momentum
        rising, part = self._phase(share / self.planned)
        return _cosine(ends, peak, part) if rising else _cosine(peak, ends, part)

    def _phase(self, share: float) -> tuple[bool, float]:
        """Returns whether the rate is rising, and the completed share of the rise or fall."""
        if share < self.warmup:
            return True, share / self.warmup
        return False, (share - self.warmup) / (1 - self.warmup) if self.warmup < 1 else 1.0


WARMUP_COSINE = Schedule()

ONE_CYCLE = Schedule(warmup=0.3, first=0.01, last=1e-6, cosine_warmup=True, momentum=(0.95, 0.85))
"""`torch.optim.lr_scheduler.OneCycleLR` with `pct_start=0.3`, `div_factor=100` and its defaults, as in the paper's
code: the last rate is the first divided by 10,000, and the first beta cycles even though AdamW is given 0.9."""


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * part))
