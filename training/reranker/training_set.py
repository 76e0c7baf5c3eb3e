"""Step 2's training set on disk: samples, token ids and image features, made once and opened by every process."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.growing import save_array
from retriever.arrays import map_array
from retriever.files import write_json, write_lines
from retriever.identity import agree
from retriever.models.qformer import QFormerFusion
from retriever.wording import counted
from training.processes import Processes
from training.reranker.data import RerankerData
from training.reranker.features import compute_features, store_pixels
from training.reranker.image_store import FeatureStore, ImageName, ImageTable
from training.reranker.prepare import (
    PASSAGES_NAME,
    QUESTIONS_NAME,
    TEXTS_NAME,
    TOKEN_DTYPE,
    Preparation,
    prepare,
    read_by_row,
)
from training.reranker.rows import Rows
from training.reranker.samples import SampleSet

logger = logging.getLogger(__name__)

LEFT_OUT_NAME = "left_out.jsonl"
MANIFEST_NAME = "training_set.json"
"""Written last."""
IMAGES_NAME = "images.jsonl"
_FORMAT = 2
_SAMPLES_NAME = "samples.npz"
_VIEWS_NAME = "views.npy"
_FEATURES_NAME = "features"


class Views(NamedTuple):
    """Views per image: the first is the original image, the others are augmented."""

    query: int
    main: int


@dataclass(frozen=True)
class TrainingSet:
    """A training set.

    Attributes:
        folder: Its folder.
        samples: The samples.
        store: The features of their images, or the pixels.
    """

    folder: Path
    samples: SampleSet
    store: FeatureStore

    @classmethod
    def open(cls, folder: Path) -> TrainingSet | None:
        """Opens the training set in a folder; returns `None` if it is incomplete."""
        path = folder / MANIFEST_NAME
        if not path.is_file():
            return None
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest.get("format") != _FORMAT:  # of an earlier release
            return None
        views = np.array(map_array(folder / _VIEWS_NAME))
        store = FeatureStore(folder / _FEATURES_NAME, views, tuple(manifest["features"]))
        return cls(folder, SampleSet.load(folder / _SAMPLES_NAME), store)

    def texts(self, longest: int | None = None) -> Rows:
        """Returns the token ids of all texts, by default up to the model's limit."""
        return Rows(self.folder / TEXTS_NAME, TOKEN_DTYPE, longest)

    def held_out_questions(self) -> dict[int, str]:
        """Returns the held-out questions by text."""
        return read_by_row(self.folder / QUESTIONS_NAME)

    def held_out_passages(self) -> dict[int, list[str]]:
        """Returns the passages of held-out gold articles by entity."""
        return read_by_row(self.folder / PASSAGES_NAME)


