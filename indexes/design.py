"""The settings of an index that a profile decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from indexes.manifest import Candidates
from indexes.search_kinds import SearchChoice


class IndexDesign(TypedDict):
    """Arguments of `indexes.build.build_index`; see there."""

    drop_sections: Sequence[str] | None
    keep_navigation: bool
    candidates: Candidates
    tokens: str
    search: SearchChoice
    search_uri: str
    image_weight: float
    image_keys: int
    section_images: bool
    trim_borders: bool
