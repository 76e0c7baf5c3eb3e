"""Recall@K against ir_measures' Success@K, read from the run files of made-up runs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from evaluation.metrics import CUTOFFS, rank_of, recall_at_k
from evaluation.passages import reading_order
from evaluation.records import write_trec


def line(number: int, rng: random.Random) -> dict[str, Any]:
    names = [f"https://kb/entity {n}" for n in range(40)]
    found = rng.sample(names, rng.choice([0, 5, 25]))
    # few different scores, and some that differ by less than single precision holds
    scores = [rng.choice([0.1, 0.25, 0.25 + 1e-12, 0.7, 0.9]) for _ in found]
    ranking = sorted(zip(found, scores, strict=True), key=lambda pair: (-pair[1], pair[0]))
    candidates = [
        {"entity": entity, "sections": [[index, None, None, None] for index in rng.sample(range(9), rng.randint(0, 4))]}
        for entity, _ in ranking
    ]
    section = rng.choice([None, 0, 1, 2, 3])
    gold = {"entities": rng.sample(names[:20], rng.choice([1, 2])), "section": section}
    return {"id": f"q {number}", "gold": gold, "rankings": {"step1": ranking}, "candidates": candidates}


def test_recall_is_success_of_ir_measures(tmp_path: Path) -> None:
    measures = pytest.importorskip("ir_measures")
    rng = random.Random(0)
    lines = [line(number, rng) for number in range(300)]
    write_trec(lines, tmp_path, "test")
    ranks: dict[str, list[int | None]] = {"step1": [], "sections": []}
    for one in lines:
        gold, section = one["gold"]["entities"], one["gold"]["section"]
        ranks["step1"].append(rank_of(gold, one["rankings"]["step1"]))
        if section is not None:
            order = reading_order([(c["entity"], [s[0] for s in c["sections"]]) for c in one["candidates"]])
            right = [place for place, pair in enumerate(order, start=1) if pair[0] in gold and pair[1] == section]
            ranks["sections"].append(right[0] if right else None)
    for run, qrels in (("step1", "qrels.txt"), ("sections", "qrels.sections.txt")):
        judged = list(measures.read_trec_qrels(str(tmp_path / qrels)))
        scored = list(measures.read_trec_run(str(tmp_path / f"{run}.run")))
        wanted = measures.calc_aggregate([measures.Success @ k for k in CUTOFFS], judged, scored)
        found = {k: recall_at_k(ranks[run], k) for k in CUTOFFS}
        assert 0 < found[1] < found[20] < 1
        assert {measures.Success @ k: pytest.approx(share) for k, share in found.items()} == wanted
