"""Settings of step 2's training, and recipes: named sets of them, which docs/training.md compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from training.config import ONE_CYCLE, WARMUP_COSINE, Schedule, TrainingConfig, check_at_least_one, check_positive

Negatives = Literal["spread", "pooled", "in_batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How samples are made and weights are optimized.

    Attributes:
        epochs: Passes over all samples; `None` uses the model's default.
        learning_rate: Peak learning rate; `None` uses the model's default.
        batch_size: Questions per process and part of a step.
        schedule: Learning rate and first beta over the run.
        eps: AdamW's epsilon.
        clip: Largest norm of the gradient; `None` does not clip.
        decay_vectors: Whether biases, norms and the temperature decay, too.
        log_temperature: Whether to learn the logarithm of equation 6's T rather than T itself.
        augment: Whether to make further views of images, if the model's defaults have any.
        negatives: "spread" draws three other sections of the gold article and fills up with sections of other
            entities; "pooled" draws all 15 from one pool that includes the first three other sections. "in_batch"
            uses the candidates of the other questions in the batch, and also trains the image tower
            (`training.reranker.in_batch`).
        positive_image: The image that sections of the gold article are paired with: the article's main image, as
            for every other candidate, or the article's image that is most similar to the query's.
        target_ratio: Highest aspect ratio of images for a published BLIP-2, which squashes them by itself; more
            elongated ones get black bars (TargetPad). `None` leaves the model's preparation as it is.
    """

    epochs: float | None = None
    learning_rate: float | None = None
    batch_size: int = 8
    schedule: Schedule = WARMUP_COSINE
    eps: float = 1e-8
    clip: float | None = 1.0
    decay_vectors: bool = False
    log_temperature: bool = True
    augment: bool = True
    negatives: Negatives = "spread"
    positive_image: Literal["main", "most_similar"] = "main"
    target_ratio: float | None = None


RECIPES = {
    "mined": Recipe(),
    "in-batch": Recipe(epochs=10, learning_rate=5e-4, batch_size=80, augment=False, negatives="in_batch"),
    # Appendix C.2, and the values of the authors' code where it says nothing.
    "paper": Recipe(
        epochs=1,
        learning_rate=1e-5,
        schedule=ONE_CYCLE,
        eps=1e-7,
        clip=None,
        decay_vectors=True,
        log_temperature=False,
        augment=False,
        negatives="pooled",
        positive_image="most_similar",
        target_ratio=1.25,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDefaults:
    """Settings that suit a kind of fusion encoder.

    Attributes:
        recipe: The recipe, a key of `RECIPES`.
        learning_rate: Peak learning rate.
        max_tokens: Longest text in tokens.
        epochs: Passes over all samples.
        query_views: Views per query image: the first is the original image, the others are augmented.
        main_views: Views per image of an article.
    """

    recipe: str
    learning_rate: float
    max_tokens: int
    epochs: float
    query_views: int
    main_views: int


MODEL_DEFAULTS = {
    # Starts from the embedded weights, with few images; with a frozen tower, it would forget other images at 5e-4.
    "small_clip": ModelDefaults(
        recipe="in-batch", learning_rate=1e-4, max_tokens=96, epochs=12, query_views=4, main_views=2
    ),
    # Fine-tuned; a view takes 0.7 MB at ViT-g's size.
    "blip2": ModelDefaults(recipe="mined", learning_rate=1e-5, max_tokens=512, epochs=1, query_views=1, main_views=1),
}
"""By kind of image tower."""


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
            wait for the CPU (`training.reranker.batches` has the arithmetic). All passes of a part of a step are kept
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
