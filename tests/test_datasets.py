from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.datasets import Question, find_query_image, load, load_evqa, load_infoseek

ROW = {
    "question": "How tall does this plant grow?",
    "answer": "1 m|1 metre",
    "dataset_image_ids": "123|456",
    "dataset_name": "inaturalist",
    "question_type": "templated",
    "wikipedia_url": "https://en.wikipedia.org/wiki/X",
    "evidence_section_id": "2",
    "encyclopedic_vqa_split": "val",
}
ATLAS = Path(__file__).parents[1].parent / "shared" / "atlas"


def write_csv(path: Path, *rows: dict[str, str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_jsonl(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_evqa_row(tmp_path: Path) -> None:
    assert load_evqa(write_csv(tmp_path / "val.csv", ROW)) == [
        Question(
            id="E-VQA_0",
            question="How tall does this plant grow?",
            image_id="123",
            answers=("1 m", "1 metre"),
            entity_ids=("https://en.wikipedia.org/wiki/X",),
            section_index=2,
            question_type="templated",
            data_split="val",
            category="inaturalist",
        )
    ]


def test_evqa_columns_are_found_by_name_and_ids_count_what_is_kept(tmp_path: Path) -> None:
    two_hop = ROW | {"question_type": "2_hop", "wikipedia_url": "u|v", "evidence_section_id": "1|3"}
    multi = ROW | {"question_type": "multi_answer", "answer": "a&&b|a&&c"}
    flipped = [dict(reversed(row.items())) for row in (two_hop, multi, ROW)]
    path = write_csv(tmp_path / "val.csv", *flipped)
    kept = load_evqa(path)
    assert [(q.id, q.question_type, q.answers) for q in kept] == [
        ("E-VQA_0", "multi_answer", ("a&&b", "a&&c")),
        ("E-VQA_1", "templated", ("1 m", "1 metre")),
    ]
    first = load_evqa(path, two_hop=True)[0]
    assert (first.entity_ids, first.section_index) == (("u", "v"), None)


def test_evqa_long_fields_and_a_missing_section(tmp_path: Path) -> None:
    row = ROW | {"evidence": "line\n" * 100_000, "evidence_section_id": ""}
    assert load_evqa(write_csv(tmp_path / "val.csv", row))[0].section_index is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": " "}, "line 3: field question:"),
        ({"answer": "|"}, "line 3: field answer:"),
        ({"dataset_image_ids": ""}, "line 3: field dataset_image_ids:"),
        ({"wikipedia_url": ""}, "line 3: field wikipedia_url:"),
        ({"question_type": "riddle"}, "line 3: field question_type: 'riddle'"),
        ({"evidence_section_id": "two"}, "line 3: field evidence_section_id: 'two'"),
        ({"evidence_section_id": "-1"}, "line 3: field evidence_section_id: '-1'"),
    ],
)
def test_evqa_bad_rows_are_named(tmp_path: Path, change: dict[str, str], message: str) -> None:
    path = write_csv(tmp_path / "val.csv", ROW, ROW | change)
    with pytest.raises(ValueError, match=r"val\.csv: line") as caught:
        load_evqa(path)
    assert message in str(caught.value)


def test_evqa_other_files(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("question,answer\na,b\n")
    with pytest.raises(ValueError, match="no column dataset_image_ids, question_type, wikipedia_url"):
        load_evqa(other)
    path = write_csv(tmp_path / "short.csv", ROW)
    path.write_text(path.read_text() + "cut off,here\n")
    with pytest.raises(ValueError, match="line 3: not as many fields"):
        load_evqa(path)
    with pytest.raises(ValueError, match=r"absent\.csv: cannot be read"):
        load_evqa(tmp_path / "absent.csv")


STRING = {
    "data_id": "infoseek_val_0",
    "image_id": "oven_01963180",
    "question": "Where is it endemic to?",
    "answer": ["China"],
    "answer_eval": ["cn", "China"],
    "data_split": "val_unseen_entity",
}
NUMBER = STRING | {
    "data_id": "infoseek_val_1",
    "answer": ["1"],
    "answer_eval": [{"wikidata": 1.0, "range": [0.9, 1.1]}],
    "data_split": "val_unseen_question",
}


def infoseek(
    folder: Path, rows: list[dict[str, Any]], types: list[str] | None = None, name: str = "infoseek_val"
) -> Path:
    ids = [row.get("data_id", "?") for row in rows]
    write_jsonl(folder / f"{name}_withkb.jsonl", *({"data_id": i, "entity_id": f"Q{n}"} for n, i in enumerate(ids)))
    if types is not None:
        lines = ({"data_id": i, "question_type": t} for i, t in zip(ids, types, strict=True))
        write_jsonl(folder / f"{name}_qtype.jsonl", *lines)
    return write_jsonl(folder / f"{name}.jsonl", *rows)


@pytest.mark.parametrize("types", [["String", "Numerical"], None])
@pytest.mark.parametrize("name", ["infoseek_val", "infoseek_dev"])
def test_infoseek_rows(tmp_path: Path, types: list[str] | None, name: str) -> None:
    assert load_infoseek(infoseek(tmp_path, [STRING, NUMBER], types, name)) == [
        Question(
            id="infoseek_val_0",
            question="Where is it endemic to?",
            image_id="oven_01963180",
            answers=("cn", "China"),
            entity_ids=("Q0",),
            question_type="string",
            data_split="val_unseen_entity",
            style="infoseek",
        ),
        Question(
            id="infoseek_val_1",
            question="Where is it endemic to?",
            image_id="oven_01963180",
            answers=("1",),
            entity_ids=("Q1",),
            question_type="numerical",
            data_split="val_unseen_question",
            numeric_range=(0.9, 1.1),
            style="infoseek",
        ),
    ]


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        (STRING | {"question": ""}, "string", "line 1: field question:"),
        (STRING | {"image_id": 7}, "string", "line 1: field image_id:"),
        (STRING | {"answer_eval": []}, "string", "line 1: field answer_eval:"),
        (STRING | {"answer_eval": ["x", None]}, "time", "line 1: field answer_eval:"),
        (STRING | {"answer": [""]}, "string", "line 1: field answer:"),
        (STRING | {"data_split": None}, "string", "line 1: field data_split:"),
        (STRING, "numerical", "line 1: field answer_eval:"),
        (NUMBER | {"answer_eval": {"range": [2, 1]}}, "numerical", "line 1: field answer_eval:"),
        (NUMBER | {"answer_eval": [{"range": [1]}]}, "numerical", "line 1: field answer_eval:"),
        (STRING, "riddle", "line 1: question_type 'riddle'"),
    ],
)
def test_infoseek_bad_rows_are_named(tmp_path: Path, row: dict[str, Any], kind: str, message: str) -> None:
    path = infoseek(tmp_path, [row], [kind])
    with pytest.raises(ValueError, match=r"infoseek_val\.jsonl: line 1") as caught:
        load_infoseek(path)
    assert message in str(caught.value)


