from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evaluation.datasets import Question, SkippedRow, find_query_image, load, read
from tests.fakes.question_files import DYNVQA, EVQA, INFOSEEK, NUMBER, PLAIN, TWO_HOPS, write_infoseek
from tests.fakes.rows import write_csv, write_jsonl
from tests.paths import SHARED

ATLAS = SHARED / "atlas"


def refused(dataset: str, path: Path) -> str:
    with pytest.raises(ValueError, match=str(path.parent.name)) as caught:
        load(dataset, path)
    assert str(path.parent) in str(caught.value)
    return str(caught.value)


def test_a_row_of_evqa_becomes_a_question(tmp_path: Path) -> None:
    assert load("evqa", write_csv(tmp_path / "val.csv", EVQA)) == [
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
            other_image_ids=("456",),
        )
    ]


def test_evqa_columns_are_found_by_name_and_ids_count_what_is_kept(tmp_path: Path) -> None:
    multi = EVQA | {"question_type": "multi_answer", "answer": "a&&b|a&&c"}
    flipped = [dict(reversed(row.items())) for row in (TWO_HOPS, multi, EVQA)]
    path = write_csv(tmp_path / "val.csv", *flipped)
    assert [(q.id, q.question_type, q.answers) for q in load("evqa", path)] == [
        ("E-VQA_0", "multi_answer", ("a&&b", "a&&c")),
        ("E-VQA_1", "templated", ("1 m", "1 metre")),
    ]
    first, *rest = load("evqa-all", path)
    assert (first.id, first.entity_ids, first.section_index) == ("E-VQA_0", ("u", "v"), None)
    assert [question.id for question in rest] == ["E-VQA_1", "E-VQA_2"]
    assert next(read("evqa", path)) == SkippedRow(f"{path}: line 2", "two-hop question")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("tabs.tsv", lambda text: text.replace(",", "\t")),
        ("semicolons.csv", lambda text: text.replace(",", ";")),
        ("windows.csv", lambda text: "\ufeff" + text.replace("\n", "\r\n")),
        ("titles.csv", lambda text: text.partition("\n")[0].replace("_", " ").title() + "\n" + text.partition("\n")[2]),
        ("pandas.csv", lambda text: text.replace("123|456", "123.0|456.0").replace("1 m|1 metre", "['1 m' '1 metre']")),
        ("lists.csv", lambda text: text.replace("1 m|1 metre", '"[\'1 m\', ""1 metre""]"')),
        ("capital.csv", lambda text: text.replace("templated", "Templated")),
    ],
)
def test_evqa_as_it_is_copied(tmp_path: Path, name: str, change: Callable[[str], str]) -> None:
    expected = load("evqa", write_csv(tmp_path / "val.csv", EVQA))
    copy = tmp_path / name
    copy.write_text(change((tmp_path / "val.csv").read_text().replace("\r\n", "\n")), newline="", encoding="utf-8")
    assert load("evqa", copy) == expected


def test_evqa_as_json(tmp_path: Path) -> None:
    expected = load("evqa", write_csv(tmp_path / "val.csv", EVQA))
    lists = {"dataset_image_ids": [123, 456], "answer": ["1 m", "1 metre"], "evidence_section_id": 2}
    write_jsonl(tmp_path / "val.jsonl", EVQA | lists)
    (tmp_path / "val.json").write_text(json.dumps([EVQA | lists]))
    assert load("evqa", tmp_path / "val.jsonl") == load("evqa", tmp_path / "val.json") == expected
    write_jsonl(tmp_path / "val.jsonl", {"question": "Why?"})
    assert "line 1: field question_type is missing; the row has question" in refused("evqa", tmp_path / "val.jsonl")


def test_infoseek_in_one_file(tmp_path: Path) -> None:
    [expected] = load("infoseek", write_infoseek(tmp_path, [INFOSEEK]))
    whole = INFOSEEK | {"entity_id": expected.entity_ids[0]}
    (tmp_path / "whole.json").write_text(json.dumps([whole]))
    assert load("infoseek", tmp_path / "whole.json") == [expected]
    numbers = whole | {"image_id": 7, "data_id": 8}
    [found] = load("infoseek", write_jsonl(tmp_path / "whole.jsonl", numbers))
    assert (found.id, found.image_id, found.entity_ids) == ("8", "7", expected.entity_ids)


