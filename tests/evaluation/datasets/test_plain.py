from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.datasets import Question, load, read
from evaluation.datasets.plain import read_plain
from evaluation.judge import judge
from tests.fakes.question_files import DYNVQA, EVQA, INFOSEEK, PLAIN
from tests.fakes.rows import write_csv, write_jsonl


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


@pytest.mark.parametrize("above", ["sep=;\n", "Questions of May\n\n", "\n"])
def test_what_is_above_the_header_of_a_table_is_no_row(tmp_path: Path, above: str) -> None:
    path = tmp_path / "q.csv"
    path.write_text(above + "image;question;answer\n" + 5 * "a.jpg;Who?;Ann\n" + "b.jpg;Who?;Bo;more\n")
    first, *_, error = read("plain", path)
    assert isinstance(first, Question) and (first.image_id, first.answers) == ("a.jpg", ("Ann",))
    assert f"line {above.count(chr(10)) + 7}: 4 fields, but the header has 3" in str(error)


def test_cells_of_a_table_have_the_types_that_pandas_and_excel_write_as_text(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    cells = ["1885.0", "-2.0|3", "True", "FALSE", "true", "1.50", "007", "NA"]
    path.write_text("image,question,answer\n" + "\n".join(f"a.jpg,What?,{cell}" for cell in cells))
    assert [question.answers for question in load("plain", path)] == [
        *(("1885", "1885.0"), ("-2", "-2.0", "3"), ("yes", "true"), ("no", "false"), ("true",)),
        *(("1.50",), ("007",), ("NA",)),
    ]


def test_a_missing_field_is_named_beside_those_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"img_id": "a", "sent": "Who?", "answer": "x"}\n')
    with pytest.raises(ValueError, match=r"line 1: field question is missing; the row has id, img_id, sent, answer"):
        load("plain", path)


def test_rows_of_viquae_name_their_answers_in_an_object(tmp_path: Path) -> None:
    row = {
        "image": "512px-Jackie_Wilson.png",
        "input": "this singer advertised what brand?",
        "id": "3f2a",
        "kilt_id": "qw_1",
        "meta": {"mention": None},
        "output": {
            "answer": ["Levi Strauss", "Levi's"],
            "original_answer": "Levi's",
            "provenance": [{"title": ["Reet Petite"], "wikipedia_id": ["12"]}],
        },
        "wikidata_id": "Q312290",
    }
    kilt = row | {"id": "4", "output": [{"answer": "1957", "provenance": []}, {"provenance": [{"title": "A"}]}]}
    path = tmp_path / "test.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps(kilt) + "\n")
    first, second = load("plain", path)
    assert (first.id, first.image_id, first.entity_ids) == ("3f2a", "512px-Jackie_Wilson.png", ("Q312290",))
    assert first.answers == ("Levi's", "Levi Strauss") and second.answers == ("1957",)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"value": "Ann", "aliases": ["Anna", "Ann"]}, ("Ann", "Anna")),  # TriviaQA
        ({"text": ["Ann", "Anna"], "answer_start": [3, 9]}, ("Ann", "Anna")),  # SQuAD
        ([{"answer": "yes"}, {"answer": "no"}, {"answer": "yes"}], ("yes", "no", "yes")),  # VQA: one per annotator
    ],
)
def test_answers_in_objects(tmp_path: Path, given: object, expected: tuple[str, ...]) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"image": "a", "question": "Who?", "answers": given}))
    (question,) = load("plain", path)
    assert question.answers == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1885", ("1885",)),
        ("1885.0", ("1885", "1885.0")),  # as pandas writes an integer where others are missing
        ("[26.0, 27]", ("26", "26.0", "27")),
        ("2.5", ("2.5",)),
        ("-0.0", ("0", "-0.0")),
        ('"1885.0"', ("1885.0",)),  # text is as written
        ("true", ("yes", "true")),
        ('[false, "True"]', ("no", "false", "True")),
        ('"nan"', ("nan",)),
        ("NaN", ()),
        ("null", ()),
        ('[NaN, "Tokyo", null]', ("Tokyo",)),
        ('{"value": NaN, "aliases": ["Tokyo"]}', ("Tokyo",)),
    ],
)
def test_numbers_and_missing_answers(tmp_path: Path, given: str, expected: tuple[str, ...]) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(f'{{"id": 7.0, "image": "a", "question": "When?", "answers": {given}}}')
    (question,) = load("plain", path)
    assert (question.id, question.answers) == ("7", expected)
    assert judge(question, "nan")["exact_match"] == (given == '"nan"')


