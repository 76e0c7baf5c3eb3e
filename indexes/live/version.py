"""A version of an index that changes, and its counts.

It is the files of a generation, entities no longer valid there, and new entities.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch

from indexes.ids import spellings
from indexes.live.changes import Addition
from indexes.store.index import Index
from indexes.store.keys import load_owners
from indexes.store.manifest import Counts
from indexes.store.search import StoredVectors, best_of_each
from retriever.filters import fits
from retriever.gpu import to_device
from retriever.types import Filter, FloatArray, IntArray

_SPARE = 64
"""Entities beyond `k` to search for at first; more are needed only if this many of the best are no longer valid."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Entry:
    """A changed entity and its row, which is never reused while the process runs."""

    row: int
    change: Addition


@dataclass(frozen=True, eq=False)
class Version:
    """An immutable state; its rows can be read while it is held, even if the index changes in the meantime.

    Attributes:
        base: The files of a generation.
        start: The row of the first entity of `base`.
        removed: Entities of `base` that have since been changed or removed, with their rows there (from 0).
        entries: The changed and new entities, in the order in which they arrived.
        logged: Number of changes in the log since `base`, including repeated changes of the same entity.
    """

    base: Index
    start: int = 0
    removed: Mapping[str, int] = field(default_factory=dict)
    entries: Mapping[str, Entry] = field(default_factory=dict)
    logged: int = 0

    @property
    def changes(self) -> int:
        """Number of entities that differ from the files."""
        return len(self.removed.keys() | self.entries.keys())

    def __len__(self) -> int:
        """Returns the number of entities."""
        return len(self.base) - len(self.removed) + len(self.entries)

    def row_of(self, entity_id: str) -> int | None:
        """Returns the row of an entity, or `None` if it does not exist; see `Index.row_of`."""
        rows = map(self._row_of, spellings(entity_id))
        return next((row for row in rows if row is not None), None)

    def _row_of(self, entity_id: str) -> int | None:
        if entity_id in self.entries:
            return self.entries[entity_id].row
        row = None if entity_id in self.removed else self.base.row_of(entity_id)
        if row is not None and self.removed and (own := self.base.entity(row).id) != entity_id:
            return self._row_of(own)  # called by another name
        return None if row is None else self.start + row

    def changed(self, changes: Iterable[tuple[str, Entry | None]]) -> Self:
        """Returns the state after changes, applied in order; `None` removes an entity."""
        entries, removed, logged = dict(self.entries), dict(self.removed), self.logged
        for entity_id, entry in changes:
            row = None if entity_id in removed else self.base.row_of(entity_id)
            if row is not None and self.base.entity(row).id == entity_id:  # not another entity's alternative name
                removed[entity_id] = row
            if entry is None:
                entries.pop(entity_id, None)
            else:
                entries[entity_id] = entry
            logged += 1
        return replace(self, removed=removed, entries=entries, logged=logged)

    def sources(self) -> Iterator[int | Entry]:
        """Yields where each entity comes from: its row in `base`, or an entry.

        Changed entities keep their position; new ones follow in the order of arrival, as in a knowledge base that was
        edited and appended to.
        """
        new = dict(self.entries)
        changed = {row: new.pop(entity_id, None) for entity_id, row in self.removed.items()}
        for row in range(len(self.base)):
            source = changed.get(row, row)
            if source is not None:
                yield source
        yield from new.values()

    def search_keys(self, queries: torch.Tensor, k: int, filter: Filter = ()) -> tuple[FloatArray, IntArray]:
        """Returns scores and rows, both [B, k], best first; see `Index.search_keys`."""
        if not len(self._keys[1]):
            return self._search_base(queries, k, filter)
        changed = self._score_changed(queries)  # first: it is complete when the search of the files has returned
        scores, rows = self._search_base(queries, k, filter)
        owners, own = self._keys[1], changed.numpy()
        if filter:
            out = {entry.row for entry in self.entries.values() if not fits(entry.change.entity, filter)}
            gone = np.isin(owners, list(out))
            owners, own = owners[~gone], own[:, ~gone]
        scores = np.concatenate([scores, own], axis=1)
        rows = np.concatenate([rows, np.broadcast_to(owners, (len(rows), len(owners)))], axis=1)
        return best_of_each(scores, rows, k)

    @torch.inference_mode()
    def _score_changed(self, queries: torch.Tensor) -> torch.Tensor:
        """Returns the scores of the changed entities' keys, float32 [B, D], in host memory.

        On a GPU, nothing waits: the values are there once later work of the stream has been waited for, as the search
        of the files does to get its own results.
        """
        device, searchable = torch.device(self.base.device), self.base.manifest.counts.searchable
        scores = to_device(queries.detach().float(), device) @ to_device(self._keys[0], device).float().T
        if device.type != "cuda":
            return scores
        return torch.empty(scores.shape, pin_memory=True).copy_(scores, non_blocking=searchable > 0)

    @cached_property
    def _keys(self) -> tuple[torch.Tensor, IntArray]:
        """The keys of changed entities [D, length] in host memory, and the rows that they belong to.

        They are float32; for a GPU, float16 in page-locked memory. Nothing is lost: they were rounded to it.
        """
        entries = self.entries.values()
        keys = [np.empty((0, self.base.manifest.key_length), np.float32), *(entry.change.keys for entry in entries)]
        rows = [entry.row for entry in entries for _ in entry.change.keys]
        joined = torch.from_numpy(np.concatenate(keys))
        if torch.device(self.base.device).type == "cuda":
            joined = joined.half().pin_memory()
        return joined, np.array(rows, np.int64)

    @cached_property
    def _removed_rows(self) -> IntArray:
        return np.array(sorted(self.removed.values()), np.int64)

    def _search_base(self, queries: torch.Tensor, k: int, filter: Filter) -> tuple[FloatArray, IntArray]:
        """Searches the files, leaving out entities that were changed or removed."""
        most = k + len(self.removed)
        asked = min(k + _SPARE, most) if self.removed else k
        while True:
            scores, rows = self.base.search_keys(queries, asked, filter)
            gone = np.isin(rows, self._removed_rows)
            if asked == most or (asked - gone.sum(axis=1) >= k).all():
                break
            asked = min(4 * asked, most)
        scores = np.where(gone, np.float32(-np.inf), scores)
        rows = np.where(gone | (rows < 0), -1, rows + self.start)
        return best_of_each(scores, rows, k) if self.removed else (scores, rows)


