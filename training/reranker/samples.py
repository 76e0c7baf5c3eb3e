"""Training samples of step 2 in compact arrays, and which of the held-out ones are validated.

A sample is a question with its evidence and the entities that step 1 found.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retriever.files import replace_with
from retriever.types import IntArray
from training.reranker.config import Negatives

CANDIDATES = 16
"""Candidates per question: the evidence and 15 hard negatives (the paper's appendix C.2)."""
FROM_GOLD = 3
"""Most hard negatives from the gold article."""

Int32Array = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class SampleSet:
    """Samples, and the entities from which candidates are drawn; every item is identified by its row.

    A text is a section of an entity or, after all sections, a question; the last text is empty. Entities follow the
    order of the knowledge base; `first_section[e] : first_section[e + 1]` are the sections of entity e.

    Attributes:
        question: Text of each sample's question, [N].
        query_image: Image of each question, [N].
        gold: Gold entity, [N].
        evidence: Evidence section, [N].
        positive_image: Image that sections of the gold entity are paired with, [N].
        held_out: Whether a sample is held out for validation, bool [N].
        first_found: Sample i has `first_found[i] : first_found[i + 1]` of the following three, [N + 1].
        found: Entities that step 1 found, best first.
        similarity: The `sim_c` of each of them, float32, NaN if unknown.
        right: Whether each of them is gold, bool.
        first_section: The first section of each entity, [E + 1].
        published: Position of each section in its article as published, [S].
        main_image: Main image of each entity, -1 without one, [E].
        image_owners: The entity of each of `own_images`, ascending, [F].
        own_images: The images of articles that have their own token rows in an index (`keys_with_tokens` in
            `indexes.article_images`), [F]; only for entities with which held-out samples are
            compared.
        original: The first entity with the text of each entity's article, [E]; copies are no negatives of each other.
    """

    question: Int32Array
    query_image: Int32Array
    gold: Int32Array
    evidence: Int32Array
    positive_image: Int32Array
    held_out: NDArray[np.bool_]
    first_found: IntArray
    found: Int32Array
    similarity: NDArray[np.float32]
    right: NDArray[np.bool_]
    first_section: IntArray
    published: Int32Array
    main_image: Int32Array
    image_owners: Int32Array
    own_images: Int32Array
    original: Int32Array

    def __len__(self) -> int:
        """Returns the number of samples."""
        return len(self.question)

    @cached_property
    def training(self) -> NDArray[np.int64]:
        """The samples to train on, int64."""
        return np.flatnonzero(~self.held_out)

    @cached_property
    def validation(self) -> NDArray[np.int64]:
        """The samples to validate on, int64."""
        return np.flatnonzero(self.held_out)

    @cached_property
    def digest(self) -> str:
        """A hash of all non-empty arrays."""
        arrays = (np.ascontiguousarray(getattr(self, field.name)) for field in dataclasses.fields(self))
        hashes = (hashlib.sha256(array.tobytes()).digest() for array in arrays if array.size)
        return hashlib.sha256(b"".join(hashes)).hexdigest()[:16]

    def sections_of(self, entity: int) -> range:
        """Returns the sections of an entity."""
        return range(int(self.first_section[entity]), int(self.first_section[entity + 1]))

    def images_of(self, entity: int) -> list[int]:
        """Returns the `own_images` of an entity."""
        first, last = np.searchsorted(self.image_owners, [entity, entity + 1])
        images: list[int] = self.own_images[first:last].tolist()
        return images

    def found_by(self, sample: int) -> slice:
        """Returns the slice of `found`, `similarity` and `right` that belongs to a sample."""
        return slice(int(self.first_found[sample]), int(self.first_found[sample + 1]))

    def entity_of(self, sections: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the entity of each section."""
        return np.asarray(np.searchsorted(self.first_section, sections, side="right") - 1)

    def others(self, sample: int) -> Int32Array:
        """Returns the entities found by step 1 that are not gold and have an image."""
        part = self.found_by(sample)
        others = self.found[part][~self.right[part]]
        return others[self.main_image[others] >= 0]

    def pool(self, sample: int) -> NDArray[np.int64]:
        """Returns the sections of `others`."""
        spans = [np.arange(self.first_section[e], self.first_section[e + 1]) for e in self.others(sample)]
        return np.concatenate([np.empty(0, np.int64), *spans])

    def same(self, sample: int) -> NDArray[np.int64]:
        """Returns the other sections of the gold article."""
        own = np.arange(self.first_section[self.gold[sample]], self.first_section[self.gold[sample] + 1])
        others: NDArray[np.int64] = own[own != self.evidence[sample]]
        return others

    def enough(self, sample: int) -> bool:
        """Returns whether there are enough negatives for a sample."""
        gold, others = self.gold[sample], self.others(sample)
        same = int(self.first_section[gold + 1] - self.first_section[gold]) - 1
        pool = int((self.first_section[others + 1] - self.first_section[others]).sum())
        return min(FROM_GOLD, same) + pool >= CANDIDATES - 1

    def draw(
        self, sample: int, generator: np.random.Generator, negatives: Negatives
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draws the distinct candidates of a sample; returns their sections and images, both int64 [16].

        The evidence comes first. Every section of the other entities is equally likely, so long articles get more
        weight, as in the paper's code.

        Args:
            sample: The sample.
            generator: Source of randomness.
            negatives: See `training.reranker.config.Recipe`.
        """
        same, pool = self.same(sample), self.pool(sample)
        if negatives == "pooled":
            own, pool = same[:0], np.concatenate([same[:FROM_GOLD], pool])
        else:
            own = generator.choice(same, min(FROM_GOLD, len(same)), replace=False)
        others = generator.choice(pool, CANDIDATES - 1 - len(own), replace=False)
        sections = np.concatenate([[self.evidence[sample]], own, others])
        entities = self.entity_of(sections)
        gold = entities == self.gold[sample]
        return sections, np.where(gold, self.positive_image[sample], self.main_image[entities]).astype(np.int64)

    def keep(self, samples: NDArray[np.int64]) -> SampleSet:
        """Returns the set with only these samples."""
        spans = [np.arange(self.first_found[i], self.first_found[i + 1]) for i in samples]
        kept = np.concatenate([np.empty(0, np.int64), *spans])
        per_sample = ("question", "query_image", "gold", "evidence", "positive_image", "held_out")
        arrays: dict[str, Any] = {name: getattr(self, name)[samples] for name in per_sample}
        arrays |= {name: getattr(self, name)[kept] for name in ("found", "similarity", "right")}
        return dataclasses.replace(self, first_found=offsets_of([len(span) for span in spans]), **arrays)

    def save(self, path: Path) -> None:
        """Writes the arrays to a `.npz` file."""
        arrays = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

        def write(partial: Path) -> None:
            with partial.open("wb") as file:
                np.savez(file, **arrays)

        replace_with(path, write)

    @classmethod
    def load(cls, path: Path) -> SampleSet:
        """Reads what `save` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls(**{field.name: arrays[field.name] for field in dataclasses.fields(cls)})


def offsets_of(lengths: list[int]) -> IntArray:
    """Returns the offsets of rows with these lengths, int64 [rows + 1]."""
    return np.concatenate([[0], np.cumsum(np.array(lengths, dtype=np.int64))]).astype(np.int64)


MOST_QUESTIONS = 1000
MOST_ROWS = 50_000
"""Maximum number of distinct sections and images that are encoded: 0.4 GB of tokens for the embedded model, 2.5 GB
for BLIP-2."""


def compared_entities(samples: SampleSet, sample: int) -> set[int]:
    """Returns the entities that a sample is validated on: its gold entity, and those that step 1 found."""
    return {int(samples.gold[sample]), *samples.found[samples.found_by(sample)].tolist()}


def labeled_images(samples: SampleSet) -> dict[int, list[int]]:
    """Returns the images of training samples by gold entity: the labeled images that an index would have."""
    labeled: dict[int, list[int]] = {}
    for sample in samples.training:
        of_entity = labeled.setdefault(int(samples.gold[sample]), [])
        if (image := int(samples.query_image[sample])) not in of_entity:
            of_entity.append(image)
    return labeled


def without_surplus(
    samples: SampleSet, seed: int, *, labeled: bool
) -> tuple[SampleSet, NDArray[np.int64], NDArray[np.int32]]:
    """Leaves out held-out samples beyond the limits, in a seeded order, and the images that are then unused.

    Args:
        samples: All samples.
        seed: Seed of the order.
        labeled: Whether an index has the images of training samples as labeled images.

    Returns:
        The remaining set, with its images renumbered; the kept samples, int64; the kept images, int32.
    """
    chosen, entities = _chosen(samples, seed, labeled_images(samples) if labeled else {})
    kept = np.sort(np.concatenate([samples.training, np.array(chosen, dtype=np.int64)]))
    left = samples.keep(kept)
    needed = np.isin(np.arange(len(samples.main_image)), np.concatenate([left.gold, left.found]))
    main = np.where(needed, samples.main_image, -1)
    own = np.isin(samples.image_owners, list(entities))
    own_images = samples.own_images[own]
    images = np.unique(np.concatenate([left.query_image, left.positive_image, main[main >= 0], own_images]))

    def renumbered(rows: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.where(rows < 0, -1, np.searchsorted(images, rows)).astype(np.int32)

    return (
        replace(
            left,
            query_image=renumbered(left.query_image),
            positive_image=renumbered(left.positive_image),
            main_image=renumbered(main),
            image_owners=samples.image_owners[own],
            own_images=renumbered(own_images),
        ),
        kept,
        images,
    )


def _chosen(samples: SampleSet, seed: int, labeled: dict[int, list[int]]) -> tuple[list[int], set[int]]:
    """Returns as many held-out samples as the limits allow, and the entities that they are compared with."""
    chosen, entities, rows = list[int](), set[int](), 0
    for sample in np.random.default_rng([seed, 2]).permutation(samples.validation).tolist():
        further = compared_entities(samples, sample) - entities
        rows += sum(
            len(samples.sections_of(entity)) + len(samples.images_of(entity)) + len(labeled.get(entity, ()))
            for entity in further
        )
        if chosen and (rows > MOST_ROWS or len(chosen) == MOST_QUESTIONS):
            break
        entities |= further
        chosen.append(sample)
    return chosen, entities
