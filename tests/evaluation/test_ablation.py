from __future__ import annotations

from typing import Any

from evaluation.ablation import as_markdown, step_table


def line(gold: list[str], section: int | None, best: str, read: int) -> dict[str, Any]:
    """A record whose steps all settle on `best`, and the last one on the section `read`."""
    return {
        "gold": {"entities": gold, "section": section},
        "candidates": [{"entity": best, "lead": 0, "sections": [[read, 0.5, 0.5, 0.5]]}],
        "rankings": {"step1": [[best, 1.0]], "step2": [[best, 1.0]]},
        "evidence": {"entity_id": best, "section_index": read},
    }


def test_questions_without_an_entity_take_no_part() -> None:
    rows = step_table([line(["a"], 2, "a", 2), line(["a"], None, "b", 1), line([], None, "a", 2)])
    assert [row["recall@1"] for row in rows] == [1 / 2] * 3  # of two; the third asks for no entity
    assert [row["section_recall@1"] for row in rows] == [0.0, 1.0, 1.0]


def test_nothing_but_questions_without_an_entity() -> None:
    rows = step_table([line([], None, "a", 2)])
    assert [row["recall@1"] for row in rows] == [None] * 3
    assert as_markdown(rows).splitlines()[2:] == ["| 1 | - | - |", "| 1+2 | - | - |", "| 1+2+3 | - | - |"]