@pytest.mark.parametrize("given", ["Infinity", "-Infinity", "[1, 1e999]", "[]", '""', '{"a": true}'])
def test_answers_that_are_none(tmp_path: Path, given: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(f'{{"image": "a", "question": "When?", "answers": {given}}}')
    with pytest.raises(ValueError, match="field answers must"):
        load("plain", path)


def test_several_questions_per_image(tmp_path: Path) -> None:
    by_image = {  # KVQA's layout
        "21": {
            "NamedEntities": ["Ann", "Bob"],
            "imgPath": "KVQAimgs/21.jpg",
            "Qids": ["Q1", "Q2"],
            "Questions": ["Who is left?", "How old is she?"],
            "Answers": ["Ann", 41],
            "Type of Question": [["1-hop"], ["1-hop", "subtraction"]],
            "split": [1, 2, 3, 4, 4],
        },
        "22": {"Questions": ["Where?"], "Answers": [["Rome", "Roma"]], "Qids": ["Q3"], "split": [1]},
    }
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps(by_image, indent=1))
    found = [(one.id, one.image_id, one.question, one.answers, one.entity_ids) for one in load("plain", path)]
    assert found == [
        ("21_1", "KVQAimgs/21.jpg", "Who is left?", ("Ann",), ("Q1", "Q2")),
        ("21_2", "KVQAimgs/21.jpg", "How old is she?", ("41",), ("Q1", "Q2")),
        ("22_1", "22", "Where?", ("Rome", "Roma"), ("Q3",)),
    ]
    row = {
        "image": "a.jpg",
        "entity": "tea",
        "qa_pairs": [{"question": "What?", "answer": "tea"}, {"qid": 9, "query": "Who?"}],
    }
    path.write_text(json.dumps({"version": 1, "data": [row]}))
    first, error = read("plain", path)
    assert isinstance(first, Question) and (first.id, first.image_id, first.entity_ids) == ("1", "a.jpg", ("tea",))
    assert str(error).startswith(
        f"{path}: data[0]: question 2: field answers is missing; the row has id, image, entity, qa_pairs, qid, query, "
        "question; rename one of them to answers, answer, "
    )
    path.write_text(json.dumps({"image": "a.jpg", "questions": ["What?", "Who?"], "answers": ["x"]}))
    with pytest.raises(ValueError, match=r"dataset\.json: field answers has 1 for 2 questions"):
        load("plain", path)


def test_questions_that_are_members_of_a_row(tmp_path: Path) -> None:
    row = {
        "id": "7",
        "img_path": "fox.jpg",
        "easy_qa": {"question": "What is it?", "options": ["A. A hen", "B. A fox"], "Ground_Truth": "B"},
        "hard_qa": {"question": "What does it eat?", "Ground_Truth": "B", "Ground_Truth_List": ["Mice", "Voles"]},
        "source": {"site": "a.example"},
    }
    path = tmp_path / "questions.json"
    path.write_text(json.dumps([row]), encoding="utf-8")
    easy, hard = load("plain", path)
    assert (easy.id, easy.image_id, easy.question, easy.answers) == ("7_1", "fox.jpg", "What is it?", ("A fox",))
    assert (hard.id, hard.answers) == ("7_2", ("Mice", "Voles"))


@pytest.mark.parametrize(
    ("answer", "options", "expected"),
    [
        ("A", ["Mice", "Voles"], "Mice"),
        ("C", ["Mice", "Voles"], "C"),
        ("B", {"A": "Mice", "B": "Voles"}, "Voles"),
        ("(B) Voles", ["(A) Mice", "(B) Voles"], "(B) Voles"),
        ("Mice", ["Mice", "Voles"], "Mice"),
    ],
)
def test_the_letter_of_an_option_stands_for_its_text(
    tmp_path: Path, answer: str, options: object, expected: str
) -> None:
    row = {"image": "a.jpg", "question": "What does it eat?", "answer": answer, "choices": options}
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    (question,) = load("plain", path)
    assert question.answers == (expected,)


def test_a_file_without_answers_says_what_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    rows = [{"image_id": 7, "question": "Who?", "question_id": 70}]
    path.write_text(json.dumps({"info": {}, "data_subtype": "val2014", "questions": rows}))
    with pytest.raises(ValueError, match=r"questions\[0\]: field answers is missing; .* --dataset okvqa"):
        load("plain", path)
    path.write_text(json.dumps({"info": {}, "a": rows, "b": rows}))
    with pytest.raises(ValueError, match=r"expected an object per question or one list of them; .* info, a, b"):
        load("plain", path)
    path.write_text(json.dumps({"image": "a", "question": "Who?", "answer": "x"}))
    assert [one.id for one in load("plain", path)] == ["1"]


