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
    """Settings of step 2's training. Without steps, it runs for `epochs`.

    Attributes:
        recipe: A key of `RECIPES`, or `None` for the model's default; the settings below replace its values.
        epochs: Passes over all samples; `None` uses the recipe's value, unless steps are given.
        batch_size: Questions per process and part of a step, each with 16 candidates; `None` uses the recipe's value. A
            step sees `batch_size * accumulate * processes` questions.
        accumulate: Parts per step whose gradients are accumulated.
        warmup: Share of the run in which the learning rate rises, in 0..1; `None` uses the recipe's value.
        precision: The dtype of matrix products; weights and optimizer are always float32. `None` uses bfloat16 on a GPU
            and, if the image tower is trained, on a CPU that gains from it; otherwise float32 on a CPU, where slower
            attention would outweigh the gain of bfloat16.
        max_tokens: Length in tokens to which training texts are cut, if the model itself reads more; `None` uses the
            model's default. Validation texts are cut at the model's own limit, as in an index.
        tokens_per_forward: Most tokens of texts and queries, padding included, per forward pass of the Q-Former; `None`
            uses 8192 on a CPU, whose caches prefer small passes, and 32,768 on a GPU, which small passes would make
            wait for the CPU (`training.reranker.grouping` has the arithmetic). All passes of a part of a step are kept
            for its backward pass, so memory depends on this only through padding.
        workers: Processes that decode images; `None` uses one per free core with a GPU, and none on a CPU, whose cores
            the image tower needs.
        max_bad: Share of bad questions, in 0..1, above which the training does not start.
    """

    validate_every: int = 200
    recipe: str | None = None
    epochs: float | None = None
    batch_size: int | None = None
    accumulate: int = 1
    warmup: float | None = None
    precision: Precision | None = None
    max_tokens: int | None = None
    tokens_per_forward: int | None = None
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

    @property
    def on_gpu(self) -> bool:
        """Whether it trains on a GPU."""
        return self.device != "cpu"

    @property
    def most_tokens(self) -> int:
        """`tokens_per_forward`, or its default."""
        return self.tokens_per_forward or (32_768 if self.on_gpu else 8192)
