from __future__ import annotations

from pathlib import Path

from tests.indexes.parts.kills import LONGEST, run


def test_killed_parts_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    report = run(tmp_path, requests=100, updates=100, every=0.5)
    assert report["problems"] == []
    assert report["acknowledged"] >= 100 and report["requests"] >= 100 and report["kills"] >= 2
    assert report["slowest_s"] < LONGEST