@pytest.mark.parametrize(("row", "dataset"), [(INFOSEEK, "infoseek"), (DYNVQA, "dynvqa")])
def test_a_file_of_another_data_set_is_noticed(
    tmp_path: Path, row: dict[str, object], dataset: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", row, row | {"data_id": "b", "question_id": "b"})
    assert len(load("plain", path)) == 2
    why = "as plain it has no entities and is scored by other rules"
    assert caplog.messages == [f"{path}: looks like a file for --dataset {dataset}; {why}"]
    caplog.clear()
    load("plain", write_jsonl(path, row | {"entity": "Q1"}, PLAIN))  # the entity has been added
    assert caplog.messages == []


def test_columns_of_another_data_set_are_noticed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"field image is missing; .*; or is the file for --dataset evqa\?"):
        load("plain", write_csv(tmp_path / "val.csv", EVQA))


def test_fields_may_be_called_anything(tmp_path: Path) -> None:
    names = {"image": "media.file", "question": "q", "answers": "gold", "entity": "page", "section": "para"}
    path = tmp_path / "q.jsonl"
    row = {"media": {"file": "a.jpg"}, "q": "Who?", "gold": ["Ann"], "page": "P1", "para": 2, "answer": "wrong"}
    write_jsonl(path, row, {"media": {"file": "b.jpg"}, "q": "When?", "answer": "1650"})
    first, second = load("plain", path, names)
    assert (first.image_id, first.question, first.answers) == ("a.jpg", "Who?", ("Ann",))
    assert (first.entity_ids, first.section_index) == (("P1",), 2)
    assert (second.image_id, second.answers, second.entity_ids) == ("b.jpg", ("1650",), ())  # a usual name in its place


def test_fields_of_a_table_and_of_questions_about_an_image_may_be_called_anything(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("pic,q,gold,answer,id\na.jpg,Who?,Ann|Bea,wrong,7\n")
    [only] = load("plain", path, {"image": "pic", "question": "q", "answers": "gold"})
    assert (only.id, only.image_id, only.answers) == ("7", "a.jpg", ("Ann", "Bea"))
    swapped = tmp_path / "swapped.csv"
    swapped.write_text("image,question,answers\na.jpg,Ann,Who?\n")
    [only] = load("plain", swapped, {"question": "answers", "answers": "question"})
    assert (only.question, only.answers) == ("Who?", ("Ann",))
    nested = tmp_path / "q.json"
    nested.write_text(json.dumps({"items": [{"pic": "a.jpg", "questions": [{"q": "Who?", "gold": "Ann"}]}]}))
    [only] = load("plain", nested, {"image": "pic", "question": "q", "answers": "gold"})
    assert (only.image_id, only.question, only.answers) == ("a.jpg", "Who?", ("Ann",))


def test_only_plain_fields_may_be_called_anything(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "val.csv", EVQA)
    with pytest.raises(ValueError, match="--query-map: is for --dataset plain; the fields of evqa have fixed names"):
        load("evqa", path, {"question": "question_original"})
    path = write_jsonl(tmp_path / "q.jsonl", {"pic": "a", "question": "Who?", "answers": ["x"]})
    with pytest.raises(
        ValueError, match=r"rename one of them to image, .*, or say which it is: --query-map image=NAME"
    ):
        load("plain", path)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("q.jsonl", '{"image": "a.jpg", "question": "Who?"}\n'),
        ("q.csv", "image,question,answers\na.jpg,Who?,\n"),
        ("q.csv", "image,question\na.jpg,Who?\n"),
        ("q.json", '{"image": ["a.jpg"], "question": ["Who?"]}'),
        ("q.json", '[{"image": "a.jpg", "questions": [{"question": "Who?"}]}]'),
    ],
)
def test_a_split_whose_answers_are_kept_back(file: str, content: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(ValueError, match="--query-map answers=none if there are none"):
        load("plain", tmp_path / file)
    [only] = load("plain", tmp_path / file, {"answers": "none"})
    assert (only.image_id, only.question, only.answers) == ("a.jpg", "Who?", ())


ASKED = ("How tall is it?", ("3 m",), "fox.jpg")
BARE = {"image": "fox.jpg", "question": "How tall is it?"}


@pytest.mark.parametrize(
    "row",
    [
        {"images": ["fox.jpg"], "question": "How tall is it?", "answer": "3 m"},
        {"image": {"bytes": None, "path": "fox.jpg"}, "question": "<image>\nHow tall is it?", "answer": "3 m"},
        {"image": [{"url": "fox.jpg"}], "question": "How tall is it?", "answers": ["3 m"]},
        BARE | {"choices": ["2 m", "3 m"], "correct_choice_idx": 1},
        BARE | {"choices": ["2 m", "3 m"], "answer": 1},
        BARE | {"A": "2 m", "B": "3 m", "answer": "B"},
        {
            "image": "fox.jpg",
            "conversations": [{"from": "human", "value": "<image>\nHow tall is it?"}, {"from": "gpt", "value": "3 m"}],
        },
        {
            "image": "fox.jpg",
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "How tall is it?"}]},
                {"role": "assistant", "content": "3 m"},
            ],
        },
    ],
)
def test_rows_of_other_makers(row: dict[str, Any], tmp_path: Path) -> None:
    [found] = load("plain", write_jsonl(tmp_path / "q.jsonl", row))
    assert (found.question, found.answers, found.image_id) == ASKED


