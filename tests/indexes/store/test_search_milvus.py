"""Entity search with Milvus: the embedded engine, in its own files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from indexes.live.index import LiveIndex
from indexes.store.entity_index import open_search
from indexes.store.index import Index
from indexes.store.keys import Keys
from indexes.store.layout import THUMBNAILS
from indexes.store.manifest import (
    FILES,
    IMAGE_OWNERS,
    KEY_IDS,
    OWNERS,
    SEARCH,
)
from indexes.store.recall import HeldOutQueries
from indexes.store.search import DeviceSearch
from indexes.store.search_milvus import Collection, key_ids, write_milvus
from retriever.types import EngineError
from tests.fakes.live import World, article, data_of
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index
from tests.fakes.raw_server import RawServer
from tests.fakes.vectors import clustered
from tests.indexes.live.test_live_index import check_same

pytest.importorskip("pymilvus", reason="needs the extra milvus")
pytest.importorskip("milvus_lite", reason="needs the extra milvus")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "milvus.db")


def test_candidates_of_milvus_are_rescored_and_uploads_resume(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexes.store.search_kinds._BLOCK", 200)
    vectors = clustered(600, 16)
    keys = Keys((vectors,), np.delete(np.arange(600), [3, 400]), np.repeat(np.arange(50), 2))
    queries = torch.from_numpy(clustered(20, 16, seed=1))
    other_name = [[5], [~3]]  # of row 3, which is found by this name but has no key for it
    table = np.hstack([np.stack([np.arange(500) * 7 - 1000, np.arange(500)[::-1]]), other_name])
    np.save(tmp_path / "entity_ids.npy", table)
    ids = key_ids(tmp_path, keys)
    assert ids[[0, 499]].tolist() == [499 * 7 - 1000, -1000] and len(set(ids.tolist())) == 600
    sent, upsert = list[int](), Collection.upsert

    def stopped(self: Collection, own: Any, block: Any) -> None:
        if len(sent) == 1:
            sent.append(0)
            upsert(self, own[:120], block[:120])  # only half of a batch arrives
            raise KeyboardInterrupt
        sent.append(len(own))
        upsert(self, own, block)

    monkeypatch.setattr(Collection, "upsert", stopped)
    arguments = (tmp_path, keys, ids, HeldOutQueries(queries, "others"), uri, "omgm_test")
    with pytest.raises(KeyboardInterrupt):
        write_milvus(*arguments)
    record = write_milvus(*arguments)
    assert sent == [200, 0, 200, 198] and Collection(uri, "omgm_test").count() == 598
    assert (record.kind, record.uri, record.collection) == ("milvus", uri, "omgm_test")
    assert record.recall is not None and record.recall >= 0.98
    write_milvus(*arguments)  # recorded as complete
    assert sent == [200, 0, 200, 198]

    search = open_search(tmp_path, record)
    assert search.shape == (598, 16)
    scores, rows = search.search(queries, 10)
    stored = vectors.astype(np.float16).astype(np.float32)
    stored[[3, 400]] = 0  # have no key
    np.testing.assert_allclose(scores[:, 0], (queries.numpy() @ stored.T).max(axis=1), atol=1e-5)
    np.testing.assert_allclose(scores, np.einsum("qd,qkd->qk", queries.numpy(), stored[rows]), atol=1e-5)
    assert not np.isin(rows, [3, 400]).any()
    on_device = DeviceSearch.read(tmp_path, record, "cpu").search(queries, 10)[1]
    assert np.mean([len({*a} & {*b}) for a, b in zip(rows.tolist(), on_device.tolist(), strict=True)]) >= 9.8

    Collection(uri, "omgm_test").upsert(np.array([77_777]), 9 * queries[:1].numpy())  # of another version
    np.testing.assert_array_equal(search.search(queries[:1], 10)[1][:, :9], rows[:1, :9])


def test_an_index_in_milvus(tmp_path: Path, uri: str) -> None:
    first = [article("a", further=2), article("b", further=1), article("c"), article("d", further=2)]
    final = [article("a", further=2), article("b", 5), article("d", 3), article("e", 1, further=2)]
    world = World(tmp_path, first, image_keys=3, search="milvus", search_uri=uri)
    manifest = world.open().manifest
    assert manifest.search is not None and manifest.search.kind == "milvus" and manifest.counts.further_keys == 5
    assert set(manifest.files) == {*FILES, OWNERS, IMAGE_OWNERS, KEY_IDS} - {SEARCH}
    collection = Collection(uri, manifest.search.collection)
    assert collection.count() == 9
    editor = world.editor()
    world.put(editor, article("e", 7), *final[1:3])
    editor.remove(["kb/c"])
    world.put(editor, final[3])
    assert collection.count() == 9  # changes are searched separately until they are compacted
    world.options = {"candidates": "combined", "tokens": "int8", "image_keys": 3}
    fresh = world.build(final, tmp_path / "fresh")
    check_same(editor.index, fresh)
    before = world.open()
    assert editor.index.compact()
    check_same(editor.index, fresh)
    check_same(before, fresh)  # readers of the old files see no difference
    assert collection.count() == 4 + 2 + 2
    assert "search" in Index.open(world.index, verify=True).manifest.to_json().decode()
    left = {name: data for name, data in data_of(editor.index.folder).items() if name not in (KEY_IDS, "vectors.npy")}
    same = data_of(tmp_path / "fresh")
    assert left == {name: same[name] for name in left}
    editor.index.close()


def test_an_index_moves_to_milvus_and_back(tmp_path: Path, uri: str) -> None:
    world = World(tmp_path, [article(name, further=1) for name in "abcde"], image_keys=2)
    flat = world.open()

    def change(**options: Any) -> Index:
        models: dict[str, Any] = {"summarizer": FakeSummarizer(), "encoder": FakeEncoder(), "fusion": FakeFusion()}
        given = world.options | {"overwrite": True} | options
        return build_index(tmp_path / "index.jsonl", world.images, world.index, **models, **given)

    moved = change(search="milvus", search_uri=uri)
    assert not (world.index / SEARCH).exists() and (world.index / KEY_IDS).exists()
    check_same(moved, flat)
    back = change(search="flat")
    assert (world.index / SEARCH).exists() and not (world.index / KEY_IDS).exists()
    check_same(back, flat)


def test_loopback_is_reached_without_a_proxy(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(lambda *_: []) as proxy:
        for name in ("http_proxy", "https_proxy", "grpc_proxy"):
            monkeypatch.setenv(name, proxy.url)
        collection = Collection(uri, "omgm_direct")
        collection.create(4)
        assert collection.exists()
        with pytest.raises(EngineError, match=r"Milvus at http://127\.0\.0\.1:9, collection omgm_direct"):
            Collection("http://127.0.0.1:9", "omgm_direct")
    assert proxy.requests == []


def test_what_is_wrong_is_named(tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r'search\.uri must be set if search\.kind is "milvus"'):
        World(tmp_path / "no-uri", [article("a")], search="milvus")
    world = World(tmp_path / "world", [article("a"), article("b")], search="milvus", search_uri=uri)
    manifest = json.loads((world.index / "manifest.json").read_text())
    manifest["search"]["collection"] = "omgm_other"
    (world.index / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"milvus\.db: collection omgm_other not found; rebuild with"):
        LiveIndex.open(world.index)
    assert (world.index / THUMBNAILS).is_dir()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MILVUS_URI", str(tmp_path / "file" / "milvus.db"))
    with pytest.raises(OSError, match=r"Milvus at .*file/milvus\.db, collection omgm_other: "):
        Index.open(world.index)
