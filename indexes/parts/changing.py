"""An index in parts as an editor sees it: each part says what it stores of an entity, and makes its changes."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from indexes.live.changes import Addition, Change, from_bytes, to_bytes
from indexes.live.index import LiveIndex
from indexes.live.version import Entry
from indexes.parts.index import PartedIndex
from indexes.parts.layout import part_of
from indexes.parts.messages import write
from indexes.store.index import Index
from retriever.types import Entity, Filter

_STORED = 8
"""Entities that are kept with all that is stored of them."""


class ChangingParts(LiveIndex):
    """What `indexes.live.editor.Editor` needs of an index in parts; thread-safe.

    Args:
        index: The index.
    """

    def __init__(self, index: Index) -> None:
        assert isinstance(index, PartedIndex)
        self.index, self.manifest = index, index.manifest
        self.root = self.folder = index.folder
        self._name, self._numbers = secrets.token_hex(8), itertools.count()
        self._stored = lru_cache(_STORED)(self._ask_stored)

    @contextmanager
    def pinned(self) -> Iterator[Any]:
        """Yields a view of the parts, see `PartedIndex.pinned`."""
        with self.index.pinned() as view:
            yield view

    def row_of(self, entity_id: str) -> int | None:
        """Returns the row of an entity, or `None` if it is not in the index; raises errors like `PartedIndex`."""
        return self.index.row_of(entity_id)

    def entity(self, row: int) -> Entity:
        """Returns the article at `row`."""
        return self.index.entity(row)

    def image_path(self, row: int) -> Path | None:
        """Returns the path of the main image's thumbnail, or `None`."""
        return self.index.image_path(row)

    def at(self, row: int) -> tuple[Entry, int]:
        """Returns all that the part of an entity stores of it."""
        return self._stored(row), 0

    def _ask_stored(self, row: int) -> Entry:
        [(_, answer)] = self.index.ask_of("stored", [row]).values()
        change = from_bytes(answer.columns["entity"][0])
        assert isinstance(change, Addition)
        return Entry(row, change)

    def apply(self, changes: Sequence[Change], scope: Filter = ()) -> None:
        """Has each part make the changes of its entities; on return, they are on disk, and later searches see them.

        Raises:
            KeyError: As in `LiveIndex.apply`.
            PartLostError: A part is down, or did not acknowledge the change, which it may have made all the same.
            OSError: A part could not write them.
            ValueError: A part cannot be changed.
        """
        parts, of = self.index.parts, dict[int, list[bytes]]()
        for change in changes:
            of.setdefault(part_of(change.id, parts.of), []).append(to_bytes(change))
        order = self._name, next(self._numbers)  # one that was given up may be made late, but not after later ones
        asked = {number: write({"changes": own}, scope=scope, order=order) for number, own in of.items()}
        for number, answer in parts.ask("apply", asked, parts.up).items():
            if hidden := answer.values.get("hidden"):
                raise KeyError(hidden)
            if failure := answer.values.get("failure"):
                if answer.values["errno"]:
                    raise OSError(answer.values["errno"], failure)
                raise ValueError(f"part {number + 1} of {parts.of} cannot be changed now; see its log")

    def compact_when_due(self, after: int) -> None:
        """Does nothing: each part compacts its own files."""

    def close(self) -> None:
        """Does nothing: other fronts may change the parts, too."""
