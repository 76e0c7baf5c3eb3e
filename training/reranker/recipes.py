"""Recipes: named settings of step 2's training. docs/training.md compares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from training.schedule import ONE_CYCLE, WARMUP_COSINE, Schedule

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
