"""The settings of retrieval that a request may have."""

from __future__ import annotations

from typing import TypedDict

from retriever.filters import Values


class SearchParams(TypedDict, total=False):
    """The settings of retrieval that a request may have, as keyword arguments.

    Attributes:
        k: Number of candidates of step 1, instead of the profile's.
        alpha: Weight of step 1 in step 2 (equation 5), instead of the profile's.
        beta: Weight of step 2 in step 3 (equation 7), instead of the profile's.
        filter: Fields with a value or several, one of which an entity must have to be found: `{"category": "bird"}`.
    """

    k: int | None
    alpha: float | None
    beta: float | None
    filter: Values | None
