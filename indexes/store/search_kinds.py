"""The kinds of entity index: chooses one by the number of vectors; builds, tunes and measures it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from indexes.growing import new_array, release
from indexes.progress import progress_bar
from indexes.store.engines import Search
from indexes.store.keys import BLOCK, Keys, load_owners
from indexes.store.manifest import FAISS_KINDS, SEARCH, VECTORS, SearchRecord, read_manifest
from indexes.store.recall import ExactSearch, HeldOutQueries, draw_rows
from indexes.store.search import DEPTH, FaissSearch, RescoredSearch, StoredVectors, load_vectors
from retriever.arrays import map_array
from retriever.files import replace_with, replacing
from retriever.types import FloatArray, IntArray

logger = logging.getLogger(__name__)

FLAT_UP_TO = 30_000
"""Largest number of entities for which `auto` searches exactly."""
AT_LEAST = 1_000
"""Number of entities that the approximate kinds need for training."""
TARGET = 0.98
"""Recall@20 relative to exact search that an entity index should reach."""
MARGIN = 0.01
"""How far recall must exceed the target on the queries used for tuning: on others, it is up to a point lower."""

_MOST_LISTS = 4096
_PER_LIST = 40
"""Training keys per inverted list; FAISS asks for at least 39."""
_TRAINED = 65536
"""Training keys for kinds without lists."""
_MOST_TRAINED = 2048 * _PER_LIST
"""Most training keys, in float32 in memory; with 4,096 lists, each gets 20."""
_SAMPLED = 512
"""Keys of a sample read at a time; each also brings its neighbors in the file into memory."""

Tuning = tuple[dict[str, int], int]
"""FAISS's search parameters, and the number of candidates to rescore per result."""


def choose_kind(choice: str, entities: int) -> str:
    """Returns the kind of entity index for a number of entities; "auto" chooses one.

    Raises:
        ValueError: There are too few entities for an approximate kind.
    """
    if choice == "auto":
        return "flat" if entities <= FLAT_UP_TO else "ivf-pq"
    if choice in FAISS_KINDS and choice != "flat" and entities < AT_LEAST:
        raise ValueError(
            f"search.kind = {choice!r} needs at least {AT_LEAST} searchable entities, got {entities}; use 'flat'"
        )
    return choice


def lists_for(vectors: int) -> int:
    """Returns the number of inverted lists: about four times the square root, a power of two, at most 4,096."""
    trained = int(np.log2(max(1, vectors / _PER_LIST)))
    return int(min(2 ** round(np.log2(4 * vectors**0.5)), 2**trained, _MOST_LISTS))


def describe(kind: str, vectors: int, length: int) -> str:
    """Returns FAISS's factory string for a kind; product quantizers use 4 bits for every 8 dimensions or fewer."""
    if kind == "ivf-pq":
        return f"IVF{lists_for(vectors)},PQ{length // math.gcd(length, 8)}x4fsr"
    return {"flat": "SQfp16", "sq8": "SQ8", "hnsw": "HNSW32_SQ8"}[kind]


def bytes_per_key(kind: str, vectors: int, length: int) -> float:
    """Returns the bytes on disk per key, including its id, in an index of `vectors` keys of length `length`."""
    exact = 2 * length + 8
    code = length // math.gcd(length, 8) / 2 + 8 + 4 * length * lists_for(vectors) / max(1, vectors)
    return exact + {"flat": 0, "sq8": length, "hnsw": length + 4 * 64 + 16, "ivf-pq": code}.get(kind, 8)


def write_search(
    folder: Path,
    keys: Keys,
    kind: str,
    queries: HeldOutQueries,
) -> SearchRecord:
    """Writes the entity index of keys and returns its record; an entity without a key is never found.

    FAISS is trained on a sample of bounded size and receives the keys block by block. Among the settings whose recall
    exceeds `TARGET` by `MARGIN`, the one that reads least is chosen; if none does, the one with the best recall, with a
    warning below `TARGET`.

    Args:
        folder: The folder for `entities.faiss` and `vectors.npy`, which is empty for "flat".
        keys: Keys by entity.
        kind: The kind of entity index.
        queries: Held-out queries.

    Raises:
        ValueError: There are too few keys for the kind.
    """
    choose_kind(kind, len(keys.rows))
    description = describe(kind, len(keys.rows), keys.length)
    index = _filled(description, keys)
    if kind == "flat":
        write_vectors(folder / VECTORS, (0, keys.length), ())
    else:
        write_key_vectors(folder, keys)
    (parameters, factor), recall = _tune(kind, index, folder, ExactSearch(keys, queries.vectors, DEPTH))
    replace_with(folder / SEARCH, lambda partial: _write_faiss(index, partial))
    record = SearchRecord(
        kind=kind,
        faiss=description,
        parameters=parameters,
        rescored=factor,
        recall=None if recall is None else round(recall, 6),
        k=DEPTH,
        queries=queries.about,
    )
    if recall is not None and recall < TARGET:
        logger.warning(
            "recall@%d of the entity index is %.3f relative to exact search, below %.2f; set search.kind to %s",
            DEPTH,
            recall,
            TARGET,
            "'flat'" if kind == "hnsw" else "'hnsw' or 'flat'",
        )
    return record


def _tune(kind: str, index: Any, folder: Path, exact: ExactSearch) -> tuple[Tuning, float | None]:
    """Chooses the settings of `index`, applies them, and returns them with their recall."""
    tried: list[tuple[float, Tuning]] = []
    vectors = load_vectors(folder)
    for settings in _settings(kind, index):
        recall = exact.recall(_set(index, vectors, settings), vectors)
        if recall is None or recall >= TARGET + MARGIN:
            return settings, recall
        logger.debug("%s with %s: recall %.4f", kind, settings, recall)
        tried.append((recall, settings))
    recall, settings = max(tried, key=lambda one: one[0])
    _set(index, vectors, settings)
    return settings, recall


