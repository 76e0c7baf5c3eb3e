"""The databases that hold keys: a real Milvus server on loopback, which the tests may kill, and those in files."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fakes.packages import installing
from tests.paths import ROOT

ENVIRONMENT = os.environ.get("ENGINE", "")
"""The environment with the packages of databases (`make test-engine`); its own numpy and the like come last."""
if ENVIRONMENT:
    sys.path += [str(ROOT / path) for path in Path(ENVIRONMENT).glob("lib/python*/site-packages")]

PORTS = ["etcd", "root-coord", "proxy", "proxy-internal", "query-coord", "query-node"]
PORTS += ["index-coord", "index-node", "data-coord", "data-node"]


class Engine:
    """The server of the package `milvus`, with data in a folder of its own.

    Args:
        program: The path of `milvus-server`.
        folder: An empty folder.
    """

    def __init__(self, program: str, folder: Path) -> None:
        self._command = [program, "--data", str(folder)]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = min(probe.getsockname()[1], 65_000 - len(PORTS))
        for number, name in enumerate(PORTS):
            self._command += [f"--{name}-port", str(first + number)]
        self.port = first + PORTS.index("proxy")
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the server and waits until it answers; again if it gives up, as while a killed one's lease lasts."""
        import pymilvus

        out, deadline = subprocess.DEVNULL, time.monotonic() + 180
        while True:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=out, start_new_session=True)
            waited = time.monotonic() + 40
            while time.monotonic() < waited:
                try:
                    pymilvus.MilvusClient(self.uri, timeout=2).list_collections(timeout=2)
                    return
                except pymilvus.MilvusException:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.5)
            self.kill()

    def kill(self) -> None:
        """Kills the server and its children with SIGKILL."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


class Database(NamedTuple):
    """A database of keys: its kind, its address, and the class of its tables."""

    kind: str
    uri: str
    table: Any


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    if not ENVIRONMENT:
        pytest.skip("needs a Milvus server: make test-engine")
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    server = Engine(f"{ENVIRONMENT}/bin/milvus-server", folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["shelf", "milvus-lite", "lancedb", "milvus"])
def database(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Each database that is installed here; one of another package always is."""
    needed = {"milvus-lite": "milvus_lite", "milvus": "pymilvus", "lancedb": "lancedb"}.get(request.param)
    if needed and not find_spec(needed):
        pytest.skip(f"needs {needed}: make test-engine")
    if request.param == "lancedb":
        from indexes.store.search_lancedb import LanceTable

        yield Database("lancedb", str(tmp_path / "lance"), LanceTable)
    elif request.param == "shelf":
        with installing(tmp_path / "packages", monkeypatch) as install:
            code = (ROOT / "tests/engine/shelf.py").read_text()
            install("shelf_search", code, "omgm.engines", "shelf = shelf_search:SHELF")
            shelf = import_module("shelf_search")
            yield Database("shelf", str(tmp_path / "shelf"), shelf.ShelfTable)
    else:
        from indexes.store.search_milvus import Collection

        lite = request.param == "milvus-lite"
        uri = str(tmp_path / "milvus.db") if lite else request.getfixturevalue("engine").uri
        yield Database("milvus", uri, Collection)
