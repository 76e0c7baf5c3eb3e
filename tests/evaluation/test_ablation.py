from __future__ import annotations

from evaluation.ablation import as_markdown, step_table
from evaluation.records import GoldRecord, QueryRecord
from tests.fakes.records import candidate, evidence, record


def settled(gold: list[str], section: int | None, best: str, read: int) -> QueryRecord:
    """A record whose steps all choose `best`; the last one chooses the section `read`."""
    return record(
        "q",
        gold=GoldRecord(gold, section=section),
        candidates=[candidate(best, sections=[(read, 0.5, 0.5)])],
        rankings={"step1": [(best, 1.0)], "step2": [(best, 1.0)], "step3": [(best, 1.0)]},
        evidence=evidence(best, read),
    )


def test_questions_without_an_entity_take_no_part() -> None:
    rows = step_table([settled(["a"], 2, "a", 2), settled(["a"], None, "b", 1), settled([], None, "a", 2)])
    assert [row["recall@1"] for row in rows] == [1 / 2] * 3  # of two; the third names no entity
    assert [row["section_recall@1"] for row in rows] == [0.0, 1.0, 1.0]


def test_nothing_but_questions_without_an_entity() -> None:
    rows = step_table([settled([], None, "a", 2)])
    assert [row["recall@1"] for row in rows] == [None] * 3
    assert as_markdown(rows).splitlines()[2:] == ["| 1 | - | - |", "| 1+2 | - | - |", "| 1+2+3 | - | - |"]


def test_any_steps() -> None:
    rankings = {"step1": [("b", 1.0), ("a", 0.9)], "manifold": [("a", 1.0), ("b", 0.9)], "step2": [("a", 1.0)]}
    shown = [candidate("a", sections=[(3, 0.2, 0.2), (4, 0.9, 0.9)]), candidate("b", sections=[(1, 0.5, 0.5)])]
    gold = GoldRecord(["a"], section=4)
    reached = record("q", gold=gold, candidates=shown, rankings=rankings, evidence=evidence("a", 4))
    failed = record("r", gold=gold, candidates=[], rankings={})
    rows = step_table([failed, reached], ["step1", "manifold", "step2"])
    assert [row["steps"] for row in rows] == ["1", "1+manifold", "1+manifold+2"]
    assert [row["recall@1"] for row in rows] == [0.0, 0.5, 0.5]
    assert [row["section_recall@1"] for row in rows] == [0.0, 0.0, 0.5]  # the lead is section 3
