"""Compaction: writes a version of an index to new files, like those of a build from the same articles."""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from indexes.builder.report import PROBLEMS, Report, image_problem, read_report, write_report
from indexes.growing import new_array, save_array
from indexes.ids import hash_id, other_ids, save_ids
from indexes.knowledge.ledger import texts_of, words_in
from indexes.lines import Articles, save_offsets, to_row
from indexes.live.changes import Addition
from indexes.live.stored_rows import JoinedKeys, StoredRows
from indexes.live.version import Version
from indexes.parts.layout import POSITIONS, positions_after
from indexes.progress import bars
from indexes.store.change_log import sync_folder
from indexes.store.columns import ColumnFiles, Encoded, column_files, columns
from indexes.store.engines import UPLOADED, find_engine
from indexes.store.generations import index_of
from indexes.store.keys import BLOCK, Keys
from indexes.store.layout import THUMBNAILS
from indexes.store.manifest import (
    FORMAT_VERSION,
    IMAGE_OWNERS,
    LABELED_KEYS,
    MANIFEST,
    OWNERS,
    Counts,
    SearchRecord,
    describe_files,
)
from indexes.store.recall import held_out_queries
from indexes.store.search_kinds import AT_LEAST, write_search
from indexes.store.thumbnails import checksum, hash_thumbnails, plain_images, shared_images
from indexes.store.word_search import WHOLE_WORDS
from indexes.workers import split
from retriever.arrays import map_array
from retriever.files import as_line, replacing, write_whole
from retriever.types import IntArray

_ENTITIES = 1024
"""Entities whose rows of a column are in memory at a time."""

Source = int | Addition
"""Where an entity of the new files comes from: a row of the old files, or a change."""


def write_generation(version: Version, target: Path) -> None:
    """Writes a version to a new folder, under a temporary name until it is complete.

    Entities are in the order of `Version.sources`. Unchanged rows are copied as bytes, and no model runs.

    Raises:
        OSError: The files cannot be written; nothing is left behind.
    """
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _write(version, partial)
        sync_folder(partial)
        shutil.rmtree(target, ignore_errors=True)  # left by a compaction that was killed before the switch
        os.replace(partial, target)
        sync_folder(target.parent)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        # errors of FAISS and databases are clear as they are
        if isinstance(error, OSError) and error.errno is not None:
            what = (
                f"{error.strerror}; the index is unchanged: free space, or make its folder writable, and compact again"
            )
            raise OSError(error.errno, what, str(target)) from error
        raise


def _write(version: Version, out: Path) -> None:
    places, old = list(version.sources()), version.base.folder
    sources = [source if isinstance(source, int) else source.change for source in places]
    if (old / WHOLE_WORDS).is_file():
        _link(old / WHOLE_WORDS, out / WHOLE_WORDS)
    write_rows(StoredRows([version.base]), sources, out, _report(version, len(sources)), version.changes)
    if (old / POSITIONS).is_file():
        rows = (source if isinstance(source, int) else version.removed.get(source.change.id) for source in places)
        save_array(out / POSITIONS, positions_after(map_array(old / POSITIONS), rows, index_of(old)))


def write_rows(
    old: StoredRows, sources: Sequence[Source], out: Path, report: Report, changes: int = 0, table: str = ""
) -> None:
    """Writes the files of an index.

    Args:
        old: The old files.
        sources: Where each entity comes from.
        out: An empty folder.
        report: What the report says besides its parts about images and columns.
        changes: How many entities were changed since the old files.
        table: Identifies a new table for the keys, if a database holds them; by default, the old files' table is
            changed.
    """
    base = old.manifest
    _write_articles(old, sources, out)
    _write_lines(old, sources, out / "summaries.jsonl", lambda new: {"id": new.id, "summary": new.summary})
    save_offsets(out / "summaries.jsonl")
    keys, search = _write_keys(old, sources, out, table)
    offsets, labeled_tokens, image_tokens = _write_tokens(old, sources, out)
    of_columns = {name: _write_column(old, sources, name, out) for name in base.inputs.columns}
    shown = _write_thumbnails(old, sources, out)
    hashes = hash_thumbnails(out, len(sources))
    articles = Articles(out / "entities.jsonl")
    shared, plain = shared_images(hashes, articles), plain_images(out, articles)
    report = report | {"shared_images": shared, "plain_images": plain}
    if "pictures" in report:  # not in indexes of older versions
        report["pictures"] = report["pictures"] | {"found": shown}
    for report_on in filter(None, (columns()[name].report for name in base.inputs.columns)):
        report |= report_on(out)
    write_report(out, _image_problems(old, sources), report)
    counts = Counts(
        entities=len(sources),
        sections=sum(len(entity.sections) for entity in articles),
        with_image=shown,
        searchable=keys.searchable,
        further_keys=len(keys.owners),
        token_sections=int(offsets[-1]) - labeled_tokens - image_tokens,
        labeled_tokens=labeled_tokens,
        image_tokens=image_tokens,
        columns=of_columns,
    )
    manifest = base.model_copy(
        update={
            "format_version": FORMAT_VERSION,
            "inputs": base.inputs.model_copy(update={"search": search.kind}),
            "search": search,
            "counts": counts,
            "changes": base.changes + changes,
            "thumbnails": checksum(hashes),
            "files": describe_files(out, column_files(base)),
        }
    )
    write_whole(out / MANIFEST, manifest.to_json())


