"""Nothing is lost by kills: real processes, killed with SIGKILL at random moments."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.indexes.live.kills import check_builds, check_updates


@pytest.mark.slow
def test_of_updates_none_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    assert check_updates(4, tmp_path, random.Random(0)) > 0


@pytest.mark.slow
def test_a_killed_build_ends_with_the_same_files(tmp_path: Path) -> None:
    check_builds(4, tmp_path, random.Random(1))
