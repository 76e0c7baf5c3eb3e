"""What training and the mining of negatives need of a labeled question."""

from __future__ import annotations

import hashlib
from typing import Protocol


class TrainingQuestion(Protocol):
    """A labeled question."""

    @property
    def id(self) -> str:
        """The question's id."""

    @property
    def question(self) -> str:
        """The text of the question."""

    @property
    def image_id(self) -> str:
        """The id of the question's image."""

    @property
    def entity_ids(self) -> tuple[str, ...]:
        """The gold entities."""

    @property
    def section_index(self) -> int | None:
        """The evidence section's position in the article as published."""


def is_held_out(image_id: str, share: float, seed: int) -> bool:
    """Returns whether an image is validated on rather than trained on: a `share` of all images, in 0..1.

    It depends on nothing else, so that every training holds out the same images: a model trained on what another
    validates on would spoil the validation.
    """
    digest = hashlib.sha256(f"{seed}:{image_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