def _write_articles(old: StoredRows, sources: Sequence[Source], out: Path) -> None:
    path = out / "entities.jsonl"
    _write_lines(old, sources, path, lambda new: to_row(new.entity))
    save_offsets(path)
    old_hashes, old_names = old.ids()
    hashes, others, new_rows = np.empty(len(sources), np.int64), array("q"), np.full(len(old), -1, np.int64)
    for row, source in enumerate(sources):
        if isinstance(source, int):
            hashes[row], new_rows[source] = old_hashes[source], row
        else:
            hashes[row] = hash_id(source.id)
            for other in other_ids(source.entity):
                others.extend((hash_id(other), row))
    kept = np.stack([old_names[:, 0], new_rows[old_names[:, 1]]], axis=1)
    named = np.concatenate([kept[kept[:, 1] >= 0], np.array(others, np.int64).reshape(-1, 2)])
    in_order = np.argsort(named[:, 1], kind="stable")  # in the order of a build
    save_ids(out / "entity_ids.npy", hashes, named[in_order])


def _write_lines(old: StoredRows, sources: Sequence[Source], path: Path, row_of: Any) -> None:
    """Writes a file with one line per entity: the old line, or that of a change."""
    with closing(old.lines(path.name)) as lines, replacing(path) as partial, partial.open("wb") as new:
        place = 0
        for source in sources:
            if isinstance(source, int):
                new.write(next(islice(lines, source - place, None)))
                place = source + 1
            else:
                new.write(as_line(row_of(source)))


def _write_keys(old: StoredRows, sources: Sequence[Source], out: Path, table: str) -> tuple[Keys, SearchRecord]:
    """Writes the entity index, of the same kind; returns its keys, whose vectors are no longer on disk, and its record.

    If too few entities are left for the kind, the index becomes flat.
    """
    manifest, path = old.manifest, out / "keys.npy"
    stored = old.keys(out / "stored")
    numbers, owners = _old_keys(stored, sources)
    keys = new_array(path, (len(numbers), manifest.key_length), np.float16)
    found, labeled = np.isin(numbers, stored.rows), np.isin(numbers, old.labeled(stored))
    kept = np.flatnonzero(found)
    for start in range(0, len(kept), BLOCK):
        part = kept[start : start + BLOCK]
        keys[part] = stored.read(numbers[part])
    for row, source in enumerate(sources):
        if isinstance(source, Addition) and len(source.keys):
            first, last = (len(sources) + np.searchsorted(owners, [row, row + 1])).tolist()
            own = [row, *range(first, last)]
            keys[own], found[own] = source.keys, True
            labeled[own[len(own) - source.labeled :]] = True
    halves = np.split(keys, 2, axis=1) if manifest.inputs.candidates == "combined" else [keys]
    written = Keys(tuple(halves), np.flatnonzero(found).astype(np.int64), owners)
    if len(owners):
        save_array(out / OWNERS, owners)
    if manifest.inputs.labeled != "none":
        save_array(out / LABELED_KEYS, np.flatnonzero(labeled).astype(np.int64))
    engine = None if manifest.search is None else find_engine(manifest.search.kind)
    if manifest.search is not None and engine and not table:
        assert isinstance(stored, Keys)  # a compaction's: those of one index
        changed = np.flatnonzero(found & (numbers < 0)).astype(np.int64)
        record = engine.update(out, written, stored, old.indexes[0].folder, changed, manifest.search)
    else:
        few = manifest.search is None or (not engine and len(written.rows) < AT_LEAST)
        kind = "flat" if few or manifest.search is None else manifest.search.kind
        queries = held_out_queries(written, kind, manifest.inputs.candidates, old.image_weight, out, encoder=None)
        with bars(False):  # a served index compacts in the background
            if engine and manifest.search is not None:
                record = engine.write(out, written, queries, out, table, manifest.search.uri)
            else:
                record = write_search(out, written, kind, queries)
    for scratch in (path, *out.glob("stored.*.npy"), *out.glob(UPLOADED)):
        scratch.unlink()
    return written, record


def _old_keys(stored: Keys | JoinedKeys, sources: Sequence[Source]) -> tuple[IntArray, IntArray]:
    """Returns the number of each new key in the old files, or -1 for a changed one, and the owners of further keys."""
    first = [one if isinstance(one, int) else -1 for one in sources]
    starts = stored.entities + np.searchsorted(stored.owners, np.arange(stored.entities + 1))
    further, owners = array("q"), array("q")
    for row, source in enumerate(sources):
        own = range(starts[source], starts[source + 1]) if isinstance(source, int) else [-1] * (len(source.keys) - 1)
        further.extend(own)
        owners.extend([row] * len(own))
    return np.array([*first, *further], np.int64), np.array(owners, np.int64)