def test_evqa_long_fields_and_a_missing_section(tmp_path: Path) -> None:
    row = EVQA | {"evidence": "line\n" * 100_000, "evidence_section_id": ""}
    path = write_csv(
        tmp_path / "val.csv", row, EVQA | {"evidence_section_id": "3.0"}
    )  # as pandas writes 3 beside a gap
    assert [question.section_index for question in load("evqa", path)] == [None, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": " "}, "line 3: field question "),
        ({"answer": "|"}, "line 3: field answer "),
        ({"dataset_image_ids": ""}, "line 3: field dataset_image_ids "),
        ({"wikipedia_url": ""}, "line 3: field wikipedia_url "),
        ({"question_type": "riddle"}, "line 3: field question_type: 'riddle'"),
        ({"evidence_section_id": "two"}, "line 3: field evidence_section_id must be an integer, at least 0, got 'two'"),
        ({"evidence_section_id": "-1"}, "line 3: field evidence_section_id must be an integer, at least 0, got '-1'"),
    ],
)
def test_evqa_bad_rows_are_named(tmp_path: Path, change: dict[str, str], message: str) -> None:
    assert message in refused("evqa", write_csv(tmp_path / "val.csv", EVQA, EVQA | change))


def test_a_bad_row_does_not_hide_the_next(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "val.csv", EVQA | {"evidence": "two\nlines"}, EVQA | {"question": ""}, EVQA)
    first, second, third = read("evqa", path)
    assert isinstance(first, Question)
    assert isinstance(third, Question)
    assert third.id == "E-VQA_1"
    assert "line 4: field question " in str(second)  # the first row spans two lines


def test_csv_that_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "val.csv"
    path.write_text("question,answer\na,b\n")
    assert "line 1: no column dataset_image_ids, question_type, wikipedia_url" in refused("evqa", path)
    path.write_text("")
    assert f"{path}: has no header; its first line must name the columns" in refused("evqa", path)
    whole = write_csv(path, EVQA, EVQA | {"evidence": "a, b"}).read_bytes()
    path.write_bytes(whole[: whole.rindex(b"a, b") + 2])
    assert "line 3: not CSV (unexpected end of data); is the file truncated?" in refused("evqa", path)
    path.write_bytes(whole + b"cut off,here\n")
    assert "line 4: 2 fields, but the header has 14; is the line truncated?" in refused("evqa", path)
    path.write_bytes(whole.replace(b"evidence_section_title", b"answer", 1))
    assert "line 1: two columns are named answer" in refused("evqa", path)
    path.write_bytes(whole + whole)
    assert "line 4: field question_type: 'question_type' is not one of" in refused("evqa", path)
    assert "absent.csv: cannot be read (No such file" in refused("evqa", tmp_path / "absent.csv")


def test_encodings(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "val.csv", EVQA | {"answer": "café"})
    text = path.read_text()
    path.write_text(text, encoding="utf-8-sig")
    assert load("evqa", path)[0].answers == ("café",)
    path.write_text(text, encoding="latin-1")
    assert "line 2: not UTF-8 (0xe9: invalid continuation byte), but probably WINDOWS-1252" in refused("evqa", path)
    path.write_text(text, encoding="utf-16")
    assert load("evqa", path)[0].answers == ("café",)
    lines = write_jsonl(tmp_path / "dyn.jsonl", DYNVQA, DYNVQA | {"question_id": "en2", "answer": ["café"]})
    content = lines.read_text()
    lines.write_text(content, encoding="utf-8-sig")
    assert len(load("dynvqa", lines)) == 2
    lines.write_bytes(content.encode().replace("é".encode(), b"\xe9"))
    assert "line 2: not UTF-8" in refused("dynvqa", lines)
    lines.write_text('{"question_id": "a", "question": "\\ud83d", "image_url": "i", "answer": ["b"]}')
    assert "line 1: field question is not valid Unicode (surrogates not allowed)" in refused("dynvqa", lines)


def test_the_reference_of_infoseek_is_its_answer_and_no_alias(tmp_path: Path) -> None:
    questions = load("infoseek", write_infoseek(tmp_path, [INFOSEEK | {"answer": ["People's Republic of China"]}]))
    assert questions[0].answers == ("cn", "China")
    assert questions[0].reference == "People's Republic of China"


