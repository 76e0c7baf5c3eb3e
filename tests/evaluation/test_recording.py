from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.datasets import load
from evaluation.recording import make_record
from retriever.types import Candidate, RetrievalResult
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index
from tests.fakes.rows import write_jsonl

ARTICLE = "https://en.wikipedia.org/wiki/Catchin'_Some_Rays:_The_Music"


@pytest.mark.parametrize("dataset", ["evqa", "infoseek"])
@pytest.mark.parametrize(
    "spelled",
    [
        ARTICLE,
        "https://en.wikipedia.org/wiki/Catchin%27_Some_Rays%3A_The_Music",
        "http://en.wikipedia.org/wiki/Catchin'_Some_Rays%3a_The_Music",
    ],
)
def test_questions_find_their_entity_in_any_spelling(tmp_path: Path, dataset: str, spelled: str) -> None:
    rows = [{"id": id, "title": "T", "text": "Text."} for id in ("other", ARTICLE)]
    write_jsonl(tmp_path / "kb.jsonl", *rows)
    models: dict[str, Any] = {"summarizer": FakeSummarizer(), "encoder": FakeEncoder(), "fusion": FakeFusion()}
    index = build_index(tmp_path / "kb.jsonl", tmp_path, tmp_path / "index", **models)
    assert (index.row_of(spelled), index.row_of("https://en.wikipedia.org/wiki/Other")) == (1, None)
    header = "data_id,question,answer,dataset_image_ids,dataset_name,question_type,wikipedia_url,evidence_section_id\n"
    kind = "infoseek" if dataset == "infoseek" else "templated"
    (tmp_path / "q.csv").write_text(f"{header}d1,Who?,Ray,1,{kind},{kind},{spelled},0\n")
    (tmp_path / "q.jsonl").write_text(
        json.dumps({"data_id": "d1", "image_id": "1", "question": "Who?", "answer": ["Ray"], "answer_eval": ["Ray"],
                    "data_split": "val"}) + "\n"
    )  # fmt: skip
    (question,) = load(dataset, tmp_path / "q.csv")
    result = RetrievalResult(question.id, [Candidate(1, 0.5)], {}, {"step1": [(0, 0.9), (1, 0.5)]})
    record = make_record(question, index, result, None, with_generator=False, failed=None, timings_ms={})
    assert record.ranks == {"step1": 2} and not record.gold.missing and record.gold.entities == [ARTICLE]
