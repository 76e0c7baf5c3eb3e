"""Records on disk and back, and Recall@K against ir_measures' Success@K, read from the run files of made-up runs."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from evaluation.metrics import CUTOFFS, counts_of, rank_of, recall_at_k
from evaluation.records import GoldRecord, QueryRecord, SectionRecord, from_json, outcome_of, read_records, to_json
from evaluation.trec import reading_order, write_trec
from retriever.types import ArticleImage, Evidence
from tests.fakes.records import candidate, record, write_records

LINE = """{"id": "q0", "question": "How long?", "image_id": "red", "question_type": "templated", "split": "val",
"category": "c", "gold": {"entities": ["r"], "titles": ["Red"], "missing": false, "section": 2, "section_title": "Wave",
"answers": ["7"]}, "failed": null,
"candidates": [{"entity": "r", "title": "Red", "sim_c": 1.0, "sim_m": 0.5, "score": 0.9, "lead": 0,
"sections": [[2, 0.5, 0.25, 0.3], [0, 0.1, null, null]], "sim_w": 0.75}],
"rankings": {"step1": [["r", 1.0]]}, "ranks": {"step1": 1},
"evidence": {"entity_id": "r", "entity_title": "Red", "section_title": "Wave", "text": "7 nm", "section_index": 2,
"images": [{"url": "w.jpg", "section": 2, "caption": "A wave"}]},
"section_correct": true, "section_ranks": {"pseudo": 1, "section": 1}, "answer": "7", "confidence": 0.5, "span": [0, 1],
"unanswered": false, "thoughts": "A wave.",
"answer_scores": {"evqa_exact_match": 1.0}, "answer_correct": true, "timings_ms": {"step1": 2.5},
"declined": false, "ending": "cut",
"quote": [{"text": "RED", "confidence": 0.9, "box": [0.0, 0.5, 1.0, 1.0], "photograph": 1}], "passages": [],
"recognized": 0.75, "crop": [0.0, 0.25, 0.5, 1.0],
"turned": 90, "text": [{"text": "RED", "confidence": 0.9, "box": [0.0, 0.5, 1.0, 1.0], "photograph": 1}],
"by_text": true, "reading": "name", "searched": null, "parts": null, "filter": {"category": ["bird"]},
"photographs": [{"entity_id": "r", "entity_title": "Red", "recognized": 0.75, "crop": null, "turned": 0, "sections":
[{"evidence": {"entity_id": "r", "entity_title": "Red", "section_title": "Wave", "text": "7 nm", "section_index": 2,
"images": []}, "behind": 0.0}]}]}"""


def test_a_line_and_its_record() -> None:
    read = from_json(json.loads(LINE))
    assert read.candidates[0].sections == [SectionRecord(2, 0.5, 0.25, 0.3), SectionRecord(0, 0.1)]
    assert read.evidence == Evidence("r", "Red", "Wave", "7 nm", 2, (ArticleImage("w.jpg", 2, "A wave"),))
    assert (read.gold.section, read.span, read.rankings) == (2, (0, 1), {"step1": [("r", 1.0)]})
    assert json.dumps(to_json(read)) == json.dumps(json.loads(LINE))  # also the order of the fields


def test_lines_of_other_versions_are_read() -> None:
    line = json.loads(LINE)
    for name in (
        "section_ranks",
        "answer_scores",
        "declined",
        "recognized",
        "crop",
        "turned",
        "text",
        "by_text",
        "reading",
        "searched",
        "parts",
        "filter",
        "photographs",
        "passages",
        "quote",
    ):  # later versions write them
        del line[name]
    del line["evidence"]["images"]
    read = from_json(line | {"added_later": 1})
    assert (read.section_ranks, read.answer_scores, read.answer_correct) == ({}, {}, True)


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    write_records(path, [record("a")])
    [good] = path.read_bytes().splitlines()
    ids_only = b'{"id": "b", "question": "Who?", "image_id": "i"}'
    for bad in (b'{"id": "b"}', ids_only, b"[]", b"{", b'{"candidates": 1}', b"\xff"):
        path.write_bytes(good + b"\n" + bad + b"\n")
        with pytest.raises(ValueError, match=r"queries\.jsonl: line 2: not a record of omgm evaluate"):
            list(read_records(path))


def made_up(number: int, rng: random.Random) -> QueryRecord:
    names = [f"https://kb/entity {n}" for n in range(40)]
    entities = rng.sample(names, rng.choice([0, 5, 25]))
    # few distinct scores, some of which differ by less than single precision can represent
    scores = [rng.choice([0.1, 0.25, 0.25 + 1e-12, 0.7, 0.9]) for _ in entities]
    ranking = sorted(zip(entities, scores, strict=True), key=lambda pair: (-pair[1], pair[0]))
    candidates = [
        candidate(entity, sections=[(index, None, None) for index in rng.sample(range(9), rng.randint(0, 4))])
        for entity, _ in ranking
    ]
    section = rng.choice([None, 0, 1, 2, 3])
    gold = GoldRecord(rng.sample(names[:20], rng.choice([1, 2])), section=section)
    return record(f"q {number}", gold=gold, rankings={"step1": ranking}, candidates=candidates)


def test_recall_is_success_of_ir_measures(tmp_path: Path) -> None:
    measures = pytest.importorskip("ir_measures")
    rng = random.Random(0)
    records = [made_up(number, rng) for number in range(300)]
    write_trec(records, tmp_path, "test")
    ranks: dict[str, list[int | None]] = {"step1": [], "sections": []}
    for one in records:
        gold, section = one.gold.entities, one.gold.section
        ranks["step1"].append(rank_of(gold, one.rankings["step1"]))
        if section is not None:
            order = reading_order([(c.entity, [s.index for s in c.sections]) for c in one.candidates])
            right = [place for place, pair in enumerate(order, start=1) if pair[0] in gold and pair[1] == section]
            ranks["sections"].append(right[0] if right else None)
    for run, qrels in (("step1", "qrels.txt"), ("sections", "qrels.sections.txt")):
        judged = list(measures.read_trec_qrels(str(tmp_path / qrels)))
        scored = list(measures.read_trec_run(str(tmp_path / f"{run}.run")))
        wanted = measures.calc_aggregate([measures.Success @ k for k in CUTOFFS], judged, scored)
        found = {k: recall_at_k(ranks[run], k) for k in CUTOFFS}
        assert 0 < found[1] < found[20] < 1
        assert {measures.Success @ k: pytest.approx(share) for k, share in found.items()} == wanted


def test_reading_order() -> None:
    assert reading_order([("a", [3, 1]), ("b", []), ("c", [0])]) == [("a", 3), ("a", 1), ("b", None), ("c", 0)]
    assert reading_order([]) == []


@pytest.mark.parametrize(
    ("gold", "missing"),
    [
        (GoldRecord(["a"], ["A"], section=3, section_title="Size"), False),
        (GoldRecord(["a"], ["A"], section=0, section_title=""), False),  # a lead without a title
        (GoldRecord(["a"], ["A"], section=99), True),
        (GoldRecord(["a"], ["A"]), False),  # the data set names none
        (GoldRecord(["a"], missing=True, section=3), False),  # counted as a missing entity
    ],
)
def test_a_section_that_the_index_lacks_is_counted(gold: GoldRecord, missing: bool) -> None:
    outcome = outcome_of(record("q", gold=gold))
    assert outcome.section_missing is missing and counts_of([outcome])["n_section_missing"] == missing


@pytest.mark.parametrize(
    ("candidates", "entities", "shallow"),
    [(20, 2_000_000, False), (19, 2_000_000, True), (3, 3, False), (2, 3, True), (0, 3, False)],
)
def test_a_question_with_fewer_candidates_than_recall_counts_is_told(
    candidates: int, entities: int, shallow: bool
) -> None:
    ranking = {"step1": [(f"e{n}", 1.0 - n / 100) for n in range(candidates)]}
    outcome = outcome_of(record("q", rankings=ranking), entities)
    assert outcome.shallow is shallow and counts_of([outcome])["n_shallow"] == shallow
    assert not outcome_of(record("q", rankings=ranking, failed="image: lost"), entities).shallow
