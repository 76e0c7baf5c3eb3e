"""Chooses the held-out samples for validation before images are read, so that those of the others are not read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from training.reranker.samples import SampleSet

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
