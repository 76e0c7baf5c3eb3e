"""Reads an index that changes: searches one version, and reads rows of every version that is still held."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from indexes.article_images import MainImage
from indexes.live.changes import Addition, Change
from indexes.live.version import Entry, Version
from indexes.store import generations
from indexes.store.columns import Encoded
from indexes.store.index import Index
from indexes.store.keys import load_labeled
from indexes.store.thumbnails import Thumbnails
from indexes.store.tokens import HostTokens, Residency
from retriever.types import Entity, Filter, FloatArray, IntArray, StoredTokens
from retriever.wording import counted

_SPREAD = 1 << 24
"""Token rows reserved per entity: the tokens of the entity at row r begin at r * _SPREAD."""


class VersionedIndex(Index):
    """The files of an index with later changes. Thread-safe.

    A row belongs to one entity and is never reused while the process runs. It is readable as long as a `Version` that
    contains it is held. Within `pinned`, a thread (precisely, a `contextvars` context) sees one version, even if the
    index changes in the meantime.

    Args:
        root: The index's folder; `folder` is that of the current files.
        base: The current files.
        changes: The changes since then, oldest first.
    """

    def __init__(self, root: Path, base: Index, changes: Sequence[Change]) -> None:
        self.root, self.folder, self.manifest = root, base.folder, base.manifest
        self.digest = base.digest
        self.image_weight, self.device = base.image_weight, base.device
        self._thumbnails = Thumbnails(root / generations.LIVE / "images")
        self._pinned: ContextVar[Version | None] = ContextVar("pinned", default=None)
        self._next_row = len(base)
        self._entries: weakref.WeakValueDictionary[int, Entry] = weakref.WeakValueDictionary()
        self._bases: list[tuple[int, weakref.ref[Index]]] = [(0, weakref.ref(base))]
        self._current = self._after(Version(base), changes)

    @property
    def changes(self) -> int:
        """Number of entities that differ from the files: changed, new and removed ones."""
        return self.version.changes

    @contextmanager
    def pinned(self) -> Iterator[Version]:
        """Yields the current version, which this context uses until the end of the block."""
        version = self.version
        token = self._pinned.set(version)
        try:
            yield version
        finally:
            self._pinned.reset(token)

    def __len__(self) -> int:
        """Returns the number of entities."""
        return len(self.version)

    def search_keys(self, queries: torch.Tensor, k: int, filter: Filter = ()) -> tuple[FloatArray, IntArray]:
        """Returns scores and rows; see `Index.search_keys`."""
        return self.version.search_keys(queries, k, filter)

    def row_of(self, entity_id: str) -> int | None:
        """Returns the row of an entity, or `None` if it is not in the index."""
        return self.version.row_of(entity_id)

    def rows(self) -> Iterator[int]:
        """Yields the rows of all entities in the order in which a compaction writes them."""
        version = self.version
        for source in version.sources():
            yield version.start + source if isinstance(source, int) else source.row

    def entity(self, row: int) -> Entity:
        """Returns the article at `row`.

        Raises:
            IndexError: There is no such row, or its version is no longer held.
        """
        home, own = self.at(row)
        return home.change.entity if isinstance(home, Entry) else home.entity(own)

    def summary(self, row: int) -> str:
        """Returns the summary of the article at `row`; raises errors like `entity`."""
        home, own = self.at(row)
        return home.change.summary if isinstance(home, Entry) else home.summary(own)

    def image_path(self, row: int) -> Path | None:
        """Returns the path of the main image's thumbnail, or `None`."""
        try:
            home, own = self.at(row)
        except IndexError:
            return None
        return self._thumbnails.path(home.change.thumbnail) if isinstance(home, Entry) else home.image_path(own)

    def stored(self, row: int) -> Addition:
        """Returns all that is stored of an entity, as if it were added now; raises errors like `entity`."""
        home, own = self.at(row)
        return home.change if isinstance(home, Entry) else _addition(home, own)

    def main_is_labeled(self, row: int) -> bool:
        """Returns whether a labeled image replaces an entity's missing main image; raises errors like `entity`."""
        home, own = self.at(row)
        if isinstance(home, Entry):
            return 0 < home.change.labeled == len(home.change.keys)
        return own in load_labeled(home.folder, home.manifest)

    def token_rows(self, row: int) -> range:
        """Returns the rows of an entity's tokens, see `Index.token_rows`; raises errors like `entity`."""
        home, own = self.at(row)
        count = len(home.change.tokens) if isinstance(home, Entry) else len(home.token_rows(own))
        return range(row * _SPREAD, row * _SPREAD + count)

    def section_rows(self, row: int) -> range:
        """Returns the rows of an entity's section tokens; raises errors like `entity`."""
        home, own = self.at(row)
        count = home.change.token_sections if isinstance(home, Entry) else len(home.section_rows(own))
        return range(row * _SPREAD, row * _SPREAD + count)

    def stored_tokens(self, rows: range) -> HostTokens:
        """Returns tokens as stored, see `Index.stored_tokens`; raises errors like `gather`."""
        return _tokens(*self._place(rows))

    def column(self, name: str, row: int) -> Encoded | None:
        """Returns the rows of an entity in a column; see `Index.column`; raises errors like `entity`."""
        home, own = self.at(row)
        return home.column(name, own) if isinstance(home, Index) else home.change.columns.get(name)

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        """Returns stored tokens; each span is the `token_rows` of an entity or a prefix of them."""
        base = self.version.base
        places = {span: self._place(span) if span else (base, span) for span in spans}
        # What is not in the current files is in memory, or belongs to a version that is no longer the current one.
        own = {span: rows for span, (home, rows) in places.items() if home is base}
        others = {span: _tokens(home, rows) for span, (home, rows) in places.items() if home is not base}
        stored = base.token_store.gather([*own.values()], [*others.values()])
        first = dict(zip([*own, *others], stored.first.tolist(), strict=True))
        return replace(stored, first=np.array([first[span] for span in spans], np.int64))

    def tokens(self, rows: IntArray) -> torch.Tensor:
        """Returns stored tokens, decoded; see `Index.tokens`."""
        store = self.version.base.token_store
        spans = [range(row, row + 1) for row in np.asarray(rows, np.int64).tolist()]
        parts = [store.decode(self.stored_tokens(span)) for span in spans]
        return torch.cat(parts) if parts else store.read(np.empty(0, np.int64))

    @property
    def residency(self) -> Residency:
        """Where the tokens of the current files are, and why; those of later changes are in memory."""
        return self.version.base.residency

    @property
    def version(self) -> Version:
        """The version that this context has pinned, or else the current one."""
        pinned = self._pinned.get()
        return self._current if pinned is None else pinned

    def settled(self) -> Index:
        """Returns the index of its files; raises `ValueError` if there are changes that they lack."""
        if self.changes:
            changes = counted(self.changes, "change")
            raise ValueError(f"{self.root}: has {changes} not yet in its files; compact it first")
        return self.version.base

    def at(self, row: int) -> tuple[Entry, int] | tuple[Index, int]:
        """Returns where a row is stored: its entry in the log, or the index of its files and the row there."""
        entry = self._entries.get(row)
        if entry is not None:
            return entry, 0
        for start, reference in reversed(self._bases):
            base = reference()
            if base is not None and start <= row < start + len(base):
                return base, row - start
        raise IndexError(f"there is no entity at row {row}")

    def _place(self, span: range) -> tuple[Entry | Index, range]:
        """Returns where the tokens of a span are: an entry or the index of some files, and the rows there.

        Raises:
            IndexError: There is no such row.
        """
        row, start = divmod(span.start, _SPREAD)
        home, own = self.at(row)
        rows = range(len(home.change.tokens)) if isinstance(home, Entry) else home.token_rows(own)
        if start + len(span) > len(rows):
            raise IndexError(f"entity {self.entity(row).id!r} has {len(rows)} rows of tokens, not {start + len(span)}")
        return home, rows[start : start + len(span)]

    def _after(self, version: Version, changes: Sequence[Change]) -> Version:
        """Returns the version after changes; changed entities get new rows."""
        entries: list[tuple[str, Entry | None]] = []
        for change in changes:
            entry = None
            if isinstance(change, Addition):
                self._entries[self._next_row] = entry = Entry(self._next_row, change)
                self._next_row += 1
            entries.append((change.id, entry))
        return version.changed(entries) if entries else version


