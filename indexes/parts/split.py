"""Splits an index into parts, and parts into others: rows are copied, and no model runs."""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import reduce
from pathlib import Path

import numpy as np

from indexes.builder.report import PROBLEMS, read_report
from indexes.live.compaction import write_rows
from indexes.live.index import LiveIndex
from indexes.live.stored_rows import StoredRows
from indexes.parts.layout import POSITIONS, WHOLE, Part, content_of, fingerprint_of, parts_in, read_part, write_part
from indexes.parts.weights import SharedWeights
from indexes.store.generations import is_settled, settled_files
from indexes.store.image_text import IMAGE_TEXT
from indexes.store.index import Index
from indexes.store.manifest import MANIFEST, RECOGNITION, Counts, Manifest, read_manifest
from indexes.store.word_search import WHOLE_WORDS, WordSearch
from retriever.arrays import map_array


def split_index(source: Path, parts: int, out: Path) -> Iterator[Path]:
    """Writes the parts of an index, one after the other, and yields the folder of each.

    An entity belongs to the part that the hash of its id says, and keeps the order that it has in the whole index: the
    parts of parts are byte-identical to those of the whole, and one part has all its entities. Parts are compacted
    first if they were changed. If a database holds the keys, each part has a table of its own in it.

    Args:
        source: The folder of an index, or one with all its parts.
        parts: The number of parts.
        out: The folder for them; those that a killed run has completed stay.

    Raises:
        ValueError: The index is incomplete, or has changes that are not in its files; or a part was changed, and is
            still served.
        OSError: A file cannot be written, or the database of its keys cannot be reached; the parts before stay.
    """
    if roots := parts_in(source):
        for root in (root for root in roots if not is_settled(root)):
            with closing(LiveIndex.open(root, write=True, doing="splits it")) as index:
                index.compact()
        folders = list(map(settled_files, roots))
        recognition = content_of(roots[0] / RECOGNITION)
        positions = [map_array(folder / POSITIONS) for folder in folders]
        before = read_manifest(roots[0], WHOLE)
        manifest = _joined(before, list(map(read_manifest, folders)))
        whole = content_of(roots[0] / WHOLE) if manifest == before else manifest.to_json()
    else:
        folders, positions = [settled_files(source)], []
        whole, recognition = content_of(folders[0] / MANIFEST), content_of(source / RECOGNITION)
        manifest = read_manifest(folders[0])
    old = StoredRows([Index.open(folder) for folder in folders], positions, manifest)
    report = {name: part for name, part in read_report(folders[0]).items() if name not in PROBLEMS}
    homes, words = old.ids()[0] % parts, None
    if IMAGE_TEXT in manifest.inputs.columns:
        words = SharedWeights.of_all(WordSearch.open(folder).lists for folder in folders)
    for number in range(parts):
        part = Part(number + 1, parts, fingerprint_of(whole))
        target, rows = out / part.name, np.flatnonzero(homes == number)
        if target.exists():
            if read_part(target) != part:
                raise ValueError(f"{target}: holds something else; remove it, or name another folder with --out")
        else:
            partial = target.with_name(target.name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            if words is not None:
                words.save(partial / WHOLE_WORDS)
            write_rows(old, array("q", rows.tobytes()), partial, report, table=f"{target.resolve()} {part.whole}")
            write_part(partial, part, rows, whole, recognition)
            os.replace(partial, target)
        yield target


def _joined(whole: Manifest, parts: Sequence[Manifest]) -> Manifest:
    """Returns the manifest of the whole index after the changes of its parts."""
    changes = sum(part.changes - whole.changes for part in parts)
    if not changes:
        return whole
    counts = reduce(Counts.plus, (part.counts for part in parts))
    return whole.model_copy(update={"changes": whole.changes + changes, "counts": counts})
