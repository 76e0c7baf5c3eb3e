"""Changes one part of a finished index: the kind of its entity index, or its columns."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from indexes.builder.claim import claim, publish
from indexes.builder.column_stage import write_column
from indexes.builder.report import read_report
from indexes.builder.stages import BuildRun
from indexes.image_source import ImageSource
from indexes.lines import Articles
from indexes.store.columns import all_files, columns
from indexes.store.entity_index import write_entity_index
from indexes.store.keys import BLOCK, Keys, load_owners
from indexes.store.manifest import (
    FORMAT_VERSION,
    KEY_IDS,
    MANIFEST,
    REPORT,
    SEARCH,
    VECTORS,
    describe_file,
    read_manifest,
)
from indexes.store.search import StoredVectors, load_vectors
from indexes.store.search_kinds import write_vectors
from indexes.workers import Workers
from retriever.files import write_json, write_whole
from retriever.protocols import DualEncoder

logger = logging.getLogger(__name__)


def change_search(out: Path, kind: str, image_weight: float, encoder: DualEncoder, uri: str = "") -> None:
    """Replaces the entity index in `out` with one of another kind; otherwise only the manifest changes.

    The files are those of a build with that kind. A kill leaves the old index, the new one, or a resumable build.

    Raises:
        ValueError: The index has too few entities for the kind.
    """
    manifest = read_manifest(out)
    inputs = manifest.inputs.model_copy(update={"search": kind})
    logger.info("%s: only the kind of entity index changes; rebuilding it from the stored vectors", out)
    parts = claim(out, inputs, overwrite=True)
    keys = stored_keys(out, parts / "stored.npy")
    record = write_entity_index(parts, keys, inputs, index=out, uri=uri, image_weight=image_weight, encoder=encoder)
    kept = {name: file for name, file in manifest.files.items() if name not in (SEARCH, VECTORS, KEY_IDS)}
    made = {name: describe_file(parts / name) for name in (SEARCH, VECTORS, KEY_IDS) if (parts / name).is_file()}
    files = kept | made
    changed = {
        "format_version": FORMAT_VERSION,
        "inputs": inputs,
        "search": record,
        "files": {name: files[name] for name in all_files() if name in files},
    }
    write_whole(parts / MANIFEST, manifest.model_copy(update=changed).to_json())
    publish(out)


def change_columns(out: Path, workers: Workers, batch: int, source: ImageSource | None = None) -> None:
    """Computes the columns in `out` that have other models than the workers', and removes those that these lack.

    The files are those of a build with these models. A kill leaves the old index, the new one, or a resumable build.
    """
    manifest = read_manifest(out)
    models = {name: model.fingerprint for name, model in workers.columns.items()}
    inputs = manifest.inputs.model_copy(update={"columns": models})
    names = [name for name in models if models[name] != manifest.inputs.columns.get(name)]
    gone = [name for name in manifest.inputs.columns if name not in models]
    done = [f"{', '.join(names)} computed" if names else "", f"{', '.join(gone)} removed" if gone else ""]
    logger.warning("%s: only columns change: %s; everything else is kept", out, " and ".join(filter(None, done)))
    parts, counts = claim(out, inputs, overwrite=True), dict(manifest.counts.columns)
    run = BuildRun(
        folder=parts,
        workers=workers,
        candidates=inputs.candidates,
        use=inputs.image_use,
        codec=inputs.codec,
        batch=batch,
    )
    articles = Articles(out / "entities.jsonl")
    for name in names:
        counts[name] = write_column(run, articles, columns()[name], source)
    changed_files = {file for name in (*names, *gone) for file in columns()[name].files}
    files = {name: file for name, file in manifest.files.items() if name not in changed_files}
    report = read_report(out)
    for report_on in filter(None, (columns()[name].report for name in names)):
        report |= report_on(parts)
    write_json(parts / REPORT, report)
    files |= {
        name: describe_file(parts / name) for name in (REPORT, *sorted(changed_files)) if (parts / name).is_file()
    }
    changed = {
        "format_version": FORMAT_VERSION,
        "inputs": inputs,
        "counts": manifest.counts.model_copy(update={"columns": {name: counts[name] for name in models}}),
        "files": {name: files[name] for name in all_files() if name in files},
    }
    write_whole(parts / MANIFEST, manifest.model_copy(update=changed).to_json())
    publish(out)


def stored_keys(folder: Path, scratch: Path) -> Keys:
    """Returns the keys that an index stores, memory-mapped; without `vectors.npy`, from `scratch`."""
    manifest = read_manifest(folder)
    stored = StoredVectors(folder, manifest.search)
    if manifest.search is None or not manifest.search.rescored or not (folder / VECTORS).is_file():
        starts = range(0, len(stored.rows), BLOCK)
        blocks = ((stored.rows[start : start + BLOCK], stored.read(start, start + BLOCK)) for start in starts)
        count = manifest.counts.entities + manifest.counts.further_keys
        write_vectors(scratch, (count, stored.dimension), blocks)
        array = np.load(scratch, mmap_mode="r", allow_pickle=False)
    else:
        array = load_vectors(folder)
    halves = np.split(array, 2, axis=1) if manifest.inputs.candidates == "combined" else [array]
    return Keys(tuple(halves), stored.rows, load_owners(folder, manifest))