def make_training_set(
    data: RerankerData,
    folder: Path,
    fusion: QFormerFusion,
    *,
    views: Views,
    side: int | None = None,
    most_similar: bool,
    validation_share: float,
    seed: int,
    max_bad: float,
    workers: int | None,
    processes: Processes,
    reuse: bool = False,
) -> TrainingSet:
    """Makes a training set: the first process reads the data, and all processes read images.

    Questions that cannot be trained on are listed in `left_out.jsonl` next to the folder.

    Args:
        data: The data.
        folder: Folder to write to.
        fusion: The model in training, for its tokenizer and its image tower.
        views: Views per image.
        side: If given, store the images themselves, as squares with this side in pixels, instead of features.
        most_similar: See `prepare`.
        validation_share: Share of the images to hold out.
        seed: Seed of that choice and of augmented views.
        max_bad: The largest share of bad questions, in 0..1.
        workers: Processes that decode images; `None` uses one per free core with a GPU, and none on a CPU.
        processes: The processes of the training.
        reuse: Whether to open the folder's training set if there is one, whose inputs the caller has compared.

    Raises:
        ValueError: A file is malformed, too many questions are bad, or none can be trained on.
    """
    if processes.broadcast(reuse) and (made := TrainingSet.open(folder)) is not None:
        return made
    prepared: Preparation | None = None
    problem: ValueError | None = None
    if processes.first:
        (folder / MANIFEST_NAME).unlink(missing_ok=True)
        try:
            prepared = prepare(
                data,
                folder,
                fusion.tokenizer,
                max_tokens=fusion.max_text_tokens,
                most_similar=most_similar,
                validation_share=validation_share,
                seed=seed,
            )
            if prepared.left_out.too_many(len(data.questions), max_bad):  # said now, not after hours of reading images
                prepared.left_out.report(folder.parent / LEFT_OUT_NAME, len(data.questions), max_bad)
        except ValueError as error:
            problem = error
    raise_everywhere(problem, processes)
    if prepared is not None:
        write_lines(folder / IMAGES_NAME, prepared.images)
        agree_on_images(data, folder, [folder / MANIFEST_NAME])
    names = processes.broadcast(prepared.images if prepared else [])
    images = ImageTable(names, data.images, data.serving.trim_borders)
    features, count = folder / _FEATURES_NAME, worker_count(workers, processes)
    if side is None:
        counts = np.array([views.query if name.kind == "query" else views.main for name in images.names])
        store = compute_features(fusion, images, counts, features, seed=seed, workers=count, processes=processes)
    else:
        store = store_pixels(images, side, features, workers=count, processes=processes)
    if prepared is not None:
        try:
            samples = _readable(prepared, store)
            prepared.left_out.report(folder.parent / LEFT_OUT_NAME, len(data.questions), max_bad)
            if not len(samples.training):
                raise ValueError(
                    f"{data.negatives}: none of {len(data.questions)} questions can be trained on; "
                    f"{len(samples.validation)} are held out, {folder.parent / LEFT_OUT_NAME} has the others"
                )
            samples.save(folder / _SAMPLES_NAME)
            save_array(folder / _VIEWS_NAME, store.views)
            write_json(folder / MANIFEST_NAME, {"format": _FORMAT, "features": store.shape})
        except ValueError as error:
            problem = error
    raise_everywhere(problem, processes)
    made = TrainingSet.open(folder)
    assert made is not None  # the manifest was just written
    return made


def agree_on_images(data: RerankerData, folder: Path, work: Sequence[Path], overwrite: bool = False) -> None:
    """Checks that the images of the training set in a folder are those that it was made from; see `agree`."""
    if (folder / IMAGES_NAME).is_file():
        with (folder / IMAGES_NAME).open("rb") as file:
            names = [ImageName(*json.loads(line)) for line in file]
        table = ImageTable(names, data.images)
        agree(folder / "images.json", {"images": table.contents()}, work=work, overwrite=overwrite)


def raise_everywhere(problem: ValueError | None, processes: Processes) -> None:
    """Raises the first process's error in every process, because the others would wait for it."""
    problem = processes.broadcast(problem)
    if problem is not None:
        raise problem


def _readable(prepared: Preparation, store: FeatureStore) -> SampleSet:
    """Returns the samples that have readable images and enough negatives."""
    problems = store.unreadable()
    for reason in problems.values():
        logger.info("%s", reason)
    if problems:
        first = next(iter(problems.values()))
        logger.warning("%s cannot be read, the first: %s", counted(len(problems), "image"), first)
    bad = np.array(sorted(problems), dtype=np.int64)
    samples = prepared.samples
    samples = replace(samples, main_image=np.where(np.isin(samples.main_image, bad), -1, samples.main_image))
    samples = _without(samples, bad)
    kept = []
    for sample, question in enumerate(prepared.ids):
        if samples.query_image[sample] in problems:
            prepared.left_out.add(question, "the image cannot be read")
        elif samples.main_image[samples.gold[sample]] < 0 or samples.positive_image[sample] in problems:
            prepared.left_out.add(question, "the gold entity's image cannot be read")
        elif not samples.held_out[sample] and not samples.enough(sample):
            prepared.left_out.add(question, "there are too few negatives", bad=False)
        else:
            kept.append(sample)
    return samples.keep(np.array(kept, dtype=np.int64))


def _without(samples: SampleSet, bad: NDArray[np.int64]) -> SampleSet:
    """Returns the samples without bad images of articles, and without those of articles whose main image is bad."""
    kept = ~np.isin(samples.own_images, bad) & (samples.main_image[samples.image_owners] >= 0)
    return replace(samples, image_owners=samples.image_owners[kept], own_images=samples.own_images[kept])


def worker_count(wanted: int | None, processes: Processes) -> int:
    """Returns the number of processes that decode images beside each one that trains."""
    if wanted is not None:
        return wanted
    if processes.device.type == "cpu":
        return 0
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, min(16, (os.cpu_count() or 1) // here - 1))
