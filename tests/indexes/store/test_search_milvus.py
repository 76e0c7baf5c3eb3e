"""What is Milvus's own, with the embedded engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexes.store.search_milvus import Collection
from retriever.types import EngineError
from tests.fakes.raw_server import RawServer

pytest.importorskip("pymilvus", reason="needs the extra milvus")
pytest.importorskip("milvus_lite", reason="needs the extra milvus")


def test_loopback_is_reached_without_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(lambda *_: []) as proxy:
        for name in ("http_proxy", "https_proxy", "grpc_proxy"):
            monkeypatch.setenv(name, proxy.url)
        collection = Collection(str(tmp_path / "milvus.db"), "omgm_direct")
        collection.create(4)
        assert collection.exists()
        with pytest.raises(EngineError, match=r"Milvus at http://127\.0\.0\.1:9, collection omgm_direct"):
            Collection("http://127.0.0.1:9", "omgm_direct")
    assert proxy.requests == []


def test_a_path_that_cannot_be_opened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MILVUS_URI", str(tmp_path / "file" / "milvus.db"))
    with pytest.raises(OSError, match=r"Milvus at .*file/milvus\.db, collection omgm_other: "):
        Collection("http://127.0.0.1:9", "omgm_other").exists()
