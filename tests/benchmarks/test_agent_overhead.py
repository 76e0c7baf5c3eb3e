from __future__ import annotations

from benchmarks.agent_overhead import measure, seconds_of


def test_the_figures() -> None:
    figures = measure(searches=3, ms=1, rounds=2)
    assert figures["searches"] == 3 and figures["search_ms"] == 1
    assert all(value > 0 for value in figures.values())


def test_wall_time_includes_the_searches() -> None:
    wall, _ = seconds_of(2, 1, 0.02)
    assert wall >= 0.04