@pytest.mark.parametrize("types", [["String", "Numerical"], None])
@pytest.mark.parametrize("name", ["infoseek_val", "infoseek_dev"])
def test_infoseek_rows(tmp_path: Path, types: list[str] | None, name: str) -> None:
    assert load("infoseek", write_infoseek(tmp_path, [INFOSEEK, NUMBER], types, name)) == [
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
    ("row", "question_type", "message"),
    [
        (INFOSEEK | {"question": ""}, "string", "line 1: field question "),
        (INFOSEEK | {"image_id": None}, "string", "line 1: field image_id "),
        (INFOSEEK | {"answer_eval": []}, "string", "line 1: field answer_eval "),
        (INFOSEEK | {"answer_eval": ["x", None]}, "time", "line 1: field answer_eval "),
        (INFOSEEK | {"answer": [""]}, "string", "line 1: field answer "),
        (INFOSEEK | {"data_split": None}, "string", "line 1: field data_split "),
        (INFOSEEK, "numerical", "line 1: field answer_eval "),
        (NUMBER | {"answer_eval": {"range": [2, 1]}}, "numerical", "line 1: field answer_eval "),
        (NUMBER | {"answer_eval": [{"range": [1]}]}, "numerical", "line 1: field answer_eval "),
        (INFOSEEK, "riddle", "line 1: question_type 'riddle'"),
    ],
)
def test_infoseek_bad_rows_are_named(tmp_path: Path, row: dict[str, Any], question_type: str, message: str) -> None:
    path = write_infoseek(tmp_path, [row], [question_type])
    assert message in refused("infoseek", path)


def test_infoseek_files_beside_it(tmp_path: Path) -> None:
    path = write_infoseek(tmp_path, [INFOSEEK, NUMBER])
    there = tmp_path / "infoseek_val_withkb.jsonl"
    lines = there.read_text().splitlines(keepends=True)
    there.write_text("".join(reversed(lines)))  # its order may differ
    assert [question.entity_ids for question in load("infoseek", path)] == [("Q0",), ("Q1",)]
    there.write_text(lines[0])
    assert "line 2: field data_id: 'infoseek_val_1' has no line in infoseek_val_withkb" in refused("infoseek", path)
    there.write_text(lines[0] * 2)
    assert "withkb.jsonl: line 2: field data_id: 'infoseek_val_0' is also in an earlier" in refused("infoseek", path)
    there.write_text(lines[0] + lines[1][:20])
    assert "withkb.jsonl: line 2: not JSON" in refused("infoseek", path)
    there.unlink()
    assert "infoseek_val_withkb.jsonl: cannot be read" in refused("infoseek", path)


def test_json_lines_that_are_not(tmp_path: Path) -> None:
    path = write_infoseek(tmp_path, [INFOSEEK])
    line = path.read_text()
    for text, message in [
        (line[:40], "line 1: not JSON"),
        ("1", "line 1: not a JSON object"),
        ("[1]", "item 1: not a JSON object"),
        ('{"a": 1}', "line 1: field data_id "),
        ('{"a": 1, "a": 2}', "line 1: the key 'a' occurs twice"),
        (2 * line, "line 2: field data_id: 'infoseek_val_0' is also in an earlier row"),
    ]:
        path.write_text(text)
        assert message in refused("infoseek", path)


def test_infoseek_packed(tmp_path: Path) -> None:
    for path in [write_infoseek(tmp_path, [INFOSEEK]), tmp_path / "infoseek_val_withkb.jsonl"]:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert load("infoseek", tmp_path / "infoseek_val.jsonl.gz")[0].entity_ids == ("Q0",)


def test_infoseek_csv_form(tmp_path: Path) -> None:
    row = EVQA | {
        "data_id": "infoseek_val_1",
        "dataset_image_ids": "oven_01963180",
        "dataset_name": "infoseek",
        "question_type": "infoseek",
        "answer": "1",
        "evidence_section_id": "",
    }
    path = write_csv(tmp_path / "test_filtered.csv", row)
    plain = load("infoseek", path)[0]
    assert (plain.id, plain.image_id, plain.question_type) == ("infoseek_val_1", "oven_01963180", "string")
    assert (plain.answers, plain.entity_ids) == (("1",), ("https://en.wikipedia.org/wiki/X",))
    write_infoseek(tmp_path, [INFOSEEK, NUMBER], ["string", "numerical"], "test_filtered")
    (tmp_path / "test_filtered_withkb.jsonl").unlink()  # entities come from the CSV file
    official = load("infoseek", path)[0]
    assert official.numeric_range == (0.9, 1.1)
    assert (official.data_split, official.entity_ids) == ("val_unseen_question", plain.entity_ids)
    rewritten = row | {"question": "Where is it?", "dataset_image_ids": "mine|other", "wikipedia_url": "https://kb/Y"}
    [asked] = load("infoseek", write_csv(path, rewritten))  # what it asks is its own, what is right is not
    assert (asked.question, asked.image_id, asked.other_image_ids) == ("Where is it?", "mine", ("other",))
    assert (asked.entity_ids, asked.answers) == (("https://kb/Y",), official.answers)
    assert (asked.numeric_range, asked.data_split) == (official.numeric_range, official.data_split)
    unknown = write_csv(path, row, row | {"data_id": "infoseek_val_9"})
    assert "line 3: field data_id: 'infoseek_val_9' has no line in test_filtered.jsonl" in refused("infoseek", unknown)
    assert "line 3: field data_id: 'infoseek_val_1' is also in an" in refused("infoseek", write_csv(path, row, row))