def test_numbers_that_are_options_are_the_answer(tmp_path: Path) -> None:
    [found] = load("plain", write_jsonl(tmp_path / "q.jsonl", BARE | {"choices": ["1", "2"], "answer": 1}))
    assert found.answers == ("1",)


def test_a_conversation_of_several_questions(tmp_path: Path) -> None:
    talk = [{"from": "human", "value": "A?"}, {"from": "gpt", "value": "a"}] * 2
    found = load("plain", write_jsonl(tmp_path / "q.jsonl", {"id": "x", "image": "fox.jpg", "conversations": talk}))
    assert [one.id for one in found] == ["x_1", "x_2"]


def test_replies_belong_to_the_question_before_them_and_unanswered_questions_are_named(tmp_path: Path) -> None:
    said = [
        ("gpt", "Hello."),
        ("human", "A?"),
        ("human", "B?"),
        ("gpt", "b"),
        ("gpt", "b2"),
        ("tool", "-"),
        ("human", "C?"),
    ]
    talk = [{"from": speaker, "value": words} for speaker, words in said]
    found = list(read("plain", write_jsonl(tmp_path / "q.jsonl", {"image": "fox.jpg", "conversations": talk})))
    assert [(one.question, one.answers) for one in found if isinstance(one, Question)] == [("B?", ("b",))]
    errors = [str(one) for one in found if isinstance(one, ValueError)]
    assert len(errors) == 2 and all("answers" in one for one in errors)
    assert "question 1" in errors[0] and "question 3" in errors[1]


@pytest.mark.parametrize(
    "content",
    [
        {"image": ["a.jpg", "b.jpg"], "question": ["Who?", "When?"], "answer": ["Ann", "1990"]},
        {
            "image": {"0": "a.jpg", "1": "b.jpg"},
            "question": {"0": "Who?", "1": "When?"},
            "answer": {"0": "Ann", "1": 1990},
        },
        {
            "features": [{"name": "image"}],
            "rows": [
                {"row_idx": 0, "row": {"image": {"src": "a.jpg"}, "question": "Who?", "answer": "Ann"}},
                {"row_idx": 1, "row": {"image": {"src": "b.jpg"}, "question": "When?", "answer": "1990"}},
            ],
        },
    ],
)
def test_tables_as_one_object(content: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "q.json"
    path.write_text(json.dumps(content))
    found = [one for one in read_plain(path) if isinstance(one, Question)]
    assert [(one.image_id, one.question, one.answers) for one in found] == [
        ("a.jpg", "Who?", ("Ann",)),
        ("b.jpg", "When?", ("1990",)),
    ]


@pytest.mark.parametrize("image", ["data:image/png;base64," + "A" * 9999, {"bytes": "A" * 9999, "path": None}])
def test_an_image_in_a_row_is_named_shortly(image: object, tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"image": image, "question": "Who?", "answer": "Ann"}))
    [error] = read_plain(path)
    expected = f"{path}: line 1: field image holds the image itself; save it as a file, and give its name"
    assert isinstance(error, ValueError) and str(error) == expected


def test_answers_that_may_be_several_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "q.csv"
    path.write_text("image,question,answer\na.jpg,Who?,Ann;Bo\nb.jpg,Who?,Ann|Bo;Cy\nc.jpg,Who?,Cy; Di\n")
    assert [one.answers for one in read_plain(path) if isinstance(one, Question)] == [
        ("Ann;Bo",), ("Ann", "Bo;Cy"), ("Cy; Di",)
    ]  # fmt: skip
    [message] = caplog.messages
    assert message.startswith(f"{path}: 2 answers with ';' counted as one each; ")
