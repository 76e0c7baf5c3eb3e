"""Hard negatives for step 2: the entities that step 1 finds for each question's image."""

from __future__ import annotations

import json
import logging
import math
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import torch
from torch import Tensor

from indexes.formats.streams import read_members
from indexes.progress import progress_bar
from indexes.sources import ImageSource, main_candidates
from retriever.files import write_whole
from retriever.images import ImageError, load_image
from retriever.protocols import DualEncoder, EntityIndex
from training.questions import TrainingQuestion

logger = logging.getLogger(__name__)


class NegativeEntry(TypedDict):
    """One entity found by step 1, with its `sim_c`."""

    entry: str
    similarity: NotRequired[float]


class ImageNegatives(TypedDict):
    """The entities found for one image, best first, and the URL of an image of the gold entity."""

    gt_entity_pos_img: str | None
    top_20: list[NegativeEntry]


@dataclass(frozen=True, slots=True)
class MinedNegatives:
    """What was mined for one image.

    Attributes:
        entities: Ids of the entities found, best first.
        similarities: Their `sim_c`, NaN if the file has none, as in OMGM's own files.
        positive: URL or path of the gold entity's image that is most similar to this one.
    """

    entities: tuple[str, ...]
    similarities: array[float]
    positive: str | None

    def items(self) -> Iterable[tuple[str, float]]:
        """Yields each entity with its similarity."""
        return zip(self.entities, self.similarities, strict=True)


def mine_negatives(
    encoder: DualEncoder,
    index: EntityIndex,
    questions: Iterable[TrainingQuestion],
    query_image_of: Callable[[str], Path | None],
    out: Path,
    k: int = 20,
    batch_size: int = 64,
    progress: bool = True,
    *,
    images: ImageSource | None = None,
) -> int:
    """Writes the `k` entities that step 1 finds for each question's image; returns the number of images.

    The file has OMGM's own format, so that files can be exchanged:
    `{image_id: {"gt_entity_pos_img": URL or null, "top_20": [{"entry": entity id, "similarity": sim_c}, …]}}`. The key
    is "top_20" whatever `k` is, and "similarity" is an addition, as in EchoSight's files. Images that are missing or
    unreadable are left out and counted in the log. A killed run resumes from `out` with the suffix `.journal`.

    Args:
        encoder: Step 1's model.
        index: An index built with `encoder`.
        questions: The questions; each image is searched for once.
        query_image_of: Finds the file of an image by its id.
        out: The file to write.
        k: Entities per image.
        batch_size: Images per batch.
        progress: Shows a progress bar.
        images: The knowledge base's images. "gt_entity_pos_img" is the gold entity's image that is most similar to the
            question's image (appendix C.2); without them it is the main image.

    Raises:
        ValueError: `out` is a folder, no image can be read, or the journal is damaged or was started with another
            encoder, index size or `k`.
    """
    if out.is_dir():  # said now, not after hours
        raise ValueError(f"{out}: is a folder where a file is needed; choose another name")
    gold: dict[str, tuple[str, ...]] = {}
    for question in questions:
        gold.setdefault(question.image_id, question.entity_ids)
    out.parent.mkdir(parents=True, exist_ok=True)
    journal = out.with_name(out.name + ".journal")
    mined = _resume(journal, {"encoder": encoder.fingerprint, "k": k, "entities": len(index)})
    # Images of one entity side by side: its own images are then encoded once.
    waiting = sorted((image_id for image_id in gold if image_id not in mined), key=gold.__getitem__)
    positives = _Positives(encoder, index, images)
    id_of = cache(lambda row: index.entity(row).id)  # found for many images; reading an article is slower than a search
    left_out = 0
    bar = progress_bar(total=len(waiting), desc="negatives", unit="image", shown=progress)
    with journal.open("a", encoding="utf-8") as file, bar:
        for start in range(0, len(waiting), batch_size):
            batch = waiting[start : start + batch_size]
            loaded = {}
            for image_id in batch:
                path = query_image_of(image_id)
                try:
                    if path is not None:
                        loaded[image_id] = load_image(path)
                except ValueError as error:
                    logger.warning("%s", error)
            left_out += len(batch) - len(loaded)
            if loaded:
                vectors = encoder.encode_images(list(loaded.values()))
                scores, rows = index.search(vectors, k)
                for number, image_id in enumerate(loaded):
                    found = zip(rows[number].tolist(), scores[number].tolist(), strict=True)
                    mined[image_id] = {
                        "gt_entity_pos_img": positives.most_similar(gold[image_id], vectors[number]),
                        "top_20": [
                            {"entry": id_of(row), "similarity": round(score, 6)} for row, score in found if row >= 0
                        ],
                    }
                    file.write(json.dumps([image_id, mined[image_id]]) + "\n")
                file.flush()
            bar.update(len(batch))
    if left_out:
        logger.warning("%d of %d images are missing or unreadable and were left out", left_out, len(gold))
    result = {image_id: mined[image_id] for image_id in gold if image_id in mined}
    if not result:
        journal.unlink()
        raise ValueError("--query-images: none of the questions' images can be read")
    write_whole(out, (json.dumps(result, ensure_ascii=False, indent=0) + "\n").encode())
    journal.unlink()
    return len(result)


class _Positives:
    """Finds the image of a gold entity that is most similar to a question's; keeps the last entity's vectors.

    Args:
        encoder: Encodes images.
        index: Holds the articles.
        images: The knowledge base's images; without them the main image is the only one.
    """

    def __init__(self, encoder: DualEncoder, index: EntityIndex, images: ImageSource | None):
        self.encoder, self.index, self.images = encoder, index, images
        self._last: tuple[int, list[str], Tensor] | None = None

    def most_similar(self, gold: Sequence[str], query: Tensor) -> str | None:
        """Returns the URL of the image of the first gold entity in the index, or `None` if it has none."""
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


def read_negatives(path: Path) -> dict[str, MinedNegatives]:
    """Reads mined negatives by image id, one image at a time.

    Raises:
        ValueError: The file is not in the format of `mine_negatives`; the message names the image and the field.
    """
    negatives = {}
    try:
        for image_id, row in read_members(path):
            negatives[image_id] = _mined(path, image_id, row)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error}); write it with mine-negatives") from error
    return negatives


def _mined(path: Path, image_id: str, row: Any) -> MinedNegatives:
    try:
        # The same entities are found for many images: one string for each.
        found = {sys.intern(str(entry["entry"])): entry.get("similarity", math.nan) for entry in row["top_20"]}
        positive = row.get("gt_entity_pos_img")
        return MinedNegatives(tuple(found), array("f", found.values()), None if positive is None else str(positive))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f'{path}: {image_id}: expected {{"top_20": [{{"entry": …}}, …]}}, got {row!r}') from error


def _resume(journal: Path, header: dict[str, object]) -> dict[str, ImageNegatives]:
    """Reads the journal and cuts off an unfinished last line."""
    lines = journal.read_text(encoding="utf-8").split("\n")[:-1] if journal.is_file() else []
    try:
        [started, *rows] = map(json.loads, lines or [json.dumps(header)])
        mined = dict(rows)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{journal}: damaged ({error}); delete it to start over") from error
    if started != header:
        raise ValueError(f"{journal}: started with {lines[0]}, not {json.dumps(header)}; delete it to start over")
    write_whole(journal, "".join(line + "\n" for line in lines or [json.dumps(header)]).encode())
    return mined
