"""What the settings of step 2's training come to for a model and a device."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from retriever.models import blip2
from retriever.models.precision import fastest_dtype
from retriever.models.qformer import QFormerFusion
from retriever.models.qformer_folder import read_layout
from training.config import Optimization
from training.processes import Processes, same_steps
from training.reranker.config import MODEL_DEFAULTS, RECIPES, ModelDefaults, Recipe, RerankerTrainingConfig
from training.reranker.data import Serving


@dataclass(frozen=True, slots=True)
class Setup:
    """What the settings of a training come to for its model and device.

    Attributes:
        start: The encoder to start from, which is trained.
        defaults: The defaults of models of its kind.
        name: The recipe's name.
        recipe: The recipe, with the values that the settings replace.
        max_tokens: Length in tokens to which training texts are cut.
        precision: The dtype of matrix products.
        begun: How the run divides its steps, as it began; see `same_steps`.
    """

    config: RerankerTrainingConfig
    processes: Processes
    start: QFormerFusion
    defaults: ModelDefaults
    name: str
    recipe: Recipe
    max_tokens: int
    precision: torch.dtype
    begun: dict[str, int]

    @property
    def in_batch(self) -> bool:
        """Whether negatives come from the batch, so that the image tower is trained too."""
        return self.recipe.negatives == "in_batch"

    def recorded(self, serving: Serving) -> dict[str, object]:
        """Returns the settings that the training record names."""
        return {
            "fusion": self.start.fingerprint,
            "recipe": asdict(self.recipe),
            "precision": str(self.precision).removeprefix("torch."),
            "max_tokens": self.max_tokens,
            "tokens_per_forward": self.config.most_tokens,
            "validation_share": self.config.validation_share,
            "serving": serving.recorded(),
        }


def make_setup(fusion: Path, config: RerankerTrainingConfig, processes: Processes, note: Path) -> Setup:
    """Loads the encoder and chooses what the settings leave open; `note` is that of a run that may have begun.

    Raises:
        ValueError: The recipe would train an image tower that is too large for that.
    """
    accumulate, begun = same_steps(note, config.accumulate, processes.count)
    layout = read_layout(fusion)
    defaults = MODEL_DEFAULTS[layout.settings["vision"]["kind"]]
    name, recipe = _recipe(config, defaults)
    start = QFormerFusion.load(fusion, str(processes.device))
    if recipe.target_ratio is not None and layout.stored_name is blip2.stored_name:  # a published one, as it is
        start.pixels = replace(start.pixels, crop=True, target_ratio=recipe.target_ratio)
    device = processes.device.type
    default = fastest_dtype(device) if recipe.negatives == "in_batch" or device != "cpu" else torch.float32
    return Setup(
        config=replace(config, accumulate=accumulate),
        processes=processes,
        start=start,
        defaults=defaults,
        name=name,
        recipe=recipe,
        max_tokens=min(config.max_tokens or defaults.max_tokens, start.max_text_tokens),
        precision=default if config.precision is None else getattr(torch, config.precision),
        begun=begun,
    )


def _recipe(config: RerankerTrainingConfig, defaults: ModelDefaults) -> tuple[str, Recipe]:
    """Returns the recipe's name, and the recipe with the values that the settings replace.

    Raises:
        ValueError: The recipe would train an image tower that is too large for that.
    """
    name = config.recipe or defaults.recipe
    recipe = RECIPES[name]
    if recipe.negatives == "in_batch" and defaults.recipe != name:
        raise ValueError(f"recipe {name} trains the image tower, but this model's is too large; use mined or paper")
    schedule = recipe.schedule if config.warmup is None else replace(recipe.schedule, warmup=config.warmup)
    return name, replace(recipe, schedule=schedule, batch_size=config.batch_size or recipe.batch_size)


def optimization_of(setup: Setup, steps_per_epoch: int) -> Optimization:
    """Returns the settings of the optimization; without other steps, it runs for the recipe's epochs."""
    config, recipe, defaults = setup.config, setup.recipe, setup.defaults
    steps = config.steps
    if config.epochs is not None or steps is None:
        epochs = config.epochs or recipe.epochs or defaults.epochs
        of_epochs = math.ceil(epochs * steps_per_epoch)
        steps = of_epochs if steps is None else min(steps, of_epochs)
    return Optimization(
        steps=steps,
        minutes=config.minutes,
        learning_rate=config.learning_rate or recipe.learning_rate or defaults.learning_rate,
        seed=config.seed,
        schedule=recipe.schedule,
        accumulate=config.accumulate,
        decay_vectors=recipe.decay_vectors,
        eps=recipe.eps,
        clip=recipe.clip,
    )
