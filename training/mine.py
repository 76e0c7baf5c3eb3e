"""Mines hard negatives for step 2: the entities that step 1 finds for each question's image."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Protocol

import torch
from PIL import Image
from torch import Tensor

from indexes.image_source import ImageSource, main_candidates
from indexes.json_streams import read_members
from indexes.progress import progress_bar
from retriever.asking import EntityIndex
from retriever.borders import RULE, load_query_image
from retriever.files import replacing
from retriever.identity import Items, agree, files_as_items
from retriever.images import ImageError
from retriever.protocols import DualEncoder
from training.copies import text_hash
from training.negatives import ImageNegatives, Journal, NegativeEntry
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
    images: ImageSource | None = None,
    trim_borders: bool = False,
    overwrite: bool = False,
) -> int:
    """Writes the `k` entities that step 1 finds for each question's image; returns the number of images.

    The file has the format of OMGM's published code (`training.negatives`), so that such files are interchangeable.
    Entities whose article has the text of a gold entity's are listed as "copies", not among those found. Missing and
    unreadable images are left out; both are counted in the log. A killed run resumes from the file `out` with the
    suffix `.journal`. A finished one is not repeated; if images that were missing have turned up, they are added.

    Args:
        encoder: Step 1's model.
        index: An index built with `encoder`.
        questions: The questions; each image is searched for once.
        query_image_of: Finds the file of an image by its id.
        out: The file to write.
        k: Entities per image.
        images: The knowledge base's images. "gt_entity_pos_img" is the gold entity's image that is most similar to the
            question's image (appendix C.2); without `images`, it is the main image.
        trim_borders: Whether to cut uniform borders off the questions' images, as the pipeline may do.
        overwrite: Whether to replace the work of a run with other inputs.

    Raises:
        ValueError: `out` is a folder, no image can be read, the journal is damaged, or the file or its journal is from
            another encoder, index, `k` or `trim_borders`, from other gold entities or images, or from unknown ones.
    """
    if out.is_dir():  # to fail now rather than after hours
        raise ValueError(f"{out}: is a folder, but a file is needed; choose another name")
    gold: dict[str, list[tuple[str, ...]]] = {}
    for question in questions:  # those about one image may be about several entities
        if question.entity_ids not in (of_image := gold.setdefault(question.image_id, [])):
            of_image.append(question.entity_ids)
    journal_path, note = (out.with_name(f"{out.name}.{end}") for end in ("journal", "inputs.json"))
    inputs: dict[str, object] = {
        "encoder": encoder.fingerprint,
        "index": index.fingerprint,
        "k": k,
        "trim_borders": trim_borders and RULE,
        "images": images is not None,
        "labels": Items(gold.items(), "image", "another entity"),
        "query images": files_as_items(((id, query_image_of(id)) for id in gold), "image"),
        "article images": files_as_items(_contents(index, chain.from_iterable(gold.values()), images), "image"),
    }
    done: set[str] = set()
    if agree(note, inputs, work=[journal_path, out], overwrite=overwrite) and not journal_path.exists():
        done = {image_id for image_id, _ in read_members(out)}
        if all(image_id in done or query_image_of(image_id) is None for image_id in gold):
            logger.info("%s: finished, with the same inputs", out)
            return len(done)
    with Journal(journal_path) as journal:
        for image_id, row in read_members(out) if done else ():
            journal.add(image_id, row)
        # Group the images by entity, so that the images of an entity are encoded only once.
        waiting = sorted((image_id for image_id in gold if image_id not in journal), key=gold.__getitem__)
        positives = _Positives(encoder, index, images)
        articles = _Articles(index)
        with progress_bar(total=len(waiting), desc="negatives", unit="image") as bar:
            for start in range(0, len(waiting), BATCH):
                batch = waiting[start : start + BATCH]
                loaded = _loaded(batch, query_image_of, trim_borders)
                if loaded:
                    vectors = encoder.encode_images(list(loaded.values()))
                    scores, rows = index.search(vectors, k)
                    found = zip(loaded, vectors, rows.tolist(), scores.tolist(), strict=True)
                    for image_id, vector, own_rows, sims in found:
                        negatives = articles.negatives(gold[image_id], own_rows, sims)
                        shown = {
                            key: positives.most_similar(keys, vector) for keys in gold[image_id] for key in keys[:1]
                        }
                        negatives["gt_entity_pos_img"] = next(iter(shown.values()), None)
                        if len(shown) > 1:
                            negatives["positives"] = shown
                        journal.add(image_id, negatives)
                    journal.flush()
                bar.update(len(batch))
        mined = [image_id for image_id in gold if image_id in journal]
        if len(mined) < len(gold):
            left_out = len(gold) - len(mined)
            logger.warning("%d of %d images are missing or unreadable and were left out", left_out, len(gold))
        if mined:
            _write_negatives(out, journal.rows(mined))
            copied = sum("copies" in negatives for _, negatives in journal.rows(mined))
            if copied:
                what = "found copies of the article that they are about, which are no negatives"
                logger.warning("%d of %d images %s", copied, len(mined), what)
        journal.remove()
    if not mined:
        for path in (note, note.with_suffix(".npz")):
            path.unlink(missing_ok=True)
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


class _Articles:
    """What is needed of the articles that are found; each is read once.

    Args:
        index: Holds them.
    """

    def __init__(self, index: EntityIndex):
        self._row_of = index.row_of
        self._article = cache(lambda row: ((entity := index.entity(row)).id, text_hash(entity)))

    def negatives(
        self, golds: Iterable[Sequence[str]], rows: Iterable[int], similarities: Iterable[float]
    ) -> ImageNegatives:
        """Returns the entities found for an image, without copies of those that it may show, which are listed.

        Args:
            golds: The entities that questions about the image accept.
            rows: The rows found, best first, padded with -1.
            similarities: Their `sim_c`.
        """
        right = {row for keys in golds for key in keys if (row := self._row_of(key)) is not None}
        texts = {self._article(row)[1] for row in right}
        entries, copies = list[NegativeEntry](), list[str]()
        for row, similarity in zip(rows, similarities, strict=True):
            if row >= 0:
                id, text = self._article(row)
                if text in texts and row not in right:
                    copies.append(id)
                else:
                    entries.append({"entry": id, "similarity": round(similarity, 6)})
        found: ImageNegatives = {"gt_entity_pos_img": None, "top_20": entries}
        return {**found, "copies": copies} if copies else found


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


def _write_negatives(path: Path, rows: Iterable[tuple[str, ImageNegatives]]) -> None:
    """Writes the negatives of each image, holding those of one image in memory at a time."""
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as file:
        separator = "{\n"
        for image_id, row in rows:
            member = json.dumps({image_id: row}, ensure_ascii=False, indent=0)
            file.write(separator + member.removeprefix("{\n").removesuffix("\n}"))
            separator = ",\n"
        file.write("\n}\n")
