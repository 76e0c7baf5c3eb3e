from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.live import BASE, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An index of `BASE`."""
    return World(tmp_path, BASE)
