"""Settings of the trainings: limits, learning rate, its schedule, seed and device."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """How a model is optimized, and for how long.

    Attributes:
        steps: Number of steps.
        minutes: Stop after this much time, including earlier runs, even before the last step; `None` sets no limit.
            Nothing else depends on time, so that a training is the same on a busy machine.
        learning_rate: Peak learning rate.
        optimizer: "adamw", or "muon" (see `training.muon.Muon`), which takes AdamW's settings for vectors.
        seed: Seed of the run.
        schedule: Learning rate and first beta over the run.
        accumulate: Parts per step whose gradients are accumulated before the weights change.
        weight_decay: AdamW's weight decay.
        decay_vectors: Whether parameters with fewer than two dimensions (biases, norms, a temperature) decay, too.
        betas: AdamW's betas; a schedule with momentum sets the first.
        eps: AdamW's epsilon.
        clip: Largest norm of the gradient; `None` does not clip.

    Raises:
        ValueError: A setting is out of range.
    """

    steps: int
    minutes: float | None = None
    learning_rate: float
    optimizer: Literal["adamw", "muon"] = "adamw"
    seed: int = 0
    schedule: Schedule = WARMUP_COSINE
    accumulate: int = 1
    weight_decay: float = 0.05
    decay_vectors: bool = False
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-8
    clip: float | None = 1.0

    def __post_init__(self) -> None:
        """Checks the settings."""
        check_at_least_one(self, "steps", "accumulate")
        check_positive(self, "minutes", "learning_rate", "clip", "eps")

    @property
    def agreed(self) -> dict[str, object]:
        """The settings that a resumed run must share, as plain JSON."""
        return {name: value for name, value in asdict(self).items() if name != "minutes"}

    def rate(self, share: float) -> float:
        """Returns the learning rate at a share of the run."""
        return self.learning_rate * self.schedule.factor(share)

    def over(self, step: int, seconds: float) -> bool:
        """Returns whether a limit is reached."""
        return step >= self.steps or (self.minutes is not None and seconds >= 60 * self.minutes)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Settings of step 1's training; step 2's training has all of them, too.

    Attributes:
        steps: Number of steps; `None` finds it from the data.
        minutes: Stop after this much time, including earlier runs, even before the last step; `None` sets no limit.
        learning_rate: Peak learning rate; `None` uses the model's default.
        seed: Seed of the batches, the augmentation and the validation split.
        validation_share: Share of the images, in 0..1, that is held out for validation. With the same share and seed,
            both trainings hold out the same images.
        validate_every: Steps between two validations and checkpoints.
        device: PyTorch device to train on, such as "cpu" or "cuda".

    Raises:
        ValueError: A setting is out of range; the message names it.
    """

    steps: int | None = None
    minutes: float | None = None
    learning_rate: float | None = None
    seed: int = 0
    validation_share: float = 0.05
    validate_every: int = 100
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Checks the settings."""
        check_at_least_one(self, "steps", "validate_every")
        check_positive(self, "minutes", "learning_rate")
        if not 0 <= self.validation_share < 1:
            raise ValueError(f"validation_share must be at least 0 and below 1, got {self.validation_share}")

    def optimization(self, rate: float, steps: int) -> Optimization:
        """Returns the settings of the optimization, with this learning rate and these steps unless others are set."""
        return Optimization(
            steps=steps if self.steps is None else self.steps,
            minutes=self.minutes,
            learning_rate=rate if self.learning_rate is None else self.learning_rate,
            seed=self.seed,
        )


def check_at_least_one(config: object, *names: str) -> None:
    """Raises a `ValueError` that names the first setting below 1; `None` is allowed."""
    for name in names:
        value = getattr(config, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")


def check_positive(config: object, *names: str) -> None:
    """Raises a `ValueError` that names the first setting that is not a finite number above 0; `None` is allowed."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not 0 < value < math.inf:  # nan is neither
            raise ValueError(f"{name} must be a finite number above 0, got {value}")
