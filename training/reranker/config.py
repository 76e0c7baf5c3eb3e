"""Settings of step 2's training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from training.config import TrainingConfig, check_at_least_one, check_positive
from training.reranker.recipes import RECIPES

Precision = Literal["bfloat16", "float32"]
PRECISIONS: tuple[Precision, ...] = ("bfloat16", "float32")


@dataclass(frozen=True, kw_only=True)
class RerankerTrainingConfig(TrainingConfig):
    """Settings of step 2's training. Without steps and minutes it takes `epochs`.

    Attributes:
        recipe: A key of `RECIPES`, `None` for the model's default; the settings below replace its values.
        epochs: Passes over all samples; `None` takes the recipe's, unless steps or minutes are given.
        batch_size: Questions per process and part of a step, each with 16 candidates; `None` takes the recipe's. A step
            sees `batch_size * accumulate * processes` questions.
        accumulate: Parts of a step whose gradients are added up.
        warmup: Share of the run in which the learning rate rises, in 0..1; `None` takes the recipe's.
        precision: The dtype of matrix products; weights and optimizer are always float32. `None` takes bfloat16 on a
            GPU and wherever the image tower is trained, else float32 on a CPU, where attention is slower in bfloat16
            than all that it gains.
        max_tokens: Length in tokens at which texts are cut that are trained on, if the model itself reads more; `None`
            takes the model's default. What is validated on is cut as in an index, where the model itself does it.
        tokens_per_forward: Tokens of texts and queries, padding included, that go through the Q-Former at once.
        workers: Processes that decode images; `None` takes one per free core beside a GPU, and none on a CPU, whose
            cores the image tower needs.
        max_bad: Share of bad questions, in 0..1, above which the training stops before it begins.
    """

    minutes: float | None = None
    validate_every: int = 200
    recipe: str | None = None
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
        if self.recipe not in (None, *RECIPES):
            raise ValueError(f"recipe must be one of {', '.join(RECIPES)}, got {self.recipe!r}")
        if self.precision not in (None, *PRECISIONS):
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        check_at_least_one(self, "batch_size", "accumulate", "max_tokens", "tokens_per_forward")
        check_positive(self, "epochs")
        for name in ("warmup", "max_bad"):
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {share}")
        if self.workers is not None and self.workers < 0:
            raise ValueError(f"workers must be at least 0, got {self.workers}")
