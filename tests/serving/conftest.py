"""The service shared by several modules; a module may define its own."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.fakes.asking import LIMITS
from tests.fakes.service import World, served


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with served(tmp_path_factory.mktemp("world"), LIMITS) as world:
        yield world


@pytest.fixture
def client(world: World) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=world.url, timeout=20, trust_env=False, verify=False) as client:
        yield client
