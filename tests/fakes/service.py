"""The service on `tests.fakes.world`, running on a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from retriever.asking import Generator
from serving.app import create_app
from serving.examples import add_example_routes
from serving.modes import Modes
from serving.openai_routes import OPENAI
from serving.protocol import protocol_of
from serving.settings import ServingSettings
from tests.fakes.images import data_uri, image_bytes
from tests.fakes.listening import listening_as
from tests.fakes.world import FakeGenerator, FakeIndex, FakeRetriever, write_images

SMALL = ServingSettings(max_batch=1, max_queue=1)
"""Limits of a service that is full with one request running and one waiting."""


class World:
    """A service with all its parts, and the address it listens on."""

    def __init__(
        self,
        folder: Path,
        settings: ServingSettings | None = None,
        generator: Generator | None = None,
        modes: Modes | None = None,
    ) -> None:
        self.folder = write_images(folder)
        self.index = FakeIndex(self.folder)
        self.retriever = FakeRetriever(self.index, k=3)
        settings, generator = settings or ServingSettings(), generator or FakeGenerator()
        self.app = create_app(self.retriever, generator, settings, modes=modes, routes=(*OPENAI, add_example_routes))
        self.url = ""


@contextmanager
def served(
    folder: Path,
    settings: ServingSettings | None = None,
    generator: Generator | None = None,
    modes: Modes | None = None,
) -> Iterator[World]:
    """Yields a service that listens on a free loopback port."""
    world = World(folder, settings, generator, modes)
    with listening(world.app, settings or ServingSettings()) as world.url:
        yield world
        world.retriever.gate.set()


@contextmanager
def listening(app: ASGIApp, settings: ServingSettings | None = None) -> Iterator[str]:
    """Yields the address of a real server for `app` that runs in a thread."""
    http = protocol_of(
        settings or ServingSettings(), getattr(app.state, "overload", None) if isinstance(app, Starlette) else None
    )
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        http=http,
        log_level="error",
        ws="none",
        loop="asyncio",
        timeout_graceful_shutdown=5,
    )
    with listening_as(config) as url:
        yield url


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def body(question: str = "When was the treaty?") -> bytes:
    return json.dumps({"image": data_uri(image_bytes("red")), "question": question}).encode()


def post(url: str, question: str = "When was the treaty?") -> httpx.Response:
    headers = {"Content-Type": "application/json"}
    return httpx.post(
        f"{url}/answer", content=body(question), headers=headers, timeout=20, trust_env=False, verify=False
    )


@contextmanager
def full(world: World) -> Iterator[list[Future[httpx.Response]]]:
    """Keeps one request running and one waiting."""
    world.retriever.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        held = [pool.submit(post, world.url, "running")]
        wait_until(lambda: len(world.retriever.batches) == 1)
        held.append(pool.submit(post, world.url, "waiting"))
        wait_until(lambda: httpx.get(f"{world.url}/health/ready", verify=False).json()["waiting"] == 1)
        try:
            yield held
        finally:
            world.retriever.gate.set()
