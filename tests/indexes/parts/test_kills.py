from __future__ import annotations

from pathlib import Path

import pytest

from tests.indexes.parts.kills import LONGEST, run


@pytest.mark.slow
def test_killed_parts_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    seen = run(tmp_path, requests=50, updates=50, every=0.25)
    assert seen.problems == []
    assert seen.counts["acknowledged"] >= 50 and seen.counts["requests"] >= 50 and seen.counts["kills"] >= 2
    assert seen.slowest < LONGEST
