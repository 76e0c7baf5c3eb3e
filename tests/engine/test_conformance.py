"""What every database of keys must do, with each that is installed; `make test-engine` installs all."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from indexes.live.index import LiveIndex
from indexes.parts.split import split_index
from indexes.store.engines import Engine, find_engine
from indexes.store.entity_index import open_search
from indexes.store.index import Index
from indexes.store.key_tables import key_ids
from indexes.store.keys import Keys
from indexes.store.manifest import FILES, IMAGE_OWNERS, KEY_IDS, OWNERS, SEARCH, VECTORS, SearchRecord
from indexes.store.recall import HeldOutQueries
from indexes.store.search import DeviceSearch, StoredVectors
from retriever.types import EngineError
from tests.engine.conftest import ENVIRONMENT, Database
from tests.fakes.live import World, article, data_of
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index
from tests.fakes.vectors import clustered
from tests.indexes.live.test_live_index import check_same


def engine_of(kind: str) -> Engine:
    engine = find_engine(kind)
    assert engine is not None
    return engine


def written(folder: Path, database: Database, count: int, width: int) -> tuple[Keys, torch.Tensor, SearchRecord]:
    """Uploads keys, of which each is its own entity; returns them, other queries, and how to search."""
    np.save(folder / "entity_ids.npy", np.stack([np.arange(count) * 7, np.arange(count)]))
    keys, queries = Keys((clustered(count, width),), np.arange(count)), torch.from_numpy(clustered(32, width, seed=1))
    held_out = HeldOutQueries(queries, "others")
    return keys, queries, engine_of(database.kind).write(folder, keys, held_out, folder, "inputs", database.uri)


def test_an_upload_resumes(tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.store.keys.BLOCK", 200)
    vectors = clustered(600, 16)
    keys = Keys((vectors,), np.delete(np.arange(600), [3, 400]), np.repeat(np.arange(50), 2))
    queries = torch.from_numpy(clustered(20, 16, seed=1))
    other_name = [[5], [~3]]  # of row 3, which is found by this name but has no key for it
    names = np.hstack([np.stack([np.arange(500) * 7 - 1000, np.arange(500)[::-1]]), other_name])
    np.save(tmp_path / "entity_ids.npy", names)
    ids = key_ids(tmp_path, keys)
    assert ids[[0, 499]].tolist() == [499 * 7 - 1000, -1000] and len(set(ids.tolist())) == 600
    sent, add = list[int](), database.table.add

    def stopped(self: Any, part: Any, block: Any) -> None:
        if len(sent) == 1:
            sent.append(0)
            add(self, part[:120], block[:120])  # only half of a batch arrives
            raise KeyboardInterrupt
        sent.append(len(part))
        add(self, part, block)

    monkeypatch.setattr(database.table, "add", stopped)
    arguments = (tmp_path, keys, HeldOutQueries(queries, "others"), tmp_path, "inputs", database.uri)
    with pytest.raises(KeyboardInterrupt):
        engine_of(database.kind).write(*arguments)
    record = engine_of(database.kind).write(*arguments)
    assert sent == [200, 0, 200, 198] and database.table(database.uri, record.collection).finish() == 598
    assert (record.kind, record.uri) == (database.kind, database.uri)
    assert record.recall is not None and record.recall >= 0.98
    engine_of(database.kind).write(*arguments)  # recorded as complete
    assert sent == [200, 0, 200, 198]

    search = open_search(tmp_path, record)
    assert search.shape == (598, 16)
    scores, rows = search.search(queries, 10)
    stored = vectors.copy()
    stored[[3, 400]] = 0  # have no key
    products = queries.numpy() @ stored.T
    np.testing.assert_allclose(scores[:, 0], products.max(axis=1), atol=1e-3)
    np.testing.assert_allclose(scores, np.take_along_axis(products, rows, 1), atol=1e-3)
    assert not np.isin(rows, [3, 400]).any()
    on_device = DeviceSearch.read(tmp_path, record, "cpu").search(queries, 10)[1]
    assert np.mean([len({*a} & {*b}) for a, b in zip(rows.tolist(), on_device.tolist(), strict=True)]) >= 9.8

    monkeypatch.setattr(database.table, "add", add)
    other = database.table(database.uri, record.collection)
    other.add(np.array([77_777]), 9 * queries[:1].numpy())  # of another version
    other.finish()
    again = open_search(tmp_path, record).search(queries[:1], 10)[1]
    np.testing.assert_array_equal(again[:, :9], rows[:1, :9])


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.002, 0.05, 0.5])
def test_a_search_among_some_keys(
    tmp_path: Path, database: Database, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexes.store.key_tables.SCANNED", 500)  # half of them are too many to name
    keys, queries, record = written(tmp_path, database, 2000, 16)
    among = np.random.default_rng(0).random(2000) < share
    scores, rows = open_search(tmp_path, record).search(queries, 20, among)
    products = np.where(among, queries.numpy() @ keys.parts[0].T, -np.inf)
    count = min(20, int(among.sum()))
    best = np.argsort(-products, axis=1)[:, :count]
    overlap = [len({*a} & {*b}) for a, b in zip(rows.tolist(), best.tolist(), strict=True)]
    assert np.mean(overlap) >= 0.98 * count
    assert among[rows[rows >= 0]].all() and (rows[:, count:] == -1).all() and (scores[:, count:] == -np.inf).all()
    assert (open_search(tmp_path, record).search(queries, 3, np.zeros(2000, np.bool_))[1] == -1).all()


def test_files_of_vectors_are_not_needed(tmp_path: Path, database: Database) -> None:
    keys, queries, record = written(tmp_path, database, 300, 16)
    kept = StoredVectors(tmp_path, record).read(0, 300)
    expected = open_search(tmp_path, record).search(queries, 20)
    (tmp_path / VECTORS).unlink()
    np.testing.assert_array_equal(open_search(tmp_path, record).search(queries, 20), expected)
    stored = StoredVectors(tmp_path, record)
    assert stored.dimension == 16
    np.testing.assert_array_equal(stored.read(0, 300), kept)
    np.testing.assert_array_equal(stored.read(7, 8), keys.parts[0][7:8].astype(np.float16))


def test_an_index_changes(tmp_path: Path, database: Database) -> None:
    first = [article("a", further=2), article("b", further=1), article("c"), article("d", further=2)]
    final = [article("a", further=2), article("b", 5), article("d", 3), article("e", 1, further=2)]
    world = World(tmp_path, first, image_keys=3, search=database.kind, search_uri=database.uri)
    manifest = world.open().manifest
    assert manifest.search is not None and manifest.search.kind == database.kind and manifest.counts.further_keys == 5
    assert set(manifest.files) == {*FILES, OWNERS, IMAGE_OWNERS, KEY_IDS} - {SEARCH}

    def count() -> int:
        assert manifest.search is not None
        return int(database.table(database.uri, manifest.search.collection).finish())

    assert count() == 9
    editor = world.editor()
    world.put(editor, article("e", 7), *final[1:3])
    editor.remove(["kb/c"])
    world.put(editor, final[3])
    assert count() == 9  # changes are searched separately until they are compacted
    world.options = {"candidates": "combined", "tokens": "int8", "image_keys": 3}
    fresh = world.build(final, tmp_path / "fresh")
    check_same(editor.index, fresh)
    before = world.open()
    (editor.index.folder / VECTORS).unlink()  # a machine that only serves does not need it
    assert editor.index.compact()
    check_same(editor.index, fresh)
    check_same(before, fresh)  # readers of the old files see no difference
    assert count() == 4 + 2 + 2
    assert "search" in Index.open(world.index, verify=True).manifest.to_json().decode()
    left = {name: data for name, data in data_of(editor.index.folder).items() if name not in (KEY_IDS, VECTORS)}
    same = data_of(tmp_path / "fresh")
    assert left == {name: same[name] for name in left}
    editor.index.close()


def test_an_index_moves_to_a_database_and_back(tmp_path: Path, database: Database) -> None:
    world = World(tmp_path, [article(name, further=1) for name in "abcde"], image_keys=2)
    flat = Index.open(world.index)

    def change(**options: Any) -> Index:
        models: dict[str, Any] = {"summarizer": FakeSummarizer(), "encoder": FakeEncoder(), "fusion": FakeFusion()}
        settings = world.options | {"overwrite": True} | options
        return build_index(tmp_path / "index.jsonl", world.images, world.index, **models, **settings)

    moved = change(search=database.kind, search_uri=database.uri)
    assert not (world.index / SEARCH).exists() and (world.index / KEY_IDS).exists()
    check_same(moved, flat)
    (world.index / VECTORS).unlink()
    back = change(search="flat")
    assert (world.index / SEARCH).exists() and not (world.index / KEY_IDS).exists()
    check_same(back, flat)


@pytest.mark.slow
def test_parts_have_tables_of_their_own(tmp_path: Path, database: Database) -> None:
    articles = [*(article(f"e{number}", further=number % 3) for number in range(9)), article("none", image=None)]
    world = World(tmp_path, articles, image_keys=3, search=database.kind, search_uri=database.uri)
    whole, queries = Index.open(world.index), torch.eye(world.open().manifest.dimension)[:6]
    scores, rows = whole.search(queries, 9)
    folders = [*split_index(world.index, 2, tmp_path / "parts")]
    (tmp_path / "parts/1-of-2/vectors.npy").unlink()  # kept by those who build only
    again = [*split_index(tmp_path / "parts", 3, tmp_path / "again")]
    tables = set()
    for parts in (folders, again):
        opened = [Index.open(folder, verify=folder.name != "1-of-2") for folder in parts]
        own = [part.search(queries, 9) for part in opened]
        places = [np.load(folder / "positions.npy") for folder in parts]
        found = [np.where(at >= 0, where[at], -1) for (_, at), where in zip(own, places, strict=True)]
        merged, order = np.concatenate([part for part, _ in own], axis=1), np.concatenate(found, axis=1)
        best = np.argsort(-merged, axis=1, kind="stable")[:, :9]
        np.testing.assert_allclose(np.take_along_axis(merged, best, 1), scores, atol=1e-3)
        assert [{*row} for row in np.take_along_axis(order, best, 1)] == [{*row} for row in rows]
        records = [part.manifest.search for part in opened]
        tables |= {record.collection for record in records if record}
        assert {record.kind for record in records if record} == {database.kind}
    assert len(tables | {whole.manifest.search.collection if whole.manifest.search else ""}) == 6


def test_what_is_wrong_is_named(tmp_path: Path, database: Database) -> None:
    with pytest.raises(ValueError, match=r"search\.uri must be set if search\.kind is a vector database"):
        World(tmp_path / "no-uri", [article("a")], search=database.kind)
    articles = [article("a"), article("b")]
    world = World(tmp_path / "world", articles, search=database.kind, search_uri=database.uri)
    manifest = json.loads((world.index / "manifest.json").read_text())
    manifest["search"]["collection"] = "omgm_other"
    (world.index / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=rf"{database.kind} at {database.uri}: omgm_other not found; rebuild with"):
        LiveIndex.open(world.index)


def test_a_folder_that_is_away_under_load(tmp_path: Path, database: Database) -> None:
    if database.kind == "milvus":
        pytest.skip("test_server.py kills the server; Milvus Lite keeps its file open")
    keys, queries, record = written(tmp_path, database, 300, 16)
    search, expected = open_search(tmp_path, record), (queries.numpy() @ keys.parts[0].T).max(axis=1)
    outcomes, stop = list[str](), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                right = np.allclose(search.search(queries, 5)[0][:, 0], expected, atol=1e-3)
                outcomes.append("right" if right else "wrong")
            except EngineError as error:
                assert database.uri in str(error)
                outcomes.append("away")

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    place, away = Path(database.uri), tmp_path / "away"
    for event, source, target in (("right", place, away), ("away", away, place), ("right", place, place)):
        seen, deadline = len(outcomes), time.monotonic() + 30
        while event not in outcomes[seen + 3 :]:  # each thread has answered what it asked before
            assert time.monotonic() < deadline
            time.sleep(0.05)
        source.rename(target)
    stop.set()
    for thread in threads:
        thread.join()
    assert {*outcomes} == {"right", "away"}


def test_many_keys(tmp_path: Path, database: Database) -> None:
    if not ENVIRONMENT:
        pytest.skip("takes long: make test-engine")
    count = 10_000 if database.uri.endswith(".db") else 100_000
    keys, queries, record = written(tmp_path, database, count, 16)
    assert record.recall is not None and record.recall >= 0.98
    scores, rows = open_search(tmp_path, record).search(queries, 20)
    products = queries.numpy() @ keys.parts[0].T
    np.testing.assert_allclose(scores, np.take_along_axis(products, rows, 1), atol=1e-3)
    assert (scores[:, -1] >= np.sort(products, axis=1)[:, -20] - 1e-3).mean() >= 0.9