def test_infoseek_companions(tmp_path: Path) -> None:
    path = infoseek(tmp_path, [STRING, NUMBER])
    write_jsonl(tmp_path / "infoseek_val_withkb.jsonl", {"data_id": "infoseek_val_0", "entity_id": "Q0"})
    with pytest.raises(ValueError, match="line 2: field data_id: 'infoseek_val_1' has no line in infoseek_val_withkb"):
        load_infoseek(path)
    (tmp_path / "infoseek_val_withkb.jsonl").unlink()
    with pytest.raises(ValueError, match=r"infoseek_val_withkb\.jsonl: cannot be read"):
        load_infoseek(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "line 1: not JSON"), ("[]", "line 1: not a JSON object"), ('{"a": 1}', "line 1: field data_id:")],
)
def test_infoseek_not_json_lines(tmp_path: Path, text: str, message: str) -> None:
    path = infoseek(tmp_path, [STRING])
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_infoseek(path)
    infoseek(tmp_path, [STRING])
    path.write_text(2 * (json.dumps(STRING) + "\n"))
    with pytest.raises(ValueError, match="line 2: field data_id: 'infoseek_val_0' stands in an earlier line"):
        load_infoseek(path)


def test_load_knows_its_data_sets(tmp_path: Path) -> None:
    assert load("evqa", write_csv(tmp_path / "val.csv", ROW))[0].style == "evqa"
    with pytest.raises(ValueError, match="unknown data set 'vqav2'; known are evqa, infoseek"):
        load("vqav2", tmp_path / "val.csv")


def test_query_images_in_every_layout(tmp_path: Path) -> None:
    files = ["a1.jpg", "a2.JPG", "a3.jpeg", "a4.JPEG", "a5.png", "a6.webp", "a7.txt", "both.png", "both.jpg"]
    files += ["0/1/a/01abc.jpg", "oven_images/01/oven_01963180.JPEG", "04/oven_04000000.jpg"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    ids = ["a1", "a2", "a3", "a4", "a5", "a6", "both", "01abc", "oven_01963180", "oven_04000000"]
    found = [find_query_image(tmp_path, one) for one in ids]
    expected = [*files[:6], "both.jpg", *files[9:]]
    assert found == [tmp_path / name for name in expected]
    for absent in ["a7", "a8", "", "../a1", "0/1/a/01abc", "a1.jpg"]:
        assert find_query_image(tmp_path, absent) is None
    assert find_query_image(tmp_path / "absent", "a1") is None


@pytest.mark.skipif(not ATLAS.is_dir(), reason="the Atlas set is not beside the project")
def test_atlas_is_read_whole() -> None:
    evqa, seek = load("evqa", ATLAS / "dev.csv"), load("infoseek", ATLAS / "infoseek_dev.jsonl")
    assert len(evqa) == len(seek) == 4040
    assert [q.entity_ids for q in evqa] == [q.entity_ids for q in seek]
    assert sum(q.numeric_range is not None for q in seek) == 1247
    assert all(find_query_image(ATLAS / "queries", q.image_id) for q in evqa)
