"""The images and the settings of retrieval that a request may have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, cast

from retriever.filters import Values
from retriever.images import ImageInput

Images = ImageInput | Sequence[ImageInput] | None
"""An image, a list or tuple of several (both sides of a thing, two things to compare), or none."""


def each_of(images: Images) -> Sequence[ImageInput]:
    """Returns the images of a request."""
    return images if isinstance(images, list | tuple) else [] if images is None else [cast(ImageInput, images)]


class SearchParams(TypedDict, total=False):
    """The settings of retrieval that a request may have, as keyword arguments.

    Attributes:
        k: Number of candidates of step 1, instead of the profile's.
        alpha: Weight of step 1 in step 2 (equation 5), instead of the profile's.
        beta: Weight of step 2 in step 3 (equation 7), instead of the profile's.
        filter: Fields with a value or several, one of which an entity must have to be found: `{"category": "bird"}`.
        entity: The id of the entity that is asked about, whatever the image shows.
    """

    k: int | None
    alpha: float | None
    beta: float | None
    filter: Values | None
    entity: str | None
