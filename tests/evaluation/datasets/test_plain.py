from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation.datasets import load


def test_rows_as_others_write_them(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    rows = [
        {"question_id": "q7", "img_path": "a/tea.jpg", "question": "What?", "direct_answers": ["tea", "cha"]},
        {"Image": "b.jpg", "query": "Who?", "answers": [{"answer": "Ann", "answer_id": 1}], "wikidata_id": "Q44"},
        {"imageId": 12, "question": "When?", "answer": 1650},
    ]
    path.write_text(json.dumps(rows))
    found = [(one.id, one.image_id, one.question, one.answers, one.entity_ids) for one in load("plain", path)]
    assert found == [
        ("q7", "a/tea.jpg", "What?", ("tea", "cha"), ()),
        ("2", "b.jpg", "Who?", ("Ann",), ("Q44",)),
        ("3", "12", "When?", ("1650",), ()),
    ]
    path.write_text('[{"image": "a", "question": "Q?", "answer": "x"}, 7]')
    with pytest.raises(ValueError, match=r"q\.json: item 2: not a JSON object"):
        load("plain", path)


def test_rows_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    lines = ("image,question,answer,entity,section", 'a.jpg,"What, then?",Assam|India,tea,3', "b.jpg,Who?,Ann,,")
    path.write_text("\n".join(lines))
    first, second = load("plain", path)
    assert (first.answers, first.entity_ids, first.section_index) == (("Assam", "India"), ("tea",), 3)
    assert (second.id, second.image_id, second.entity_ids, second.section_index) == ("2", "b.jpg", (), None)


def test_a_missing_field_is_named_beside_those_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"img_id": "a", "sent": "Who?", "answer": "x"}\n')
    with pytest.raises(ValueError, match=r"line 1: field question is missing; the row has id, img_id, sent, answer"):
        load("plain", path)