def test_dynvqa_versions(tmp_path: Path) -> None:
    old = {("gloden_query" if key == "golden_query" else key): value for key, value in DYNVQA.items()}
    answers: list[Any] = [["a", 7], [["a", "b"]], [1.5], None, [""], "a"]
    rows = [old | {"question_id": f"en{n}", "answer": answer} for n, answer in enumerate(answers)]
    path = write_jsonl(tmp_path / "DynVQA_en.202408.jsonl", *rows)
    path.write_text(path.read_text().replace('"Who leads the Reds?"', "NaN", 1))  # as published
    kept = load("dynvqa", path)
    assert [question.answers for question in kept] == [("a", "7"), ("a", "b"), ("1.5",), ("a",)]
    assert [question.id for question in kept] == ["en0", "en1", "en2", "en5"]
    assert {(question.entity_ids, question.style) for question in kept} == {((), "dynvqa")}
    assert kept[0].image_id == DYNVQA["image_url"]
    reasons = [(item.where, item.reason) for item in read("dynvqa", path) if isinstance(item, SkippedRow)]
    assert reasons == [(f"{path}: line {n}", "no answer in this version") for n in (4, 5)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question_id": None}, "line 1: field question_id "),
        ({"image_url": ""}, "line 1: field image_url "),
        ({"question": 3}, "line 1: field question "),
        ({"answer": [["a", ""]]}, "line 1: field answer "),
        ({"answer": {"a": "b"}}, "line 1: field answer "),
        ({"answer": [True]}, "line 1: field answer "),
    ],
)
def test_dynvqa_bad_rows_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    assert message in refused("dynvqa", write_jsonl(tmp_path / "d.jsonl", DYNVQA | change))


def test_plain_rows(tmp_path: Path) -> None:
    short = {"id": 2, "image": "b", "question": "Q?", "answers": ["x"], "note": "left alone"}
    several = PLAIN | {"id": "c", "entity": ["tea", "chai"], "section": 0, "type": "t", "split": "s", "category": "k"}
    first, second, third = load("plain", write_jsonl(tmp_path / "q.jsonl", PLAIN, short, several))
    assert first == Question(
        id="a",
        question="Where is it grown?",
        image_id="shelf/tea.jpg",
        answers=("Assam", "India"),
        entity_ids=("tea",),
        section_index=3,
        style="plain",
    )
    assert (second.id, second.entity_ids, second.section_index) == ("2", (), None)
    assert (third.entity_ids, third.section_index) == (("tea", "chai"), 0)
    assert (third.question_type, third.data_split, third.category) == ("t", "s", "k")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": ""}, "line 1: field id "),
        ({"answers": []}, "line 1: field answers "),
        ({"image": None}, "line 1: field image "),
        ({"entity": ["tea", ""]}, "line 1: field entity "),
        ({"section": -1}, "line 1: field section "),
        ({"section": "3"}, "line 1: field section "),
        ({"entity": None}, "line 1: field section requires the field entity"),
        ({"split": 1}, "line 1: field split "),
    ],
)
def test_plain_bad_rows_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    assert message in refused("plain", write_jsonl(tmp_path / "q.jsonl", PLAIN | change))


def test_load_knows_its_data_sets(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="unknown data set 'vqav2'; must be one of evqa, evqa-all, infoseek, okvqa, dynvqa, plain"
    ):
        load("vqav2", tmp_path / "val.csv")


def test_a_zip_with_one_file(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", PLAIN)
    with zipfile.ZipFile(tmp_path / "q.zip", "w") as archive:
        archive.write(path, path.name)
    assert load("plain", tmp_path / "q.zip") == load("plain", path)


@pytest.mark.skipif(not ATLAS.is_dir(), reason="the Atlas set is not available")
def test_atlas_is_read_whole() -> None:
    evqa, seek = load("evqa", ATLAS / "dev.csv"), load("infoseek", ATLAS / "infoseek_dev.jsonl")
    assert len(evqa) == len(seek) == 4040
    assert [q.entity_ids for q in evqa] == [q.entity_ids for q in seek]
    assert sum(q.numeric_range is not None for q in seek) == 1247
    assert all(find_query_image(ATLAS / "queries", q.image_id) for q in evqa)