def count(version: Version) -> Counts:
    """Returns the counts that the manifest would have after a compaction; reads only what has changed."""
    total = version.base.manifest.counts
    if version.removed:
        total = total.plus(_of_rows(version.base, np.array(list(version.removed.values()), np.int64)), -1)
    for entry in version.entries.values():
        total = total.plus(_of_change(entry.change))
    return total


def _of_rows(base: Index, rows: IntArray) -> Counts:
    """Returns the counts of some entities of the files."""
    manifest = base.manifest
    sections, images = [len(base.section_rows(row)) for row in rows], [base.image_path(row) for row in rows]
    labeled, tokens = [len(base.labeled_rows(row)) for row in rows], [len(base.token_rows(row)) for row in rows]
    return Counts(
        entities=len(rows),
        sections=sum(len(base.entity(row).sections) for row in rows),
        with_image=sum(path is not None for path in images),
        searchable=int(np.isin(rows, StoredVectors(base.folder, manifest.search).rows).sum()),
        token_sections=sum(sections),
        further_keys=int(np.isin(load_owners(base.folder, manifest), rows).sum()),
        labeled_tokens=sum(labeled),
        image_tokens=sum(tokens) - sum(sections) - sum(labeled),
        columns={name: sum(len(column.of(row).parts) for row in rows) for name, column in base.columns.items()},
    )


def _of_change(change: Addition) -> Counts:
    return Counts(
        entities=1,
        sections=len(change.entity.sections),
        with_image=int(bool(change.thumbnail)),
        searchable=int(len(change.keys) > 0),
        token_sections=change.token_sections,
        further_keys=max(len(change.keys) - 1, 0),
        labeled_tokens=change.labeled_tokens,
        image_tokens=change.image_tokens,
        columns={name: len(encoded.parts) for name, encoded in change.columns.items()},
    )