def _write_tokens(old: StoredRows, sources: Sequence[Source], out: Path) -> tuple[IntArray, int, int]:
    """Writes all tokens; returns the offsets, and the numbers of rows of labeled images and of articles' images."""
    codec, labeled, shown, shape = old.manifest.inputs.codec, 0, array("q"), old.manifest.stored_shape[1:]

    def count(source: Source) -> int:
        if not isinstance(source, int):
            return len(source.tokens)
        base, row = old.at(source)
        return len(base.token_rows(row))

    counts = map(count, sources)
    offsets: IntArray = np.zeros(len(sources) + 1, np.int64)
    np.cumsum(np.fromiter(counts, np.int64, len(sources)), out=offsets[1:])
    save_array(out / "token_offsets.npy", offsets)
    total = int(offsets[-1])
    tokens = new_array(out / "tokens.npy", (total, *shape), codec.dtype)
    scales = new_array(out / "token_scales.npy", (total, shape[0]) if codec.scaled else (0, 0), np.float16)
    for row, source in enumerate(sources):
        part = slice(offsets[row], offsets[row + 1])
        if isinstance(source, int):
            base, place = old.at(source)
            rows, own = base.token_rows(place), len(base.labeled_rows(place))
            tokens[part], old_scales = base.stored_tokens(rows)
            labeled += own
            shown.extend([row] * (len(rows) - len(base.section_rows(place)) - own))
        else:
            tokens[part], old_scales = source.tokens, source.scales
            labeled += source.labeled_tokens
            shown.extend([row] * source.image_tokens)
        if codec.scaled:
            scales[part] = old_scales
    tokens.flush()
    scales.flush()
    if shown:
        save_array(out / IMAGE_OWNERS, np.array(shown, np.int64))
    return offsets, labeled, len(shown)


def _write_column(old: StoredRows, sources: Sequence[Source], name: str, out: Path) -> int:
    """Writes a column; returns its number of rows."""
    column, width = columns()[name], old.indexes[0].columns[name].width
    nothing = column.nothing(width)  # a log of an older version has no rows for articles without sections

    def encoded(source: Source) -> Encoded:
        if not isinstance(source, int):
            return source.columns.get(name, nothing)
        base, row = old.at(source)
        return base.columns[name].of(row)

    with ColumnFiles(column, out, width) as files:
        files.resume(_ENTITIES)
        for rows in split(range(len(sources)), _ENTITIES):
            files.append(rows, [encoded(sources[row]) for row in rows])
        count = files.finish()
        files.forget()
    if column.finish is not None:
        column.finish(out, Articles(out / "entities.jsonl"))
    return count


def _write_thumbnails(old: StoredRows, sources: Sequence[Source], out: Path) -> int:
    """Writes the thumbnails and returns their number; unchanged ones are hard-linked instead of copied."""
    (out / THUMBNAILS).mkdir()
    count = 0
    for row, source in enumerate(sources):
        path = out / THUMBNAILS / f"{row}.jpg"
        if isinstance(source, Addition):
            if source.thumbnail:
                write_whole(path, source.thumbnail)
                count += 1
            continue
        base, place = old.at(source)
        if (thumbnail := base.image_path(place)) is not None:
            _link(thumbnail, path)
            count += 1
    return count


def _link(old: Path, new: Path) -> None:
    with suppress(OSError):  # a file system without hard links
        os.link(old, new)
        return
    shutil.copyfile(old, new)


def _report(version: Version, entities: int) -> Report:
    """Returns the old report without its part about main images; what the build left out stays in it."""
    report = {name: part for name, part in read_report(version.base.folder).items() if name not in PROBLEMS}
    if "words" in report:  # not in indexes of older versions
        gone = sum(words_in(texts_of(version.base.entity(row))) for row in version.removed.values())
        new = sum(words_in(texts_of(entry.change.entity)) for entry in version.entries.values())
        report["words"] = {name: words + new - gone for name, words in report["words"].items()}
    if "skipped" in report:  # not in indexes of older versions
        report["skipped"] = report["skipped"] | {"of": entities + report["skipped"]["count"]}
    return report


def _image_problems(old: StoredRows, sources: Sequence[Source]) -> Iterator[dict[str, Any]]:
    """Yields the report's entries about main images: the old ones, with their new rows, and those of changes."""
    problems = old.problems()
    entry = next(problems, None)
    for row, source in enumerate(sources):
        if isinstance(source, int):
            while entry is not None and entry["row"] < source:
                entry = next(problems, None)
            if entry is not None and entry["row"] == source:
                yield entry | {"row": row}
        elif source.image.problem is not None:
            yield image_problem(row, source.entity, source.image)
