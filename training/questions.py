"""The questions that trainings need, and which images are held out."""

from __future__ import annotations

import hashlib
from typing import Protocol


class AskedQuestion(Protocol):
    """A question about an image."""

    @property
    def id(self) -> str:
        """The question's id."""

    @property
    def question(self) -> str:
        """The text of the question."""

    @property
    def image_id(self) -> str:
        """The id of the question's image."""


class TrainingQuestion(AskedQuestion, Protocol):
    """A question with its gold entities and evidence section."""

    @property
    def entity_ids(self) -> tuple[str, ...]:
        """The gold entities."""

    @property
    def section_index(self) -> int | None:
        """The evidence section's position in the article as published."""


def is_held_out(content: str, share: float, seed: int) -> bool:
    """Returns whether an image is held out for validation, as is a `share` of all images, in 0..1.

    Images go by names for their content, so that copies are held out together (`indexes.image_copies.content_names`).

    The result depends on nothing but the arguments, so that every training holds out the same images: validation would
    be spoiled if another model had been trained on them.
    """
    digest = hashlib.sha256(f"{seed}:{content}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
