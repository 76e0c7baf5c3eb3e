from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.gpu_embedded import compare
from evaluation.records import RECORDS

Candidates = list[tuple[str, float, float | None]]
"""Entities with sim_c and sim_m."""


def run(folder: Path, device: str, queries: list[Candidates], recall: float) -> dict[str, Any]:
    own = folder / f"{device}-float32"
    own.mkdir()
    lines = [
        {
            "id": str(number),
            "candidates": [{"entity": e, "sim_c": c, "sim_m": m, "score": c} for e, c, m in candidates],
            "section_ranks": {"section": number},
        }
        for number, candidates in enumerate(queries)
    ]
    (own / RECORDS).write_text("\n".join(map(json.dumps, lines)))
    steps = {step: {"recall@1": recall} for step in ("step1", "step2", "step3")}
    return {"device": device, "dtype": "float32", "n_queries": len(queries), **steps}


def test_runs_are_compared_query_by_query(tmp_path: Path) -> None:
    one = run(tmp_path, "cpu", [[("a", 0.9, 0.5), ("b", 0.8, None)], [("a", 0.5, 0.25)]], 1.0)
    other = run(tmp_path, "cuda", [[("b", 0.8125, 0.5), ("a", 0.9, 0.75)], [("a", 0.5, 0.25)]], 0.5)
    assert compare(tmp_path, one, other) == {
        "compared": ["cpu, float32", "cuda, float32"],
        "recall_equal": False,
        "same_first_entity": 1,
        "same_section_ranks": 2,
        "n_queries": 2,
        "largest_difference": {"sim_c": 0.0125, "sim_m": 0.25, "score": 0.0125},
    }
    assert compare(tmp_path, one, one)["recall_equal"]