def version_of(index: Index) -> Version:
    """Returns the version of an index that this context reads: the only one, unless it changes."""
    return index.version if isinstance(index, VersionedIndex) else Version(index)


def keys_of(index: Index, row: int) -> FloatArray:
    """Returns the keys of an entity, float32 [keys, length of a key]: none if it is not searchable."""
    home, own = index.at(row) if isinstance(index, VersionedIndex) else (index, row)
    return home.keys.of(own) if isinstance(home, Index) else home.change.keys


def _tokens(home: Entry | Index, rows: range) -> HostTokens:
    """Returns tokens of an entry or of files as stored."""
    if isinstance(home, Index):
        return home.stored_tokens(rows)
    part = slice(rows.start, rows.stop)
    return HostTokens(home.change.tokens[part], home.change.scales[part])


def _addition(files: Index, row: int) -> Addition:
    """Returns all that files store of an entity, as if it were added now."""
    path, spans = files.image_path(row), (files.token_rows(row), files.section_rows(row), files.labeled_rows(row))
    tokens, sections, labeled = map(len, spans)
    return Addition(
        files.entity(row),
        files.summary(row),
        MainImage(),
        b"" if path is None else path.read_bytes(),
        files.keys.of(row),
        *files.stored_tokens(spans[0]),
        files.keys.labeled(row),
        labeled,
        tokens - sections - labeled,
        {name: column.of(row) for name, column in files.columns.items()},
    )
