"""Trains step 2: the Q-Former learns to tell the evidence from hard negatives (the paper's section 3.2)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from retriever.files import sha256_of
from retriever.identity import Items, agree, files_as_items
from retriever.protocols import TextReranker
from retriever.texts import by_length
from retriever.wording import counted
from training.augment import ROOM
from training.batch import Feeder
from training.checkpoint import BEST_NAME, CHECKPOINT_NAME
from training.loop import train
from training.memory import naming_memory_settings
from training.processes import joined
from training.record import Provenance, TrainingRecord, remarks_on
from training.reranker.batches import BatchMaker, Order, least_padding
from training.reranker.config import RerankerTrainingConfig
from training.reranker.data import RerankerData, Serving
from training.reranker.fusion_weight import best_alpha, best_beta, recall_at_1, section_recall
from training.reranker.in_batch import InBatchMaker, TowerFeatures
from training.reranker.model import InBatchReranker, Reranker
from training.reranker.setup import Setup, make_setup, optimization_of
from training.reranker.training_set import (
    MANIFEST_NAME,
    TrainingSet,
    Views,
    agree_on_images,
    make_training_set,
    raise_everywhere,
    worker_count,
)
from training.reranker.validation import Validation

logger = logging.getLogger(__name__)

DATA_NAME = "data"
INPUTS_NAME = "inputs.json"
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
    overwrite: bool = False,
) -> TrainedReranker:
    """Trains a fusion encoder; writes it to `out/fusion`.

    Articles are tokenized once, and images are encoded once by a frozen tower, or resized once if the tower is trained,
    into `out/data`. A killed run resumes. Under `torchrun`, all processes call this function with the same arguments
    and a shared `out`.

    Args:
        fusion: Folder of the encoder to start from.
        data: Articles, questions and negatives.
        out: Folder for `fusion/`, `data/`, `left_out.jsonl`, the checkpoint and the curve.
        config: Recipe, limits, batch size, seed and device.
        sections: Loads step 3's model, used to find beta.
        provenance: Where model and code come from, for the training record.
        overwrite: Whether to replace a run with other inputs.

    Raises:
        ValueError: A file is malformed, too many questions are bad, none can be trained on, or `out` holds a run with
            other inputs.
        FloatingPointError: The loss is not finite.
        MemoryError: The device runs out of memory; the message names the settings to reduce.
    """
    with joined(config.device) as processes, naming_memory_settings(_LESS_MEMORY, "--workers"):
        setup = make_setup(fusion, config, processes, out / INPUTS_NAME)
        return _train(setup, data, out, sections, provenance, overwrite)


def _train(
    setup: Setup,
    data: RerankerData,
    out: Path,
    sections: Callable[[], TextReranker] | None,
    provenance: Provenance,
    overwrite: bool,
) -> TrainedReranker:
    config, processes = setup.config, setup.processes
    settings = setup.recorded(data.serving)
    _agree(out, data, settings, setup, overwrite)
    training_set = _training_set(setup, data, out)
    settings["samples"] = training_set.samples.digest
    model, feeder, validation, steps_per_epoch = _parts(setup, training_set, data.serving)
    optimization = optimization_of(setup, steps_per_epoch)
    wrapped = processes.wrap(model)

    def loss_of(step: int, part: int) -> Tensor:
        loss: Tensor = wrapped(feeder(step * config.accumulate + part))
        return loss

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
            settings=settings | setup.begun,
            wrapped=wrapped,
            processes=processes,
        )
    logger.info("trained: %s; waited for data for %.1f s of %.0f", result, feeder.waited, result["seconds"])
    alpha, beta, reached = _weights(validation, model, training_set, sections)
    metrics = {**result, **reached}
    if processes.first:
        remarks = remarks_on(result, optimization, _BETTER_BY)
        for remark in remarks:
            logger.warning("%s: %s", out, remark)
        setup.start.save(out / "fusion")
        TrainingRecord(
            kind="reranker",
            base=provenance.base,
            recipe=setup.name,
            data={
                "questions trained on": len(training_set.samples.training),
                "questions validated on": 0 if validation is None else len(validation),
                "entities": len(training_set.samples.main_image),
                "images": len(training_set.store.views),
            },
            settings={
                **asdict(optimization),
                **settings,
                "processes": processes.count,
                "workers": worker_count(config.workers, processes),
            },
            metrics=metrics,
            remarks=remarks,
            commit=provenance.commit,
        ).save(out / "fusion")
    processes.wait()
    return TrainedReranker(out / "fusion", alpha, beta, metrics)


def _training_set(setup: Setup, data: RerankerData, out: Path) -> TrainingSet:
    """Makes the samples, texts and images of the training, or reads those that are there."""
    config, recipe, defaults = setup.config, setup.recipe, setup.defaults
    made = make_training_set(
        data,
        out / DATA_NAME,
        setup.start,
        views=Views(defaults.query_views, defaults.main_views) if recipe.augment else Views(1, 1),
        side=round(ROOM * setup.start.pixels.size) if setup.in_batch else None,
        most_similar=recipe.positive_image == "most_similar",
        validation_share=config.validation_share,
        seed=config.seed,
        max_bad=config.max_bad,
        workers=config.workers,
        processes=setup.processes,
        reuse=(out / CHECKPOINT_NAME).is_file(),
    )
    questions = counted(len(made.samples.training), "question")
    logger.info("%s to train on, %d to validate on", questions, len(made.samples.validation))
    return made


def _agree(out: Path, data: RerankerData, settings: dict[str, object], setup: Setup, overwrite: bool) -> None:
    """Checks in the first process that a run in the folder has the same inputs, before anything is written.

    Raises:
        ValueError: In all processes, if it has others; see `agree`.
    """
    problem: ValueError | None = None
    if setup.processes.first:
        optimized = {key: value for key, value in asdict(setup.config).items() if key not in _MAY_CHANGE}
        inputs = {**_inputs_of(data), **settings, **optimized, **setup.begun}
        work = [out / CHECKPOINT_NAME, out / BEST_NAME, out / DATA_NAME / MANIFEST_NAME]
        try:
            agree(out / INPUTS_NAME, inputs, work=work, overwrite=overwrite)
            agree_on_images(data, out / DATA_NAME, work, overwrite)
        except ValueError as error:
            problem = error
    raise_everywhere(problem, setup.processes)


def _inputs_of(data: RerankerData) -> dict[str, object]:
    """Returns the inputs of a training by name; a run goes on only if they `agree` with those it began with."""
    questions = [question for question in data.questions if not isinstance(question, ValueError)]
    asked = ((q.id, [q.question, q.image_id, q.entity_ids, q.section_index]) for q in questions)
    ids = dict.fromkeys(question.image_id for question in questions)
    images = ((id, path) for id in ids if (path := data.query_image_of(id)) is not None)
    return {
        "articles": data.index.digest,
        "negatives": sha256_of(data.negatives),
        "order of negatives": data.negatives_order,
        "held out": "by content" if data.contents else "by name",
        "questions": Items(asked, "question", "another wording, image, entity or section"),
        "query images": files_as_items(images, "image"),
    }


def _parts(
    setup: Setup, training_set: TrainingSet, serving: Serving
) -> tuple[Reranker, Feeder[Any], Validation | None, int]:
    """Returns the model, its feeder, its validation (`None` without held-out samples), and the steps per epoch."""
    config, start, recipe, processes = setup.config, setup.start, setup.recipe, setup.processes
    samples, texts, store = training_set.samples, training_set.texts(setup.max_tokens), training_set.store
    tower = TowerFeatures(start, store, setup.precision) if setup.in_batch else None
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
        model = Reranker(start, recipe.log_temperature, setup.precision).to(processes.device)
        return model, Feeder(make, processes.device), validation, order.steps_per_epoch
    batches = InBatchMaker(samples, texts, store, order, processes.rank, size=start.pixels.size, padding=padding)
    model = InBatchReranker(start, setup.precision).to(processes.device)
    return model, Feeder(batches, processes.device), validation, batches.steps_per_epoch


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
