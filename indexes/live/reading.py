"""Reads an index that changes: searches one version, and reads rows of every version that is still held."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from indexes.labeled_keys import labeled_keys, labeled_numbers
from indexes.live import layout
from indexes.live.changes import Addition, Change
from indexes.live.thumbnails import Thumbnails
from indexes.live.version import Entry, Version
from indexes.store import Index
from indexes.tokens import TokenStore
from retriever.types import Entity, FloatArray, IntArray, StoredTokens
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
        self.image_weight, self.device, self.gpu_search = base.image_weight, base.device, base.gpu_search
        self._thumbnails = Thumbnails(root / layout.LIVE / "images")
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

    def search(self, vectors: torch.Tensor, k: int) -> tuple[FloatArray, IntArray]:
        """Returns scores and rows; see `Index.search`."""
        return self.version.search(vectors, k)

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
        home, own = self._at(row)
        return home.change.entity if isinstance(home, Entry) else home.entity(own)

    def summary(self, row: int) -> str:
        """Returns the summary of the article at `row`; raises errors like `entity`."""
        home, own = self._at(row)
        return home.change.summary if isinstance(home, Entry) else home.summary(own)

    def image_path(self, row: int) -> Path | None:
        """Returns the path of the main image's thumbnail, or `None`."""
        try:
            home, own = self._at(row)
        except IndexError:
            return None
        return self._thumbnails.path(home.change.thumbnail) if isinstance(home, Entry) else home.image_path(own)

    def labeled_keys(self, row: int) -> FloatArray:
        """Returns those keys of an entity that are labeled images, float32 [keys, length]; raises like `entity`."""
        home, own = self._at(row)
        if isinstance(home, Entry):
            return home.change.keys[len(home.change.keys) - home.change.labeled :]
        return labeled_keys(home.folder, home.manifest, own)

    def main_is_labeled(self, row: int) -> bool:
        """Returns whether a labeled image replaces an entity's missing main image; raises errors like `entity`."""
        home, own = self._at(row)
        if isinstance(home, Entry):
            return 0 < home.change.labeled == len(home.change.keys)
        return own in labeled_numbers(home.folder, home.manifest, own)

    def token_rows(self, row: int) -> range:
        """Returns the rows of an entity's tokens, see `Index.token_rows`; raises errors like `entity`."""
        home, own = self._at(row)
        count = len(home.change.tokens) if isinstance(home, Entry) else len(home.token_rows(own))
        return range(row * _SPREAD, row * _SPREAD + count)

    def section_rows(self, row: int) -> range:
        """Returns the rows of an entity's section tokens; raises errors like `entity`."""
        home, own = self._at(row)
        count = home.change.token_sections if isinstance(home, Entry) else len(home.section_rows(own))
        return range(row * _SPREAD, row * _SPREAD + count)

    def labeled_tokens(self, row: int) -> tuple[NDArray[Any], NDArray[np.float16]]:
        """Returns the tokens of an entity's labeled images, see `Index.stored_tokens`; raises errors like `entity`."""
        home, own = self._at(row)
        if isinstance(home, Entry):
            first = len(home.change.tokens) - home.change.labeled_tokens
            return home.change.tokens[first:], home.change.scales[first:]
        return home.stored_tokens(home.labeled_rows(own))

    def gather(self, spans: Sequence[range]) -> StoredTokens:
        """Returns stored tokens; each span is the `token_rows` of an entity or a prefix of them."""
        homes = [self._at(span.start // _SPREAD) if span else None for span in spans]
        bases = list(dict.fromkeys(home[0] for home in homes if home and isinstance(home[0], Index)))
        if len(bases) <= 1 and not any(home and isinstance(home[0], Entry) for home in homes):
            base = bases[0] if bases else self.version.base
            pairs = zip(homes, spans, strict=True)
            return base.gather([base.token_rows(home[1])[: len(span)] if home else range(0) for home, span in pairs])
        found: dict[int, StoredTokens] = {}
        for base in bases:
            own = {place: home[1] for place, home in enumerate(homes) if home and home[0] is base}
            stored = base.gather([base.token_rows(row)[: len(spans[place])] for place, row in own.items()])
            for place, first in zip(own, stored.first.tolist(), strict=True):
                found[place] = _part(stored, first, len(spans[place]))
        for place, home in enumerate(homes):
            if home and isinstance(home[0], Entry):
                found[place] = self._store(home[0]).gather([range(len(spans[place]))])
        parts = [found[place] for place in sorted(found)]
        scales = [part.scales for part in parts if part.scales is not None]
        return StoredTokens(
            torch.cat([part.values for part in parts]),
            torch.cat(scales) if scales else None,
            np.cumsum([0, *map(len, spans)], dtype=np.int64)[:-1],
        )

    def tokens(self, rows: IntArray) -> torch.Tensor:
        """Returns stored tokens, decoded; see `Index.tokens`."""
        parts = []
        for row in np.asarray(rows, np.int64).tolist():
            home, own = self._at(row // _SPREAD)
            place = row % _SPREAD
            if isinstance(home, Entry):
                if place >= len(home.change.tokens):
                    raise IndexError(f"token row {row}: entity {home.change.id!r} has {len(home.change.tokens)}")
                parts.append(self._store(home).read(np.array([place], np.int64)))
            else:
                parts.append(home.tokens(np.array([home.token_rows(own)[place]], np.int64)))
        return torch.cat(parts) if parts else self.version.base.tokens(np.empty(0, np.int64))

    def save_pretrained(self, folder: str | Path, *, license: str | None = None) -> None:
        """Copies the files of the index; see `Index.save_pretrained`.

        Raises:
            ValueError: The index has changes that are not in the files yet.
        """
        self._check_settled()
        self.version.base.save_pretrained(folder, license=license)

    def push_to_hub(
        self,
        repo: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        message: str | None = None,
        license: str | None = None,
    ) -> str:
        """Publishes the files of the index; see `Index.push_to_hub`.

        Raises:
            ValueError: The index has changes that are not in the files yet.
        """
        self._check_settled()
        return self.version.base.push_to_hub(repo, private=private, token=token, message=message, license=license)

    @property
    def version(self) -> Version:
        """The version that this context has pinned, or else the current one."""
        pinned = self._pinned.get()
        return self._current if pinned is None else pinned

    def _check_settled(self) -> None:
        if self.changes:
            changes = counted(self.changes, "change")
            raise ValueError(f"{self.root}: has {changes} not yet in its files; compact it first")

    def _at(self, row: int) -> tuple[Entry, int] | tuple[Index, int]:
        """Returns where a row is stored: its entry in the log, or the index of its files and the row there."""
        entry = self._entries.get(row)
        if entry is not None:
            return entry, 0
        for start, reference in reversed(self._bases):
            base = reference()
            if base is not None and start <= row < start + len(base):
                return base, row - start
        raise IndexError(f"there is no entity at row {row}")

    def _store(self, entry: Entry) -> TokenStore:
        change = entry.change
        return TokenStore(self.manifest.inputs.codec, change.tokens, change.scales, self.device)

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


def _part(stored: StoredTokens, first: int, count: int) -> StoredTokens:
    """Returns only the tokens of one span; if all tokens are on the GPU, `stored` contains all of them."""
    part = slice(first, first + count)
    scales = None if stored.scales is None else stored.scales[part]
    return StoredTokens(stored.values[part], scales, np.zeros(1, np.int64))
