"""A knowledge base with everything that is said about how to read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indexes.knowledge.formats import guess_format, hash_knowledge_base, read_knowledge_base
from indexes.knowledge.formats.fields import Names
from indexes.knowledge.formats.losses import Losses
from indexes.knowledge.formats.reading import MAX_BAD, SkippedEntries
from indexes.knowledge.sources import ImageSource, given_images, open_images
from retriever.types import Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeBase:
    """A knowledge base and how to read it.

    Attributes:
        kb: The knowledge base.
        images: A folder or a ZIM file with its images; `None` if the knowledge base holds its own. A missing or
            unreadable image is not an error.
        kb_format: See `indexes.knowledge.formats`; guessed when `None`.
        names: Names of an entity's fields in the knowledge base, where they differ from the usual ones.
        drop_sections: Titles of sections to leave out; see `indexes.knowledge.formats.dropped_titles`.
        keep_navigation: See `indexes.knowledge.formats.read_knowledge_base`.
        max_bad: Share of bad entries that is accepted and skipped, in 0..1.
    """

    kb: Path
    images: Path | None
    kb_format: str | None = None
    names: Names | None = None
    drop_sections: Sequence[str] | None = None
    keep_navigation: bool = False
    max_bad: float = MAX_BAD

    @property
    def format(self) -> str:
        """Its format."""
        return self.kb_format or guess_format(self.kb)

    def articles(self, skipped: SkippedEntries | None = None, losses: Losses | None = None) -> Iterator[Entity]:
        """Yields the articles. By default, bad entries up to the share `max_bad` are skipped."""
        options: dict[str, Any] = {"names": self.names, "keep_navigation": self.keep_navigation}
        skipped = skipped or SkippedEntries(self.max_bad)
        return read_knowledge_base(self.kb, self.format, self.drop_sections, skipped=skipped, losses=losses, **options)

    @property
    def digest(self) -> str:
        """A hash of everything that the articles are read from."""
        return hash_knowledge_base(self.kb, self.format, self.names)

    def image_source(self) -> ImageSource:
        """Returns the images; raises as `image_source`."""
        return image_source(self.images, self.kb, self.kb_format)


def image_source(images: Path | None, kb: Path, kb_format: str | None) -> ImageSource:
    """Returns the images of a knowledge base.

    Raises:
        ValueError: No folder is given for an encyclopedia; see `given_images`.
    """
    kb_format = kb_format or guess_format(kb)
    source = open_images(given_images(images, kb, kb_format), kb, kb_format)
    assert source is not None  # a folder is given, or the knowledge base contains its images
    return source
