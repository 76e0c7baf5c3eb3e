"""The service over `tests.fakes.world`, on a real server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from retriever.protocols import Generator
from serving.app import create_app
from serving.settings import ServingSettings
from tests.fakes.world import FakeGenerator, FakeIndex, FakeRetriever, write_images


class World:
    """One service with all its parts, and the address it listens at."""

    def __init__(
        self, folder: Path, settings: ServingSettings | None = None, generator: Generator | None = None
    ) -> None:
        self.folder = write_images(folder)
        self.index = FakeIndex(self.folder)
        self.retriever = FakeRetriever(self.index, k=3)
        self.app = create_app(self.retriever, generator or FakeGenerator(), settings or ServingSettings())
        self.url = ""


@contextmanager
def served(
    folder: Path, settings: ServingSettings | None = None, generator: Generator | None = None
) -> Iterator[World]:
    """Yields a service that listens on a free loopback port."""
    world = World(folder, settings, generator)
    with listening(world.app) as world.url:
        yield world
        world.retriever.gate.set()


@contextmanager
def listening(app: Starlette) -> Iterator[str]:
    """Yields the address of a real server for `app`, which runs in a thread."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + 10
        while not server.started:
            assert thread.is_alive() and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(15)
