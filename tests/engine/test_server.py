"""Entity search with a real Milvus server: kills, absence, and the limit of flushes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from indexes.store.entity_index import open_search
from indexes.store.key_tables import table_name
from indexes.store.keys import Keys
from indexes.store.manifest import SearchRecord
from indexes.store.recall import HeldOutQueries
from indexes.store.search_milvus import MILVUS, Collection
from retriever.types import EngineError, FloatArray
from tests.engine.conftest import Engine
from tests.fakes.vectors import clustered

KEYS, LENGTH = 6000, 32


class Upload:
    """Keys of which each is its own entity, their upload and what it must find."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.vectors = folder, clustered(KEYS, LENGTH)
        self.keys = Keys((self.vectors,), np.arange(KEYS), np.empty(0, np.int64))
        np.save(folder / "entity_ids.npy", np.stack([np.arange(KEYS) * 7, np.arange(KEYS)]))
        self.queries = torch.from_numpy(clustered(32, LENGTH, seed=1))

    def write(self, uri: str) -> SearchRecord:
        return MILVUS.write(self.folder, self.keys, HeldOutQueries(self.queries, "others"), self.folder, "inputs", uri)

    def exact(self) -> FloatArray:
        """Returns the best inner product of each query, by NumPy."""
        return np.asarray((self.queries.numpy() @ self.vectors.T).max(axis=1), np.float32)


@pytest.fixture
def upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Upload:
    monkeypatch.setattr("indexes.store.keys.BLOCK", 1000)
    return Upload(tmp_path)


def test_a_server_killed_in_the_middle_of_an_upload(
    engine: Engine, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, killed, add = list[int](), list[bool](), Collection.add

    def interrupted(self: Collection, ids: Any, keys: Any) -> None:
        if len(sent) == 3 and not killed:
            killed.append(True)
            threading.Timer(0.02, engine.kill).start()
        add(self, ids, keys)
        sent.append(len(ids))

    monkeypatch.setattr(Collection, "add", interrupted)
    with pytest.raises(EngineError, match="collection omgm_"):
        upload.write(engine.uri)
    assert 3 <= len(sent) < 6  # the kill may come after an answer or two
    engine.start()
    record = _repeated(partial(upload.write, engine.uri))
    assert sent == [1000] * 6 and Collection(engine.uri, table_name(upload.folder, "inputs")).finish() == KEYS
    scores, _ = open_search(upload.folder, record).search(upload.queries, 10)
    np.testing.assert_allclose(scores[:, 0], upload.exact(), atol=1e-5)


def test_a_server_that_is_away_under_load(engine: Engine, upload: Upload) -> None:
    search = open_search(upload.folder, upload.write(engine.uri))
    expected, outcomes, stop = upload.exact(), list[tuple[float, float, str]](), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            begun = time.monotonic()
            try:
                scores, _ = search.search(upload.queries, 10)
                outcome = "right" if np.allclose(scores[:, 0], expected, atol=1e-5) else "wrong"
            except EngineError:
                outcome = "away"
            outcomes.append((begun, time.monotonic() - begun, outcome))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    engine.kill()
    time.sleep(30)
    engine.start()
    returned, deadline = time.monotonic(), time.monotonic() + 180
    while not any(begun > returned and outcome == "right" for begun, _, outcome in outcomes):
        assert time.monotonic() < deadline
        time.sleep(1)
    stop.set()
    for thread in threads:
        thread.join()
    assert {outcome for *_, outcome in outcomes} == {"right", "away"}
    assert max(seconds for _, seconds, _ in outcomes) < 15


def test_flushes_are_limited(engine: Engine, upload: Upload) -> None:
    with limiting_flushes(engine.port, refused=2) as (uri, flushes):
        record = upload.write(uri)
    assert flushes == [8, 8, 0]  # one flush of six blocks, accepted when it was sent a third time
    assert (record.recall or 0) >= 0.98


def _repeated(work: Callable[[], SearchRecord]) -> SearchRecord:
    """Repeats a command as a user would, while a server that was killed still looks for its own parts."""
    deadline = time.monotonic() + 180
    while True:
        try:
            return work()
        except EngineError:
            if time.monotonic() > deadline:
                raise
            time.sleep(2)


@contextmanager
def limiting_flushes(port: int, refused: int) -> Iterator[tuple[str, list[int]]]:
    """A proxy that answers the first flushes as newer servers answer too many; yields its address and their codes."""
    import grpc
    from pymilvus.grpc_gen import common_pb2, milvus_pb2

    codes = list[int]()

    class Forward(grpc.GenericRpcHandler):  # type: ignore[misc, unused-ignore]
        def service(self, details: Any) -> Any:
            call = there.unary_unary(details.method)

            def forward(request: bytes, context: Any) -> Any:
                if details.method.endswith("/Flush"):
                    codes.append(8 if len(codes) < refused else 0)
                    if codes[-1]:
                        status = common_pb2.Status(code=8, error_code=common_pb2.RateLimit, reason="rate limit")
                        return milvus_pb2.FlushResponse(status=status).SerializeToString()
                return call(request, metadata=context.invocation_metadata())

            return grpc.unary_unary_rpc_method_handler(forward)

    with grpc.insecure_channel(f"127.0.0.1:{port}") as there:
        proxy: Any = grpc.server(futures.ThreadPoolExecutor(4))
        proxy.add_generic_rpc_handlers((Forward(),))
        own: Callable[[str], int] = proxy.add_insecure_port
        uri = f"http://127.0.0.1:{own('127.0.0.1:0')}"
        proxy.start()
        try:
            yield uri, codes
        finally:
            proxy.stop(None).wait()
