"""The entity index of a folder, written and opened by FAISS or a vector database."""

from __future__ import annotations

from pathlib import Path

import torch

from indexes.store.engines import Search, find_engine
from indexes.store.keys import Keys
from indexes.store.manifest import Inputs, SearchRecord
from indexes.store.recall import held_out_queries
from indexes.store.search import DeviceSearch, FaissSearch, GpuSearch, RescoredSearch, load_vectors, read_faiss
from indexes.store.search_kinds import write_search
from retriever.protocols import DualEncoder


def write_entity_index(
    folder: Path,
    keys: Keys,
    inputs: Inputs,
    *,
    index: Path,
    uri: str,
    image_weight: float,
    encoder: DualEncoder,
) -> SearchRecord:
    """Writes the entity index for `keys`, tuned and measured on held-out queries, and returns its record.

    Args:
        folder: The folder to write to.
        keys: The keys.
        inputs: Specify the kind of entity index and what the keys encode.
        index: The folder with ids and thumbnails: `folder` itself, or an index of which only the entity index changes.
        uri: Where the vector database is, if that is the kind.
        image_weight: Weight of the main image in a combined key.
        encoder: Step 1's model.

    Raises:
        ValueError: There are too few keys for the kind.
        OSError: A file cannot be written, or the database cannot be reached.
    """
    assert inputs.search  # chosen after the articles were read
    queries = held_out_queries(keys, inputs.search, inputs.candidates, image_weight, index, encoder)
    if engine := find_engine(inputs.search):
        return engine.write(folder, keys, queries, index, inputs.model_dump_json(), uri)
    return write_search(folder, keys, inputs.search, queries)


def open_search(
    folder: Path, record: SearchRecord | None, device: torch.device | str = "cpu", gpu: GpuSearch = "torch"
) -> Search:
    """Opens the entity index in a folder for search on a device.

    Args:
        folder: The folder of an index.
        record: How to search it, from the manifest; `None` for an index of format version 2.
        device: Where to search.
        gpu: The library that searches on a GPU: with PyTorch, all kinds of FAISS search exactly; with FAISS, see
            `indexes.store.search_faiss_gpu`.

    Raises:
        ValueError: FAISS should search on a GPU and cannot.
    """
    if gpu == "faiss":
        from indexes.store.search_faiss_gpu import open_faiss_gpu

        return open_faiss_gpu(folder, record, device, lambda: open_search(folder, record))
    if record is not None and (engine := find_engine(record.kind)):
        return engine.open(folder, record)
    if torch.device(device).type != "cpu":
        return DeviceSearch.read(folder, record, device)
    if record is None or not record.rescored:
        return FaissSearch(read_faiss(folder))
    return RescoredSearch(read_faiss(folder), load_vectors(folder), record.rescored)
