"""The articles of a knowledge base with the images that belong to each, as a build reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from indexes.image_source import ImageSource
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.groups import Groups
from indexes.knowledge.knowledge_base import KnowledgeBase, name_of
from indexes.knowledge.ledger import Ledger
from indexes.knowledge.matching import MatchReport, with_matched_images
from indexes.knowledge.reading import dropped_titles
from indexes.knowledge.sources import open_images
from indexes.knowledge.understanding.fields import image_pattern
from indexes.labeled_images import ImageTable
from retriever.types import Entity


class KnowledgeArticles:
    """Fulfills `indexes.builder.plan.ArticleSource`.

    Args:
        knowledge: The knowledge base.
        image_table: Says which image of an entity is its main image, in place of the knowledge base.
    """

    def __init__(self, knowledge: KnowledgeBase, image_table: ImageTable | None = None) -> None:
        self.knowledge, self._table = knowledge, image_table
        self.place, self.name = str(knowledge.kb), name_of(knowledge.kb)
        self.keep_navigation = knowledge.keep_navigation
        self._account: dict[str, Any] = {}

    @property
    def digest(self) -> str:
        """A hash of everything that is read."""
        digest = self.knowledge.digest
        return digest if self._table is None else hashlib.sha256(f"{digest}{self._table.digest}".encode()).hexdigest()

    @property
    def format(self) -> str:
        """The name of the reader of its files, or "folder" if they have several."""
        return self.knowledge.format

    @property
    def drop_sections(self) -> tuple[str, ...]:
        """The titles of sections that are left out."""
        return dropped_titles(self.format, self.knowledge.drop_sections)

    @cached_property
    def images(self) -> ImageSource | None:
        """The images of the knowledge base."""
        return open_images(self.knowledge.images, self.knowledge.kb, self.format)

    def articles(self) -> Iterator[Entity]:
        """Yields the articles alone, as often as needed."""
        return self.knowledge.articles()

    def entities(self, *, requires_images: bool = True) -> Iterator[Entity]:
        """Yields the articles with their images; `account` is complete at the end.

        Args:
            requires_images: Whether it is an error if images are there, but no entity has one.

        Raises:
            ValueError: Too many entries are bad, or the images belong to no entity.
        """
        skipped, ledger = SkippedEntries(self.knowledge.max_bad), Ledger(self.place)
        groups, matched = Groups(), MatchReport()
        articles = self.knowledge.articles(skipped, ledger, groups)
        articles = articles if self._table is None else self._table.applied(articles)
        pattern = image_pattern(self.knowledge.names or {})
        entities = with_matched_images(articles, self.images, pattern, matched, required=requires_images)
        yield from groups.counting(entities)
        ledger.images |= matched.counts()
        ledger.notes += [*groups.notes(), *matched.notes()]
        entries = {"count": skipped.count, "of": skipped.total, "entries": skipped.listed}
        self._account = {"skipped": entries} | ledger.to_json()

    def account(self) -> dict[str, Any]:
        """Counts the words, images and entries that the last complete reading kept and left out, for `report.json`."""
        return self._account
