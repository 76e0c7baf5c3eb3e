"""Trains step 2: the Q-Former learns to tell the evidence from hard negatives (the paper's section 3.2)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from retriever.batching import by_length
from retriever.files import sha256_of
from retriever.identity import Items, agree, files_as_items
from retriever.models import blip2
from retriever.models.precision import fastest_dtype
from retriever.models.qformer import QFormerFusion
from retriever.models.qformer_folder import read_layout
from retriever.protocols import TextReranker
from retriever.wording import counted
from training.augment import ROOM
from training.checkpoint import BEST_NAME, CHECKPOINT_NAME
from training.config import Optimization
from training.feeder import Feeder
from training.loop import train
from training.memory import naming_memory_settings
from training.processes import Processes, joined
from training.record import Provenance, TrainingRecord, remarks_on
from training.reranker.batches import BatchMaker, Order
from training.reranker.config import RerankerTrainingConfig
from training.reranker.data import RerankerData, Serving
from training.reranker.fusion_weight import best_alpha, best_beta
from training.reranker.grouping import least_padding
from training.reranker.in_batch import InBatchMaker, TowerFeatures
from training.reranker.model import InBatchReranker, Reranker
from training.reranker.recipes import MODEL_DEFAULTS, RECIPES, ModelDefaults, Recipe
from training.reranker.scored import recall_at_1, section_recall
from training.reranker.training_set import (
    MANIFEST_NAME,
    TrainingSet,
    Views,
    agree_on_images,
    make_training_set,
    raise_everywhere,
)
from training.reranker.validation import Validation

logger = logging.getLogger(__name__)

DATA_NAME = "data"
_BETTER_BY = ("section_recall", "validation_loss")
"""Recall@1 on a hundred held-out images is uncertain by several points. Section recall depends on both the entity and
the section, and tells good weights from bad ones more reliably."""

_MAY_CHANGE = ("device", "workers", "minutes", "max_bad")
_LESS_MEMORY = (
    "use a smaller --batch-size (with a proportionally larger --accumulate for the same step) or a smaller "
    "--tokens-per-forward"
)


@dataclass(frozen=True, slots=True)
class TrainedReranker:
    """The result of a training.

    Attributes:
        folder: Folder of the trained encoder.
        alpha: The best weight of step 1 on held-out images, `None` if it could not be determined.
        beta: The best weight of step 2 in step 3 on held-out images, `None` if it could not be determined.
        metrics: Metrics on held-out images.
    """

    folder: Path
    alpha: float | None
    beta: float | None
    metrics: dict[str, float]


def train_reranker(
    fusion: Path,
    data: RerankerData,
    out: Path,
    config: RerankerTrainingConfig = RerankerTrainingConfig(),  # noqa: B008  frozen
    *,
    sections: Callable[[], TextReranker] | None = None,
    provenance: Provenance = Provenance(),  # noqa: B008  frozen
    progress: bool = True,
    overwrite: bool = False,
) -> TrainedReranker:
    """Trains a fusion encoder; writes it to `out/fusion`.

    Articles are tokenized once, and images are encoded once by a frozen tower, or resized once if the tower is trained,
    into `out/data`. A killed run resumes. Under `torchrun`, all processes call this function with the same arguments
    and a shared `out`.

    Args:
        fusion: Folder of the encoder to start from.
        data: Knowledge base, questions and negatives.
        out: Folder for `fusion/`, `data/`, `left_out.jsonl`, the checkpoint and the curve.
        config: Recipe, limits, batch size, seed and device.
        sections: Loads step 3's model, used to find beta.
        provenance: Where model and code come from, for the training record.
        progress: Whether to show progress bars.
        overwrite: Whether to replace a run with other inputs.

    Raises:
        ValueError: A file is malformed, too many questions are bad, none can be trained on, or `out` holds a run with
            other inputs.
        FloatingPointError: The loss is not finite.
        MemoryError: The device runs out of memory; the message names the settings to reduce.
    """
    with joined(config.device) as processes, naming_memory_settings(_LESS_MEMORY, "--workers"):
        return _train(fusion, data, out, config, sections, provenance, progress, processes, overwrite)


def _train(
    fusion: Path,
    data: RerankerData,
    out: Path,
    config: RerankerTrainingConfig,
    sections: Callable[[], TextReranker] | None,
    provenance: Provenance,
    progress: bool,
    processes: Processes,
    overwrite: bool,
) -> TrainedReranker:
    layout = read_layout(fusion)
    defaults = MODEL_DEFAULTS[layout.settings["vision"]["kind"]]
    name, recipe = _recipe(config, defaults)
    in_batch = recipe.negatives == "in_batch"
    start = QFormerFusion.load(fusion, str(processes.device))
    if recipe.target_ratio is not None and layout.stored_name is blip2.stored_name:  # a published one, as it is
        start.pixels = replace(start.pixels, crop=True, target_ratio=recipe.target_ratio)
    max_tokens = min(config.max_tokens or defaults.max_tokens, start.max_text_tokens)
    views = Views(defaults.query_views, defaults.main_views) if recipe.augment else Views(1, 1)
    device = processes.device.type
    default = fastest_dtype(device) if in_batch or device != "cpu" else torch.float32
    precision = default if config.precision is None else getattr(torch, config.precision)
    settings: dict[str, object] = {
        "fusion": start.fingerprint,
        "recipe": asdict(recipe),
        "precision": str(precision).removeprefix("torch."),
        "max_tokens": max_tokens,
        "tokens_per_forward": config.most_tokens,
        "validation_share": config.validation_share,
        "serving": data.serving.recorded(),
    }
    optimized = {key: value for key, value in asdict(config).items() if key not in _MAY_CHANGE}
    problem: ValueError | None = None
    if processes.first:
        try:
            _agree(out, data, settings | optimized | {"processes": processes.count}, overwrite)
        except ValueError as error:
            problem = error
    raise_everywhere(problem, processes)
    training_set = make_training_set(
        data,
        out / DATA_NAME,
        start,
        views=views,
        side=round(ROOM * start.pixels.size) if in_batch else None,
        most_similar=recipe.positive_image == "most_similar",
        validation_share=config.validation_share,
        seed=config.seed,
        max_bad=config.max_bad,
        workers=config.workers,
        processes=processes,
        reuse=(out / CHECKPOINT_NAME).is_file(),
        progress=progress,
    )
    samples = training_set.samples
    questions = counted(len(samples.training), "question")
    logger.info("%s to train on, %d to validate on", questions, len(samples.validation))

    model, feeder, validation, steps_per_epoch = _parts(
        start, training_set, config, recipe, max_tokens, data.serving, precision, processes
    )
    wrapped = processes.wrap(model)

    def loss_of(step: int, part: int) -> Tensor:
        loss: Tensor = wrapped(feeder(step * config.accumulate + part))
        return loss

    optimization = _optimization(config, recipe, defaults, steps_per_epoch)
    settings["samples"] = samples.digest
    with closing(feeder):
        result = train(
            model,
            loss_of,
            out=out,
            optimization=optimization,
            validate=None if validation is None else lambda: validation.metrics(model),
            validate_every=config.validate_every,
            save_every=config.validate_every,
            better_by=_BETTER_BY,
            settings=settings,
            wrapped=wrapped,
            processes=processes,
            progress=progress,
        )
    logger.info("trained: %s; waited for data for %.1f s of %.0f", result, feeder.waited, result["seconds"])
    alpha, beta, metrics = _weights(validation, model, training_set, sections)
    if processes.first:
        remarks = remarks_on(result, optimization, _BETTER_BY)
        for remark in remarks:
            logger.warning("%s: %s", out, remark)
        start.save(out / "fusion")
        TrainingRecord(
            kind="reranker",
            base=provenance.base,
            recipe=name,
            data={
                "questions trained on": len(samples.training),
                "questions validated on": 0 if validation is None else len(validation),
                "entities": len(samples.main_image),
                "images": len(training_set.store.views),
            },
            settings={**asdict(optimization), **settings, "processes": processes.count},
            metrics={**result, **metrics},
            remarks=remarks,
            commit=provenance.commit,
        ).save(out / "fusion")
    processes.wait()
    return TrainedReranker(out / "fusion", alpha, beta, {**result, **metrics})


def _agree(out: Path, data: RerankerData, settings: Mapping[str, object], overwrite: bool) -> None:
    """Checks that a run in the folder has the same inputs, before anything is written; see `agree`."""
    questions = [question for question in data.questions if not isinstance(question, ValueError)]
    asked = ((q.id, [q.question, q.image_id, q.entity_ids, q.section_index]) for q in questions)
    ids = dict.fromkeys(question.image_id for question in questions)
    images = ((id, path) for id in ids if (path := data.query_image_of(id)) is not None)
    inputs = {
        "knowledge base": data.digest,
        "negatives": sha256_of(data.negatives),
        "order of negatives": data.negatives_order,
        "questions": Items(asked, "question", "another wording, image, entity or section"),
        "query images": files_as_items(images, "image"),
        "drop_sections": None if data.drop_sections is None else list(data.drop_sections),
        **settings,
    }
    work = [out / CHECKPOINT_NAME, out / BEST_NAME, out / DATA_NAME / MANIFEST_NAME]
    agree(out / "inputs.json", inputs, work=work, overwrite=overwrite)
    agree_on_images(data, out / DATA_NAME, work, overwrite)


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


def _parts(
    start: QFormerFusion,
    training_set: TrainingSet,
    config: RerankerTrainingConfig,
    recipe: Recipe,
    max_tokens: int,
    serving: Serving,
    precision: torch.dtype,
    processes: Processes,
) -> tuple[Reranker, Feeder[Any], Validation | None, int]:
    """Returns the model, its feeder, its validation (`None` without held-out samples), and the steps per epoch."""
    samples, texts, store = training_set.samples, training_set.texts(max_tokens), training_set.store
    tower = TowerFeatures(start, store, precision) if recipe.negatives == "in_batch" else None
    padding = int(start.tokenizer.pad_token_id)
    order = Order(samples.training, recipe.batch_size, config.accumulate, processes.count, config.seed)
    make = BatchMaker(
        samples,
        texts,
        tower or store,
        order,
        processes.rank,
        recipe.negatives,
        config.most_tokens,
        start.token_shape[0],
        padding,
        least_padding if config.on_gpu else by_length,
    )
    served = replace(make, texts=training_set.texts())  # an index cuts texts at the model's own limit
    validation = Validation(samples, served, processes, serving) if len(samples.validation) else None
    if tower is None:
        model = Reranker(start, recipe.log_temperature, precision).to(processes.device)
        return model, Feeder(make, processes.device), validation, order.steps_per_epoch
    batches = InBatchMaker(samples, texts, store, order, processes.rank, size=start.pixels.size, padding=padding)
    model = InBatchReranker(start, precision).to(processes.device)
    return model, Feeder(batches, processes.device), validation, batches.steps_per_epoch


def _optimization(
    config: RerankerTrainingConfig, recipe: Recipe, defaults: ModelDefaults, steps_per_epoch: int
) -> Optimization:
    """Returns the settings of the optimization; without other steps, it runs for the recipe's epochs."""
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


def _weights(
    validation: Validation | None,
    model: Reranker,
    training_set: TrainingSet,
    sections: Callable[[], TextReranker] | None,
) -> tuple[float | None, float | None, dict[str, float]]:
    """Finds alpha and beta on held-out images; returns them with the metrics that they reach there."""
    if validation is None:
        return None, None, {}
    samples = training_set.samples
    scored = validation.score(model)
    alpha = best_alpha(scored)
    used = 0.0 if alpha is None else alpha
    metrics = {
        "step1_recall@1": recall_at_1(scored, 1.0),
        "recall@1": recall_at_1(scored, used),
        "section_recall": section_recall(samples, scored, used),
    }
    if sections is None or not validation.processes.first:
        return alpha, None, metrics
    asked, passages = training_set.held_out_questions(), training_set.held_out_passages()
    question_of = {question.sample: asked[int(samples.question[question.sample])] for question in scored}
    beta, metrics["section_recall"] = best_beta(samples, scored, used, sections(), question_of, passages)
    return alpha, beta, metrics
