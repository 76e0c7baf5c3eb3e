"""Settings of the trainings: limits, learning rate, seed, batches and device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from training.recipes import RECIPES
from training.schedule import WARMUP_COSINE, Schedule

Precision = Literal["bfloat16", "float32"]
PRECISIONS: tuple[Precision, ...] = ("bfloat16", "float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimization:
    """How long and how a model is optimized. A resumed run must agree in all of it.

    Attributes:
        steps: Stop after this many steps; `None` sets no such limit.
        minutes: Stop after this much time, resumed runs added up; `None` sets no such limit. With both limits, the
            schedule follows whichever is nearer.
        learning_rate: Peak learning rate.
        seed: Seed of the run.
        schedule: Learning rate and first beta over the run.
        accumulate: Parts of a step whose gradients are added up before the weights change.
        weight_decay: AdamW's.
        decay_vectors: Whether parameters of fewer than two dimensions (biases, norms, a temperature) decay too.
        betas: AdamW's; a schedule with momentum sets the first.
        eps: AdamW's.
        clip: Largest norm of the gradient; `None` leaves the gradient as it is.

    Raises:
        ValueError: There is no limit, or one is out of its range.
    """

    steps: int | None
    minutes: float | None = None
    learning_rate: float
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
        if self.steps is None and self.minutes is None:
            raise ValueError("steps or minutes must be given: a training without a limit never ends")
        _check_at_least_one(self, "steps", "accumulate")
        _check_positive(self, "minutes", "learning_rate", "clip", "eps")

    def share(self, step: float, seconds: float) -> float:
        """Returns which part of the run is over, in 0..1, by the nearer of the two limits."""
        of_steps = 0.0 if self.steps is None else step / self.steps
        return of_steps if self.minutes is None else min(1.0, max(of_steps, seconds / (60 * self.minutes)))

    def rate(self, share: float) -> float:
        """Returns the learning rate at a share of the run."""
        return self.learning_rate * self.schedule.factor(share)

    def over(self, step: int, seconds: float) -> bool:
        """Returns whether a limit is reached."""
        return (self.steps is not None and step >= self.steps) or (
            self.minutes is not None and seconds >= 60 * self.minutes
        )


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Settings of step 1's training, most of which step 2's has too.

    Attributes:
        steps: Stop after this many steps; `None` leaves it to `minutes`.
        minutes: Stop after this much time, resumed runs added up; `None` sets no time limit.
        learning_rate: Peak learning rate; `None` takes the model's default.
        seed: Seed of the batches, the augmentation and the validation split.
        validation_share: Share of the images, in 0..1, that are only validated on. Both trainings hold out the same
            ones for the same share and seed.
        validate_every: Steps between two validations and checkpoints.
        device: PyTorch device to train on, such as "cpu" or "cuda".

    Raises:
        ValueError: A setting is out of its range; the message names it.
    """

    steps: int | None = None
    minutes: float | None = 20
    learning_rate: float | None = None
    seed: int = 0
    validation_share: float = 0.1
    validate_every: int = 100
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Checks the settings."""
        _check_at_least_one(self, "steps", "validate_every")
        _check_positive(self, "minutes", "learning_rate")
        if not 0 <= self.validation_share < 1:
            raise ValueError(f"validation_share must be at least 0 and below 1, got {self.validation_share}")

    def optimization(self, default_rate: float) -> Optimization:
        """Returns how the model is optimized, at `default_rate` unless these settings name a learning rate."""
        rate = default_rate if self.learning_rate is None else self.learning_rate
        return Optimization(steps=self.steps, minutes=self.minutes, learning_rate=rate, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class RerankerTrainingConfig(TrainingConfig):
    """Settings of step 2's training. Without steps and minutes it takes `epochs`.

    Attributes:
        recipe: A key of `training.recipes.RECIPES`; the settings below replace its values.
        epochs: Passes over all samples; `None` takes the recipe's, unless steps or minutes are given.
        batch_size: Questions per process and part of a step, each with 16 candidates; `None` takes the recipe's. A step
            sees `batch_size * accumulate * processes` questions.
        accumulate: Parts of a step whose gradients are added up.
        warmup: Share of the run in which the learning rate rises, in 0..1; `None` takes the recipe's.
        precision: The dtype of matrix products; weights and optimizer are always float32. `None` takes bfloat16 on a
            GPU, and float32 on a CPU, where attention is slower in bfloat16 than all that it gains.
        max_tokens: Length in tokens at which texts are cut, if the model itself reads more; `None` takes the model's
            default.
        tokens_per_forward: Tokens of texts and queries, padding included, that go through the Q-Former at once.
        workers: Processes that decode images; `None` takes one per free core beside a GPU, and none on a CPU, whose
            cores the image tower needs.
        max_bad: Share of bad questions, in 0..1, above which the training stops before it begins.
    """

    minutes: float | None = None
    validate_every: int = 200
    recipe: str = "default"
    epochs: float | None = None
    batch_size: int | None = None
    accumulate: int = 1
    warmup: float | None = None
    precision: Precision | None = None
    max_tokens: int | None = None
    tokens_per_forward: int = 8192
    workers: int | None = None
    max_bad: float = 0.05

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if self.recipe not in RECIPES:
            raise ValueError(f"recipe must be one of {', '.join(RECIPES)}, got {self.recipe!r}")
        if self.precision not in (None, *PRECISIONS):
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        _check_at_least_one(self, "batch_size", "accumulate", "max_tokens", "tokens_per_forward")
        _check_positive(self, "epochs")
        for name in ("warmup", "max_bad"):
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {share}")
        if self.workers is not None and self.workers < 0:
            raise ValueError(f"workers must be at least 0, got {self.workers}")


def _check_at_least_one(config: object, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")


def _check_positive(config: object, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and value <= 0:
            raise ValueError(f"{name} must be above 0, got {value}")
