from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benchmarks import retrieval, subset, zero_shot
from evaluation.datasets import load
from evaluation.records import QueryRecord
from retriever.models.bm25 import BM25
from retriever.pipeline import Retriever
from retriever.protocols import Step
from retriever.step1_search import EntitySearch
from retriever.step2_rerank import FusionRerank
from retriever.step3_sections import SectionRerank
from retriever.types import Query
from tests.fakes.knowledge_base import write_kb
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index
from tests.fakes.question_files import evqa_row
from tests.fakes.records import record
from tests.fakes.rows import write_csv

WIKI = "https://e.example/wiki/"


def write_questions(path: Path) -> None:
    """Ten images of France with two questions each, one of Words."""
    asked = [("France", f"fr_{i % 10}") for i in range(20)] + [("Words", "words_0")]
    write_csv(path, *(evqa_row("What?", "a|b", name, dataset_image_ids=image, extra="kept") for name, image in asked))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_filter_cuts_knowledge_base_and_questions_alike(tmp_path: Path) -> None:
    kb, _ = write_kb(tmp_path)
    write_questions(tmp_path / "all.csv")
    arguments = ["--kb", str(kb), "--queries", str(tmp_path / "all.csv"), "--contains", "flag/F"]
    subset.main([*arguments, "--out", str(tmp_path / "cut")])
    assert json.loads((tmp_path / "cut" / "kb_wiki.json").read_text()) == {
        WIKI + "France": json.loads(kb.read_text())[WIKI + "France"]
    }
    kept = rows(tmp_path / "cut" / "queries.csv")
    assert kept == [row for row in rows(tmp_path / "all.csv") if row["wikipedia_url"] == WIKI + "France"]
    with pytest.raises(ValueError, match="contains 'nothing'"):
        subset.write_kb(kb, "nothing", tmp_path)


def test_a_filter_keeps_json_lines(tmp_path: Path) -> None:
    lines = [
        {"id": "a", "title": "A", "sections": [{"title": "A", "text": "x\u2028y"}], "image": "flag/a.png"},
        {"id": "b", "title": "B", "sections": []},
    ]
    kb = tmp_path / "in.jsonl"
    kb.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    assert subset.write_kb(kb, "flag/", tmp_path) == {"a"}
    assert json.loads((tmp_path / "kb_wiki.jsonl").read_text(encoding="utf-8")) == lines[0]


def test_a_split_keeps_all_questions_of_an_image_on_one_side(tmp_path: Path) -> None:
    write_questions(tmp_path / "all.csv")
    subset.main(["--queries", str(tmp_path / "all.csv"), "--split", "0.5", "--out", str(tmp_path)])
    train, validation = rows(tmp_path / "train.csv"), rows(tmp_path / "validation.csv")
    sides = [{row["dataset_image_ids"] for row in part} for part in (train, validation)]
    assert len(train) + len(validation) == 21 and sides[0] and sides[1] and not sides[0] & sides[1]


def test_infoseek_files_are_split_like_evqa_files(tmp_path: Path) -> None:
    write_questions(tmp_path / "all.csv")
    questions = rows(tmp_path / "all.csv")
    plain = {"question": "What?", "answer": ["a"], "answer_eval": ["a"], "data_split": "val"}
    for suffix, extra in (("", plain), ("_withkb", {"entity_id": "x"})):
        lines = [{"data_id": str(i), "image_id": q["dataset_image_ids"]} | extra for i, q in enumerate(questions)]
        (tmp_path / f"seek{suffix}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name in ("all.csv", "seek.jsonl"):
        subset.main(["--queries", str(tmp_path / name), "--split", "0.5", "--out", str(tmp_path)])
    for part in ("train", "validation"):
        images = [question.image_id for question in load("infoseek", tmp_path / f"{part}.jsonl")]
        assert images == [row["dataset_image_ids"] for row in rows(tmp_path / f"{part}.csv")]


def test_zero_shot_tells_known_countries_from_others() -> None:
    def line(image_id: str, first: int | None, second: int | None, right: bool | None) -> QueryRecord:
        return record(image_id, image_id=image_id, ranks={"step1": first, "step2": second}, answer_correct=right)

    result = zero_shot.zero_shot(
        [
            line("dev_country_fr_0", 1, 1, True),
            line("test_country_fr_12", 3, 1, False),
            line("dev_country_aq_0", None, None, False),
            line("dev_product_Lime_1", 1, 1, True),
        ],
        known={"fr"},
    )
    known, unknown = result["rows"]
    assert (known["countries"], known["questions"], unknown["questions"], result["other_questions"]) == (1, 2, 1, 1)
    assert (known["step1_recall@1"], known["step1_recall@20"], known["step2_recall@1"]) == (0.5, 1.0, 1.0)
    assert (known["answer_accuracy"], unknown["step1_recall@20"], unknown["section_recall@1"]) == (0.5, 0.0, None)
    assert "| 50.0 | 100.0 | 100.0 | 100.0 | - | 50.0 |" in zero_shot.as_markdown(result["rows"])


def test_recomputed_tokens_rank_as_stored_ones_do(tmp_path: Path) -> None:
    kb, images = write_kb(tmp_path)
    encoder, fusion = FakeEncoder(), FakeFusion()
    arguments: dict[str, Any] = {"summarizer": FakeSummarizer(), "encoder": encoder}
    index = build_index(kb, images, tmp_path / "index", fusion=fusion, **arguments)
    steps: list[Step] = [
        EntitySearch(encoder, index),
        FusionRerank(fusion, index, 0.5),
        SectionRerank(BM25(), index, 0.5),
    ]
    queries = [Query(Image.new("RGB", (60, 40), color), "How large is it?") for color in ("blue", "yellow")]
    report = retrieval.recomputation(Retriever(steps, index), queries)
    assert (report["queries"], report["candidates"], report["sections"]) == (2, 7, 5)  # four entities have an image
    assert report["largest_score_difference"] < 1e-2 and min(report["ratio"].values()) > 0
    figures = retrieval.latency(Retriever(steps, index), queries, batch=2)
    assert figures["batches"] == 20 and set(figures["ms"]) == {"retrieve", "step1", "step2", "step3"}
