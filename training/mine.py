"""Mines hard negatives for step 2: the entities that step 1 finds for each question's image."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import torch
from PIL import Image
from torch import Tensor

from indexes.progress import progress_bar
from indexes.sources import ImageSource, main_candidates
from retriever.borders import load_query_image
from retriever.identity import Items, agree, files_as_items
from retriever.images import ImageError
from retriever.protocols import DualEncoder, EntityIndex
from training.negatives import Journal, NegativeEntry, write_negatives
from training.questions import TrainingQuestion

logger = logging.getLogger(__name__)

BATCH = 64
"""Images per forward pass."""


class FingerprintedIndex(EntityIndex, Protocol):
    """An index whose content a killed run can recognize."""

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the index holds."""


def mine_negatives(
    encoder: DualEncoder,
    index: FingerprintedIndex,
    questions: Iterable[TrainingQuestion],
    query_image_of: Callable[[str], Path | None],
    out: Path,
    *,
    k: int = 20,
    progress: bool = True,
    images: ImageSource | None = None,
    trim_borders: bool = False,
    overwrite: bool = False,
) -> int:
    """Writes the `k` entities that step 1 finds for each question's image; returns the number of images.

    The file has the format of OMGM's published code (`training.negatives`), so that such files are interchangeable.
    Missing and unreadable images are left out and counted in the log. A killed run resumes from the file `out` with the
    suffix `.journal`.

    Args:
        encoder: Step 1's model.
        index: An index built with `encoder`.
        questions: The questions; each image is searched for once.
        query_image_of: Finds the file of an image by its id.
        out: The file to write.
        k: Entities per image.
        progress: Whether to show a progress bar.
        images: The knowledge base's images. "gt_entity_pos_img" is the gold entity's image that is most similar to the
            question's image (appendix C.2); without `images`, it is the main image.
        trim_borders: Whether to cut uniform borders off the questions' images, as the pipeline may do.
        overwrite: Whether to replace the unfinished work of a run with other inputs.

    Raises:
        ValueError: `out` is a folder, no image can be read, or the journal is damaged or was started with another
            encoder, index, `k` or `trim_borders`, with other gold entities, or with `images` where this run has none.
    """
    if out.is_dir():  # to fail now rather than after hours
        raise ValueError(f"{out}: is a folder, but a file is needed; choose another name")
    gold: dict[str, tuple[str, ...]] = {}
    for question in questions:
        gold.setdefault(question.image_id, question.entity_ids)
    journal_path, note = (out.with_name(f"{out.name}.{end}") for end in ("journal", "inputs.json"))
    inputs: dict[str, object] = {
        "encoder": encoder.fingerprint,
        "index": index.fingerprint,
        "k": k,
        "trim_borders": trim_borders,
        "images": images is not None,
        "labels": Items(gold.items(), "image", "another entity"),
        "query images": files_as_items(((id, query_image_of(id)) for id in gold), "image"),
        "article images": files_as_items(_contents(index, gold.values(), images), "image"),
    }
    agree(note, inputs, work=[journal_path], overwrite=overwrite)
    with Journal(journal_path) as journal:
        # Group the images by entity, so that the images of an entity are encoded only once.
        waiting = sorted((image_id for image_id in gold if image_id not in journal), key=gold.__getitem__)
        positives = _Positives(encoder, index, images)
        id_of = cache(lambda row: index.entity(row).id)  # reading an article is slower than a search
        with progress_bar(total=len(waiting), desc="negatives", unit="image", shown=progress) as bar:
            for start in range(0, len(waiting), BATCH):
                batch = waiting[start : start + BATCH]
                loaded = _loaded(batch, query_image_of, trim_borders)
                if loaded:
                    vectors = encoder.encode_images(list(loaded.values()))
                    scores, rows = index.search(vectors, k)
                    found = zip(loaded, vectors, rows.tolist(), scores.tolist(), strict=True)
                    for image_id, vector, own_rows, sims in found:
                        entries: list[NegativeEntry] = [
                            {"entry": id_of(row), "similarity": round(sim_c, 6)}
                            for row, sim_c in zip(own_rows, sims, strict=True)
                            if row >= 0
                        ]
                        positive = positives.most_similar(gold[image_id], vector)
                        journal.add(image_id, {"gt_entity_pos_img": positive, "top_20": entries})
                    journal.flush()
                bar.update(len(batch))
        mined = [image_id for image_id in gold if image_id in journal]
        if len(mined) < len(gold):
            left_out = len(gold) - len(mined)
            logger.warning("%d of %d images are missing or unreadable and were left out", left_out, len(gold))
        if mined:
            write_negatives(out, journal.rows(mined))
        journal.remove()
    for path in (note, note.with_suffix(".npz")):
        path.unlink(missing_ok=True)
    if not mined:
        raise ValueError("--query-images: none of the questions' images can be read")
    return len(mined)


def _contents(
    index: EntityIndex, golds: Iterable[Sequence[str]], images: ImageSource | None
) -> Iterator[tuple[str, Path | bytes]]:
    """Yields the name and the content of each image that a gold entity may be shown with."""
    if images is None:
        return
    for row in sorted({row for gold in golds for key in gold if (row := index.row_of(key)) is not None}):
        for url in main_candidates(index.entity(row)):
            if (name := images.find(url)) is not None:
                yield name, images.content(name)


def _loaded(
    image_ids: Iterable[str], query_image_of: Callable[[str], Path | None], trim_borders: bool
) -> dict[str, Image.Image]:
    """Returns the readable images by id."""
    loaded = {}
    for image_id in image_ids:
        if (path := query_image_of(image_id)) is not None:
            try:
                loaded[image_id] = load_query_image(path, trim_borders)
            except ImageError as error:
                logger.warning("%s", error)
    return loaded


class _Positives:
    """Finds the image of a gold entity that is most similar to a question's; caches the last entity's vectors.

    Args:
        encoder: Encodes images.
        index: Holds the articles.
        images: The knowledge base's images; without them, only the main image is known.
    """

    def __init__(self, encoder: DualEncoder, index: EntityIndex, images: ImageSource | None):
        self.encoder, self.index, self.images = encoder, index, images
        self._last: tuple[int, list[str], Tensor] | None = None

    def most_similar(self, gold: Sequence[str], query: Tensor) -> str | None:
        """Returns the URL of the most similar image of the first gold entity in the index, or `None` if it has none."""
        row = next((row for key in gold if (row := self.index.row_of(key)) is not None), None)
        if row is None:
            return None
        entity = self.index.entity(row)
        if self.images is None:
            return entity.image
        if self._last is None or self._last[0] != row:
            self._last = (row, *self._encoded(self.images, main_candidates(entity)))
        _, urls, vectors = self._last
        return urls[int((vectors @ query).argmax())] if urls else entity.image

    def _encoded(self, source: ImageSource, urls: Iterable[str]) -> tuple[list[str], Tensor]:
        loaded = {}
        for url in urls:
            if (name := source.find(url)) is None:
                continue
            try:
                loaded[url] = source.load(name)
            except ImageError as error:
                logger.warning("%s", error)
        vectors = self.encoder.encode_images(list(loaded.values())) if loaded else torch.empty(0)
        return list(loaded), vectors
