"""Splits an index into parts, and parts into others: rows are copied, and no model runs."""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from indexes.builder.report import PROBLEMS, read_report
from indexes.growing import save_array
from indexes.live.compaction import write_rows
from indexes.live.stored_rows import StoredRows
from indexes.parts.layout import POSITIONS, WHOLE, Part, content_of, fingerprint_of, parts_in, read_part, write_part
from indexes.store.engines import find_engine
from indexes.store.generations import settled_files
from indexes.store.image_text import IMAGE_TEXT
from indexes.store.index import Index
from indexes.store.manifest import MANIFEST, RECOGNITION, describe_file, read_manifest
from indexes.store.word_search import FILES
from retriever.files import write_whole
from retriever.types import IntArray


def split_index(source: Path, parts: int, out: Path) -> Iterator[Path]:
    """Writes the parts of an index, one after the other, and yields the folder of each.

    An entity belongs to the part that the hash of its id says, and keeps the order that it has in the whole index: the
    parts of parts are byte-identical to those of the whole, and one part has all its entities.

    Args:
        source: The folder of an index, or one with all its parts.
        parts: The number of parts.
        out: The folder for them; those that a killed run has completed stay.

    Raises:
        ValueError: The index is incomplete, has changes that are not in its files, or keeps its keys in an engine.
        OSError: A file cannot be written; the parts before stay.
    """
    if folders := parts_in(source):
        whole, recognition = content_of(folders[0] / WHOLE), content_of(folders[0] / RECOGNITION)
        positions = [np.load(folder / POSITIONS, allow_pickle=False) for folder in folders]
        manifest = read_manifest(folders[0], WHOLE)
    else:
        folders, positions = [settled_files(source)], []
        whole, recognition = content_of(folders[0] / MANIFEST), content_of(source / RECOGNITION)
        manifest = read_manifest(folders[0])
    if manifest.search is not None and find_engine(manifest.search.kind):
        raise ValueError(
            f"{source}: its keys are in {manifest.search.kind}, so its parts would have none; run `omgm build-index` "
            "again with --set search.kind=auto, which keeps everything else"
        )
    old = StoredRows([Index.open(folder) for folder in folders], positions, manifest)
    report = {name: part for name, part in read_report(folders[0]).items() if name not in PROBLEMS}
    homes = old.ids()[0] % parts
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
            write_rows(old, array("q", rows.tobytes()), partial, report)
            if IMAGE_TEXT in manifest.inputs.columns:
                _keep_lengths(old, rows, partial)
            write_part(partial, part, old.positions[rows], whole, recognition)
            os.replace(partial, target)
        yield target


def _keep_lengths(old: StoredRows, rows: IntArray, out: Path) -> None:
    """Gives texts the lengths that they have in the whole index: with the weights of a part's words, they differ."""
    name = FILES[3]
    stored = [np.load(index.folder / name, mmap_mode="r", allow_pickle=False) for index in old.indexes]
    owners = [table["row"][:] for table in stored]
    lengths = [np.empty(0, np.float32)]
    for home, row in map(old.place, rows.tolist()):
        lengths.append(stored[home]["length"][slice(*np.searchsorted(owners[home], [row, row + 1]))])
    table = np.load(out / name, allow_pickle=False)
    table["length"] = np.concatenate(lengths)
    save_array(out / name, table)
    manifest = read_manifest(out)
    files = manifest.files | {name: describe_file(out / name)}
    write_whole(out / MANIFEST, manifest.model_copy(update={"files": files}).to_json())
