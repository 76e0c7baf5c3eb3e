"""A real Milvus server on loopback, which the tests may kill and start again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

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
        """Starts the server and waits until it answers."""
        import pymilvus

        out = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdout=out, stderr=out, start_new_session=True)
        deadline = time.monotonic() + 120
        while True:
            try:
                pymilvus.MilvusClient(self.uri, timeout=2).list_collections(timeout=2)
                return
            except pymilvus.MilvusException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def kill(self) -> None:
        """Kills the server and its children with SIGKILL."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    program = os.environ.get("ENGINE")
    if not program:
        pytest.skip("needs a Milvus server: make test-engine")
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    server = Engine(program, folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def uri(engine: Engine) -> str:
    return engine.uri
