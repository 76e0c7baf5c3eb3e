from __future__ import annotations

from pathlib import Path

from tests.indexes.parts.kills import LONGEST, run


def test_killed_parts_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    seen = run(tmp_path, requests=100, updates=100, every=0.5)
    assert seen.problems == []
    assert seen.counts["acknowledged"] >= 100 and seen.counts["requests"] >= 100 and seen.counts["kills"] >= 2
    assert seen.slowest < LONGEST
