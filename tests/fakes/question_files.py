"""Miniature question files in the real formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fakes.rows import write_jsonl

EVQA = {
    "question": "How tall does this plant grow?",
    "answer": "1 m|1 metre",
    "dataset_image_ids": "123|456",
    "dataset_name": "inaturalist",
    "dataset_category_id": "7",
    "question_type": "templated",
    "wikipedia_url": "https://en.wikipedia.org/wiki/X",
    "wikipedia_title": "X",
    "evidence": "It grows to 1 m.",
    "evidence_section_id": "2",
    "evidence_section_title": "Growth",
    "encyclopedic_vqa_split": "val",
    "question_original": "How tall does X grow?",
    "wikipedia_url_used_in_train": "True",
}
TWO_HOPS = EVQA | {"question_type": "2_hop", "wikipedia_url": "u|v", "evidence_section_id": "1|3"}

INFOSEEK: dict[str, Any] = {
    "data_id": "infoseek_val_0",
    "image_id": "oven_01963180",
    "question": "Where is it endemic to?",
    "answer": ["China"],
    "answer_eval": ["cn", "China"],
    "data_split": "val_unseen_entity",
}
NUMBER = INFOSEEK | {
    "data_id": "infoseek_val_1",
    "answer": ["1"],
    "answer_eval": [{"wikidata": 1.0, "range": [0.9, 1.1]}],
    "data_split": "val_unseen_question",
}

DYNVQA = {
    "image_url": "https://host.example/data/Timeqa/images/image_1.jpeg",
    "question": "Who leads this team?",
    "question_id": "en1",
    "answer": ["Ann Lee", "李安"],
    "golden_query": "Who leads the Reds?",
}

PLAIN = {
    "id": "a",
    "image": "shelf/tea.jpg",
    "question": "Where is it grown?",
    "answers": ["Assam", "India"],
    "entity": "tea",
    "section": 3,
}


def evqa_row(question: str, answer: str, name: str, **more: object) -> dict[str, object]:
    """Returns a row of E-VQA's file about the entity and the image of a name, with only the columns that are read."""
    return {
        "question": question,
        "answer": answer,
        "dataset_image_ids": name,
        "question_type": "templated",
        "wikipedia_url": f"https://e.example/wiki/{name}",
        **more,
    }


def write_infoseek(
    folder: Path, rows: list[dict[str, Any]], types: list[str] | None = None, name: str = "infoseek_val"
) -> Path:
    ids = [row.get("data_id", "?") for row in rows]
    linked = ({"data_id": one, "entity_id": f"Q{n}", "entity_text": "a name"} for n, one in enumerate(ids))
    write_jsonl(folder / f"{name}_withkb.jsonl", *linked)
    if types is not None:
        lines = ({"data_id": one, "question_type": kind} for one, kind in zip(ids, types, strict=True))
        write_jsonl(folder / f"{name}_qtype.jsonl", *lines)
    return write_jsonl(folder / f"{name}.jsonl", *rows)


def okvqa(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a question file and its annotations; `changes` apply to the only annotation."""
    common = {"info": {"version": "1.0"}, "license": {}, "data_type": "mscoco", "data_subtype": "val2014"}
    answers = [
        {"answer_id": n, "raw_answer": word, "answer_confidence": "yes", "answer": word}
        for n, word in enumerate(["race"] * 6 + ["motocross"] * 4, start=1)
    ]
    annotation = {"image_id": 297147, "question_id": 2971475, "answer_type": "other", "question_type": "one"}
    question = {"image_id": 297147, "question": "What sport is this?", "question_id": 2971475}
    return (
        common | {"task_type": "Open-Ended", "questions": [question]},
        common
        | {
            "annotations": [annotation | {"answers": answers, "confidence": 3} | changes],
            "question_types": {"one": "Vehicles and Transportation"},
        },
    )


def write_okvqa(folder: Path, asked: dict[str, Any], answered: dict[str, Any]) -> Path:
    (folder / "mscoco_val2014_annotations.json").write_text(json.dumps(answered))
    path = folder / "OpenEnded_mscoco_val2014_questions.json"
    path.write_text(json.dumps(asked))
    return path
