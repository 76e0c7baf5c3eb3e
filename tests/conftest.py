"""Fixtures that several folders of tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import retriever.models  # noqa: F401  first, because test modules import transformers before any of our modules
from tests.browser import Browser, started
from tests.kept import keeping, own_cache

if find_spec("hypothesis"):  # the tests of a GPU's day run without it
    from hypothesis import settings

    settings.register_profile("any machine", deadline=None)  # a busy one is no failure
    settings.load_profile("any machine")
collect_ignore = ["lavis/oracle.py"]
"""Runs in its own environment, see `make test-lavis`."""


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the digests of files out of the user's cache, whose base models are shared: they are checked when used."""
    with pytest.MonkeyPatch.context() as patch:
        own_cache(tmp_path_factory.mktemp("cache") / "user", patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def kept(cache_folder: None) -> Iterator[None]:
    """Spares the tests of a process making the same digests and schemas again and again, and waiting for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        keeping(patch)
        yield


@pytest.fixture(autouse=True)
def streams_of_later_servers() -> Iterator[None]:
    """Lets servers stream after one in the same process got a signal: sse-starlette never forgets it."""
    yield
    if (module := sys.modules.get("sse_starlette.sse")) is not None:
        module.AppStatus.should_exit = False


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium; skips the test if there is none."""
    yield from started(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="session")
def transformers_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `transformers serve`, which is slow to start and serves any model that a request names."""
    from tests.fakes.transformers_server import transformers_serve  # not at the top, because it imports httpx

    with transformers_serve(tmp_path_factory.mktemp("transformers")) as url:
        yield url


@pytest.fixture(scope="session")
def blip2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BLIP-2 as saved by transformers; tests change only copies."""
    from tests.fakes.blip2 import save_blip2  # not at the top, because it imports transformers

    save_blip2(folder := tmp_path_factory.mktemp("blip2"))
    return folder