def _set(index: Any, vectors: NDArray[np.float16], settings: Tuning) -> Search:
    parameters, factor = settings
    for name, value in parameters.items():
        faiss.ParameterSpace().set_index_parameter(index, name, value)
    return RescoredSearch(index, vectors, factor) if factor else FaissSearch(index)


def _filled(description: str, keys: Keys) -> Any:
    """Returns a trained FAISS index with all keys; its ids are the keys' numbers."""
    inner = faiss.index_factory(keys.length, description, faiss.METRIC_INNER_PRODUCT)
    index = faiss.IndexIDMap(inner)
    if not inner.is_trained:
        sample = _TRAINED
        if isinstance(inner, faiss.IndexIVF):
            sample = min(_PER_LIST * inner.nlist, _MOST_TRAINED)
            inner.cp.min_points_per_centroid = 20  # or it warns that there are too few
        inner.train(_read_sample(keys, draw_rows(keys.rows, sample)))
        index.is_trained = True
    _reserve(index, len(keys.rows))
    threads = faiss.omp_get_max_threads()
    if isinstance(inner, faiss.IndexHNSW):
        faiss.omp_set_num_threads(1)  # the graph depends on the order of insertion
    try:
        with progress_bar(total=len(keys.rows), desc="entity index", unit="entity") as bar:
            for start, block in keys.blocks():
                index.add_with_ids(block, keys.rows[start : start + len(block)])
                bar.update(len(block))
    finally:
        faiss.omp_set_num_threads(threads)
    return index


def _reserve(index: Any, count: int) -> None:
    """Reserves the memory for `count` codes up front: vectors that grow by doubling are briefly in memory twice.

    Inverted lists grow one by one and do not need this.
    """
    inner = faiss.downcast_index(index.index)
    storage = faiss.downcast_index(inner.storage) if isinstance(inner, faiss.IndexHNSW) else inner
    if isinstance(storage, faiss.IndexFlatCodes):
        storage.codes.resize(count * storage.code_size)
        storage.codes.resize(0)  # keeps the capacity
    index.id_map.resize(count)
    index.id_map.resize(0)


def _read_sample(keys: Keys, rows: IntArray) -> FloatArray:
    sample = np.empty((len(rows), keys.length), np.float32)
    for start, block in keys._replace(rows=rows).blocks(size=_SAMPLED):
        sample[start : start + len(block)] = block
    return sample


def _write_faiss(index: Any, path: Path) -> None:
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:  # FAISS raises nothing else
        raise OSError(f"{path}: cannot be written: {error}") from error


def write_key_vectors(folder: Path, keys: Keys) -> None:
    """Writes `vectors.npy` with the keys of all entities."""
    exact = ((keys.rows[start : start + len(block)], block) for start, block in keys.blocks())
    write_vectors(folder / VECTORS, (len(keys.parts[0]), keys.length), exact)


def stored_keys(folder: Path, scratch: Path) -> Keys:
    """Returns the keys that an index stores, memory-mapped; without `vectors.npy`, from `scratch`."""
    manifest = read_manifest(folder)
    stored = StoredVectors(folder, manifest.search)
    if manifest.search is None or not manifest.search.rescored or not (folder / VECTORS).is_file():
        starts = range(0, len(stored.rows), BLOCK)
        blocks = ((stored.rows[start : start + BLOCK], stored.read(start, start + BLOCK)) for start in starts)
        count = manifest.counts.entities + manifest.counts.further_keys
        write_vectors(scratch, (count, stored.dimension), blocks)
        array = map_array(scratch)
    else:
        array = load_vectors(folder)
    halves = np.split(array, 2, axis=1) if manifest.inputs.candidates == "combined" else [array]
    return Keys(tuple(halves), stored.rows, load_owners(folder, manifest))


def write_vectors(path: Path, shape: tuple[int, int], blocks: Iterable[tuple[IntArray, NDArray[Any]]]) -> None:
    """Writes vectors as a float16 `.npy` file, with zeros in rows without a vector.

    Args:
        path: The file.
        shape: Number of rows and length of a vector.
        blocks: Rows, and their vectors [rows, length].
    """
    with replacing(path) as partial:
        array = new_array(partial, shape, np.float16)
        for rows, block in blocks:
            array[rows] = block
            release(array)
        array.flush()


def _settings(kind: str, index: Any) -> list[Tuning]:
    """Returns the settings to try, cheapest first: by bytes read per query, where random accesses count four times."""
    if kind == "flat":
        return [({}, 0)]
    if kind == "sq8":
        return [({}, factor) for factor in (2, 5, 10)]
    rescoring = 4 * 2 * index.d * DEPTH
    if kind == "hnsw":
        graph = 4 * (index.d + 4 * 64)
        pairs = [
            (ef * graph + factor * rescoring, ({"efSearch": ef}, factor))
            for ef in (32, 64, 128, 256, 512, 1024)
            for factor in (2, 5)
            if ef >= factor * DEPTH or factor == 2
        ]
    else:
        ivf = faiss.extract_index_ivf(index)
        scan = index.ntotal / ivf.nlist * ivf.code_size
        pairs = [
            (int(nprobe * scan) + factor * rescoring, ({"nprobe": nprobe}, factor))
            for nprobe in (1 << power for power in range(ivf.nlist.bit_length()))
            for factor in (2, 5, 10, 20, 50)
        ]
    return [settings for _, settings in sorted(pairs, key=lambda pair: pair[0])]
