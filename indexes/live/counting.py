"""Counts what an index holds now: its files with the changes since."""

from __future__ import annotations

import numpy as np

from indexes.live.changes import Addition
from indexes.live.version import Version
from indexes.store.index import Index
from indexes.store.keys import load_owners
from indexes.store.manifest import Counts
from indexes.store.search import StoredVectors
from retriever.types import IntArray


def count(version: Version) -> Counts:
    """Returns the counts that the manifest would have after a compaction; reads only what has changed."""
    base = version.base
    total = np.array(list(base.manifest.counts.model_dump().values()))
    if version.removed:
        total -= _of_rows(base, np.array(list(version.removed.values()), np.int64))
    for entry in version.entries.values():
        total += _of_change(entry.change)
    return Counts(**dict(zip(Counts.model_fields, total.tolist(), strict=True)))


def _of_rows(base: Index, rows: IntArray) -> IntArray:
    """Returns the counts of some entities of the files, int64 in the order of the fields of `Counts`."""
    manifest = base.manifest
    sections, images = [len(base.section_rows(row)) for row in rows], [base.image_path(row) for row in rows]
    labeled, tokens = [len(base.labeled_rows(row)) for row in rows], [len(base.token_rows(row)) for row in rows]
    found = Counts(
        entities=len(rows),
        sections=sum(len(base.entity(row).sections) for row in rows),
        with_image=sum(path is not None for path in images),
        searchable=int(np.isin(rows, StoredVectors(base.folder, manifest.search).rows).sum()),
        token_sections=sum(sections),
        further_keys=int(np.isin(load_owners(base.folder, manifest), rows).sum()),
        labeled_tokens=sum(labeled),
        image_tokens=sum(tokens) - sum(sections) - sum(labeled),
        section_windows=sum(len(one.sections) for row in rows if (one := base.encoded_sections(row)) is not None),
    )
    return np.array(list(found.model_dump().values()))


def _of_change(change: Addition) -> IntArray:
    found = Counts(
        entities=1,
        sections=len(change.entity.sections),
        with_image=int(bool(change.thumbnail)),
        searchable=int(len(change.keys) > 0),
        token_sections=change.token_sections,
        further_keys=max(len(change.keys) - 1, 0),
        labeled_tokens=change.labeled_tokens,
        image_tokens=change.image_tokens,
        section_windows=len(change.vectors.sections),
    )
    return np.array(list(found.model_dump().values()))
