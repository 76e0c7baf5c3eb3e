"""Measures a database that holds the keys of an index: uploads, searches and updates (`scale.py --engine`)."""

from __future__ import annotations

import json
import shutil
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.made_up import ClusteredVectors
from indexes.store.engines import UPLOADED, Engine, find_engine
from indexes.store.key_tables import key_ids
from indexes.store.keys import Keys
from indexes.store.manifest import SearchRecord
from indexes.store.recall import ExactSearch, HeldOutQueries, mixed_queries
from retriever.types import FloatArray, IntArray

_QUERIES, _ROWS, _CHANGED, _SHARE = 500, 50, 0.01, 0.01


def measure_engine(kind: str, uri: str, entities: int, dimension: int, folder: Path) -> dict[str, Any]:
    """Uploads made-up keys to a database and searches, changes and opens them.

    Returns:
        `rows_per_s` (sent and safe), `searchable_rows_per_s` (indexed, too), `single_rows_per_s` (one key per request);
        `build_s`, the whole entity index; `ms_p50` and `ms_p99` of single queries; `recall@20` against exact search in
        float32, `first_5_same`, the share of queries whose first five are in the same order, and the largest
        `score_difference`; `filtered_ms_p50` and `filtered_recall@20` among a hundredth of the keys; `updates_per_s`,
        if a hundredth changes; `open_ms`, from opening the index to the first answer; `recovery_s`, what another build
        takes after one that was killed as soon as the share `killed_at` of its keys was safe.
    """
    engine = find_engine(kind)
    assert engine is not None, f"{kind} is no vector database"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    vectors = ClusteredVectors(entities, dimension)
    keys = _keys(vectors, entities)
    (array,) = keys.parts
    np.save(folder / "entity_ids.npy", np.stack([np.arange(entities) * 7, np.arange(entities)]))
    report: dict[str, Any] = _upload(engine, uri, keys, key_ids(folder, keys))
    started = time.perf_counter()
    record = _write(engine, uri, keys, folder, folder)
    report |= {"build_s": _since(started), "record": str(record)}
    report |= _recover(kind, engine, uri, vectors, keys, folder)

    started = time.perf_counter()
    rows = np.sort(np.random.default_rng(3).permutation(entities)[:_QUERIES])
    queries = torch.from_numpy(vectors.queries(rows))
    search = engine.open(folder, record)
    search.search(queries[:1], 20)
    report["open_ms"] = round(1000 * (time.perf_counter() - started), 1)
    scores, places, times = _single(search, queries)
    exact = queries.numpy() @ array.T
    best = _best(exact)
    report |= {
        "ms_p50": round(float(np.median(times)), 2),
        "ms_p99": round(float(np.quantile(times, 0.99)), 2),
        "recall@20": ExactSearch(keys, queries, 20).recall(search),
        "first_5_same": float(np.mean((places[:, :5] == best[:, :5]).all(axis=1))),
        "score_difference": float(np.abs(np.take_along_axis(exact, places, 1) - scores).max()),
    }
    among = np.random.default_rng(4).random(entities) < _SHARE
    _, some, times = _single(search, queries[:100], among)
    wanted = _best(np.where(among, exact[:100], -np.inf))
    overlap = [len({*row} & {*right}) / 20 for row, right in zip(some.tolist(), wanted.tolist(), strict=True)]
    report |= {"filtered_ms_p50": round(float(np.median(times)), 2), "filtered_recall@20": float(np.mean(overlap))}

    changed = np.flatnonzero(np.random.default_rng(5).random(entities) < _CHANGED)
    started = time.perf_counter()
    engine.update(folder, keys, keys, folder, changed, record)
    return report | {"updates_per_s": round(len(changed) / (time.perf_counter() - started))}


def _keys(vectors: ClusteredVectors, entities: int) -> Keys:
    blocks = [vectors.stored(range(start, min(start + 4096, entities))) for start in range(0, entities, 4096)]
    return Keys((np.concatenate(blocks),), np.arange(entities))


def _write(engine: Engine, uri: str, keys: Keys, folder: Path, index: Path) -> SearchRecord:
    tuned_on = HeldOutQueries(mixed_queries(keys), "256 mixtures of two stored vectors")
    return engine.write(folder, keys, tuned_on, index, folder.name, uri)


def _recover(
    kind: str, engine: Engine, uri: str, vectors: ClusteredVectors, keys: Keys, index: Path
) -> dict[str, float]:
    """Kills the process of a build when half of its keys are in the database, and repeats the build.

    Returns:
        `killed_at`, the share of the keys, from 0 to 1; `recovery_s`, the seconds of the second build.
    """
    (folder := index / "killed").mkdir()
    entities, safe = len(keys.rows), 0
    process = get_context("spawn").Process(target=_build_alone, args=(kind, uri, vectors, entities, folder, index))
    process.start()
    while process.is_alive() and safe < entities / 2:
        time.sleep(0.01)
        safe = json.loads((folder / UPLOADED).read_bytes())["done"] if (folder / UPLOADED).exists() else 0
    process.kill()
    process.join()
    started = time.perf_counter()
    _write(engine, uri, keys, folder, index)
    return {"killed_at": round(safe / entities, 3), "recovery_s": _since(started)}


def _build_alone(kind: str, uri: str, vectors: ClusteredVectors, entities: int, folder: Path, index: Path) -> None:
    engine = find_engine(kind)
    assert engine is not None
    _write(engine, uri, _keys(vectors, entities), folder, index)


def _upload(engine: Engine, uri: str, keys: Keys, ids: Any) -> dict[str, int]:
    """Uploads keys to a table of its own, block by block, then some of them one by one to another."""
    table, single = engine.table(uri, "omgm_benchmark"), engine.table(uri, "omgm_benchmark_single")
    table.create(keys.length)
    single.create(keys.length)
    started = time.perf_counter()
    for start, block in keys.blocks():
        table.add(ids[start : start + len(block)], block)
    sent = time.perf_counter() - started
    table.finish()
    searchable, started = time.perf_counter() - started, time.perf_counter()
    for row in range(_ROWS):
        single.add(ids[row : row + 1], keys.read(np.arange(row, row + 1)))
    return {
        "rows_per_s": round(len(ids) / sent),
        "searchable_rows_per_s": round(len(ids) / searchable),
        "single_rows_per_s": round(_ROWS / (time.perf_counter() - started)),
    }


def _single(search: Any, queries: torch.Tensor, among: Any = None) -> tuple[FloatArray, Any, list[float]]:
    """Returns scores, rows and milliseconds of single queries, after some that warm up."""
    search.search(queries[:20], 20, among)
    results, times = [], []
    for query in queries:
        started = time.perf_counter()
        results.append(search.search(query[None], 20, among))
        times.append(1000 * (time.perf_counter() - started))
    scores, rows = (np.concatenate(parts) for parts in zip(*results, strict=True))
    return scores, rows, times


def _best(products: FloatArray) -> IntArray:
    """Returns the columns of the 20 largest products in each row, the largest first."""
    best = np.argpartition(-products, 20, axis=1)[:, :20]
    return np.take_along_axis(best, np.argsort(-np.take_along_axis(products, best, 1), axis=1), 1)


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 1)
