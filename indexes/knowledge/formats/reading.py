"""What readers of knowledge bases are told besides the path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from indexes.knowledge.formats.fields import Names
from indexes.knowledge.formats.losses import Losses


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read a knowledge base.

    Attributes:
        names: The names of an entity's fields there, if they differ from the usual ones.
        losses: Counts what is left out.
        dropped: Whether to leave out a section with a given title, and those below it.
        keep_navigation: Whether to keep navigation, comments and the like.
        has_file: Whether to read a file of a format with an entity in each.
        sections: For labels of rows' facts, whether they are sections.
    """

    names: Names = field(default_factory=dict)
    losses: Losses = field(default_factory=Losses)
    dropped: Callable[[str], bool] = lambda title: False
    keep_navigation: bool = False
    has_file: Callable[[Path], bool] = lambda file: True
    sections: Mapping[str, bool] = field(default_factory=dict)
