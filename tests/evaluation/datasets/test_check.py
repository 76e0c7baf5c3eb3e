from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evaluation.datasets import forget_listings, load, read
from evaluation.datasets.check import examine, report
from evaluation.datasets.coverage import QuestionGroup, coverage
from omgm.__main__ import main
from omgm.commands import kb_check
from retriever.images import FORMATS
from tests.fakes.knowledge_base import write_kb
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index
from tests.fakes.question_files import DYNVQA, EVQA, INFOSEEK, PLAIN, TWO_HOPS, write_infoseek
from tests.fakes.rows import write_csv, write_jsonl

X = "https://en.wikipedia.org/wiki/X"


def save_image(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), "red").save(path)


def evqa_with_images(folder: Path) -> Path:
    """One question for each layout, one whose image is missing, and one whose image is broken."""
    landmark = EVQA | {"dataset_name": "landmarks", "question_type": "automatic", "wikipedia_url": X + "2|" + X}
    rows = [EVQA, landmark | {"dataset_image_ids": "01ab"}, TWO_HOPS, landmark | {"dataset_image_ids": "0000"}]
    rows += [EVQA | {"dataset_image_ids": "124"}, EVQA | {"evidence_section_id": "9"}]
    save_image(folder / "inaturalist" / "123.jpg")
    save_image(folder / "landmarks" / "0" / "1" / "a" / "01ab.jpg")
    (folder / "124.png").write_bytes(b"not an image")
    return write_csv(folder / "val.csv", *rows)


def test_findings_are_counted(tmp_path: Path) -> None:
    result = report(examine(read("evqa", evqa_with_images(tmp_path)), tmp_path))
    assert result == {
        "usable": False,
        "questions": 5,
        "left_out": {"two-hop question": 1},
        "errors": 1,
        "first_errors": [f"{tmp_path / '124.png'}: not an image of a known format ({', '.join(FORMATS)})"],
        "repeated": 1,
        "entities": 2,
        "answers_mean": 2.0,
        "with_several_answers": 5,
        "by_question_type": {"automatic": 2, "templated": 3},
        "by_split": {"val": 5},
        "by_category": {"inaturalist": 3, "landmarks": 2},
        "images": {"flat": 1, "landmarks": 1, "missing": 1, "unreadable": 1},
        "images_by_category": {
            "inaturalist": {"flat": 2, "unreadable": 1},
            "landmarks": {"landmarks": 1, "missing": 1},
        },
        "first_missing": ["0000"],
        "unrelated": None,
        "coverage": None,
    }


@pytest.mark.parametrize("left", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_half_downloaded_images_are_unreadable(tmp_path: Path, format: str, left: float) -> None:
    whole = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (90, 120, 3), np.uint8)
    Image.fromarray(noise).save(whole, format)
    cut = whole.getvalue()[: int(left * len(whole.getvalue()))]
    (tmp_path / "123.jpg").write_bytes(cut)
    result = report(examine(read("evqa", write_csv(tmp_path / "val.csv", EVQA)), tmp_path))
    assert result["images"] == {"unreadable": 1} and not result["usable"]
    assert str(tmp_path / "123.jpg") in result["first_errors"][0]


def test_bad_rows_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "val.csv", EVQA, EVQA | {"question": ""}, EVQA | {"answer": "|"}, EVQA)
    result = report(examine(read("evqa", path)))
    assert (result["questions"], result["errors"], result["usable"]) == (2, 2, False)
    assert [error.split(": ")[1:3] for error in result["first_errors"]] == [
        ["line 3", "field question must be non-empty text, got ''"],
        ["line 4", "field answer contains only separators"],
    ]
    assert report(examine([]))["usable"] is False
    assert report(examine(read("evqa", write_csv(path, EVQA))))["usable"] is True


def test_two_urls_of_one_file_are_told(tmp_path: Path) -> None:
    other = DYNVQA | {"question_id": "en2", "image_url": "https://host.example/data/Freshqa/images/image_1.jpeg"}
    path = write_jsonl(tmp_path / "d.jsonl", DYNVQA, other)
    save_image(tmp_path / "image_1.jpeg")  # a flat download has one file for both
    result = report(examine(read("dynvqa", path), tmp_path))
    assert (result["usable"], result["errors"]) == (False, 1)
    assert f"{tmp_path / 'image_1.jpeg'}: matches both {DYNVQA['image_url']} and" in result["first_errors"][0]
    (tmp_path / "image_1.jpeg").unlink()
    for folder in ("Timeqa", "Freshqa"):
        save_image(tmp_path / "data" / folder / "images" / "image_1.jpeg")
    assert report(examine(read("dynvqa", path), tmp_path))["usable"]


def test_coverage_by_hand() -> None:
    groups = {
        QuestionGroup("templated", "val", "", "flat", ("a",), 2): 3,  # both known
        QuestionGroup("templated", "test", "", "flat", ("a",), 7): 4,  # no such section
        QuestionGroup("automatic", "val", "", "flat", ("b",), 2): 5,  # no such entity
        QuestionGroup("automatic", "val", "", "flat", ("b", "c"), None): 6,  # one of two entities, no section named
        QuestionGroup("", "val", "", "flat", (), None): 7,  # no entity named
    }
    rows = coverage(groups, {"a": frozenset({0, 2}), "c": frozenset()})
    assert list(rows) == ["all", "split test", "split val", "type automatic", "type templated"]
    assert [list(row.values()) for row in rows.values()] == [
        [25, 18, 13, 12, 3],
        [4, 4, 4, 4, 0],
        [21, 14, 9, 8, 3],
        [11, 11, 6, 5, 0],
        [7, 7, 7, 7, 3],
    ]
    assert list(rows["all"]) == ["questions", "with_entity", "entity_known", "with_section", "section_known"]


def check(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    try:
        status = main(["kb", "check", *map(str, arguments)])
    except SystemExit as stopped:
        status = int(str(stopped.code))
    return status, capsys.readouterr().out


def test_the_command_against_a_knowledge_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = evqa_with_images(tmp_path)
    titles = ["X", "Growth", "Height", "References"]
    entry = {"title": "X", "url": X, "section_titles": titles, "section_texts": ["x"] * 4, "image_urls": []}
    kb = tmp_path / "kb.json"
    kb.write_text(json.dumps({X: entry, "other": entry | {"url": "other"}}))
    given = ["--dataset", "evqa", "--queries", path, "--query-images", tmp_path, "--kb", kb]
    status, out = check(capsys, *given, "--json", "--missing", tmp_path / "missing.txt")
    found = json.loads(out)
    assert (status, found["dataset"], found["queries"]) == (1, "evqa", str(path))
    assert list(found["coverage"]["all"].values()) == [5, 5, 5, 5, 4]
    assert (tmp_path / "missing.txt").read_text() == "0000\n"
    save_image(tmp_path / "0000.jpg")
    save_image(tmp_path / "124.png")
    forget_listings()
    status, out = check(capsys, *given)
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == f"evqa, {path}: 5 questions about 2 entities"
    assert "  skipped        1 (two-hop question)" in lines
    assert "  images         flat 3, landmarks 1" in lines
    assert "all                         5              5              5              5              4" in lines
    kb.write_text(json.dumps({"other": entry | {"url": "other"}}))
    status, out = check(capsys, *given)
    assert status == 1  # a knowledge base of other questions
    assert (
        f"none of the entities that the questions name (2 entities, such as {X!r}) is in the knowledge base, where ids "
        "look like 'other'; are the knowledge base and --dataset the right ones?\n\nnot usable as is"
    ) in out


def test_the_command_against_an_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kb, images = write_kb(tmp_path)
    models: dict[str, Any] = {"summarizer": FakeSummarizer(), "encoder": FakeEncoder(), "fusion": FakeFusion()}
    build_index(kb, images, tmp_path / "index", **models)
    france = PLAIN | {"entity": "https://e.example/wiki/France", "section": 2}
    rows = [france, france | {"id": "b", "section": 1}, france | {"id": "c", "entity": "unknown"}]
    path = write_jsonl(tmp_path / "q.jsonl", *rows)
    given = ["--dataset", "plain", "--queries", path, "--json"]
    status, out = check(capsys, *given, "--index", tmp_path / "index")
    found = json.loads(out)
    assert status == 0
    assert list(found["coverage"]["all"].values()) == [3, 3, 2, 3, 1]  # section 1 of France contains references
    groups = [["https://e.example/wiki/Empty", "https://e.example/wiki/Plain"]]
    assert found.pop("main_copies") == {"compared": 7, "entities": 2, "groups": groups}
    monkeypatch.setattr(kb_check, "_MOST", 3)
    few = json.loads(check(capsys, *given, "--index", tmp_path / "index")[1])["main_copies"]
    assert few == {"compared": 1, "entities": 0, "groups": []}  # France
    assert json.loads(check(capsys, *given, "--kb", kb)[1]) == found
    write_jsonl(path, france | {"entity": "http://e.example/wiki/Fr%61nce"}, *rows[1:])  # as evaluation finds it
    for against in (("--index", tmp_path / "index"), ("--kb", kb)):
        assert json.loads(check(capsys, *given, *against)[1])["coverage"] == found["coverage"]
    write_jsonl(path, PLAIN)
    assert "where ids look like 'https://e.example/wiki/" in check(capsys, *given, "--index", tmp_path / "index")[1]


def test_questions_without_entities_are_said_to_have_no_recall(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", {key: PLAIN[key] for key in ("id", "image", "question", "answers")})
    status, out = check(capsys, "--dataset", "plain", "--queries", path)
    assert status == 0 and "no question names one, so there is no Recall@K" in out


def test_the_command_with_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_jsonl(tmp_path / "q.jsonl", PLAIN)
    assert check(capsys, "--dataset", "plain", "--queries", path)[0] == 0
    assert check(capsys, "--dataset", "plain", "--queries", tmp_path / "no")[0] == 2
    assert check(capsys, "--dataset", "plain", "--queries", path, "--query-images", tmp_path / "no")[0] == 2
    assert check(capsys, "--dataset", "none", "--queries", path)[0] == 2
    seek = write_infoseek(tmp_path, [INFOSEEK, INFOSEEK])
    assert check(capsys, "--dataset", "infoseek", "--queries", seek) == (2, "")  # the file beside it repeats an id


def hub_rows(folder: Path) -> list[dict[str, Any]]:
    save_image(folder / "tea.png")
    data = (folder / "tea.png").read_bytes()
    tiff = folder / "tea.tiff"
    Image.new("RGB", (4, 4), "blue").save(tiff)
    answers = {"value": "Assam", "aliases": ["India"]}
    shared = {"question": "Where is it grown?", "answers": answers, "entity_id": "tea", "note": "dropped"}
    return [
        shared | {"id": "a", "image": {"bytes": data, "path": None}},
        shared | {"id": "b", "image": {"bytes": data, "path": None}},
        shared | {"id": "c", "image": {"bytes": None, "path": str(tiff)}},
    ]


def save(folder: Path, rows: list[dict[str, Any]], *, splits: bool = False, with_images: bool = True) -> Path:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_list(rows)
    if with_images:
        data = data.cast_column("image", datasets.Image())
    saved = datasets.DatasetDict({"train": data, "test": data.select([0])}) if splits else data
    saved.save_to_disk(str(folder))
    return folder


def test_a_data_set_of_the_hub_is_exported_as_plain_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = save(tmp_path / "saved", hub_rows(tmp_path)), tmp_path / "out"
    assert main(["import", "questions", "--from", str(source), "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith("3 questions; for other commands: --dataset plain --queries ")
    rows = [json.loads(line) for line in (out / "questions.jsonl").read_text().splitlines()]
    assert [set(row) for row in rows] == [{"id", "image", "question", "answers", "entity"}] * 3
    assert rows[0]["image"] == rows[1]["image"]
    assert len(list((out / "images").iterdir())) == 2
    result = report(examine(read("plain", out / "questions.jsonl"), out / "images"))
    assert (result["usable"], result["images"]) == (True, {"flat": 2})
    blue = out / "images" / f"{rows[2]['image']}.png"
    with Image.open(blue) as image:
        assert image.getpixel((0, 0)) == (0, 0, 255)
    before = blue.stat().st_mtime_ns, (out / "questions.jsonl").read_bytes()
    assert main(["import", "questions", "--from", str(source), "--out", str(out)]) == 0
    assert before == (blue.stat().st_mtime_ns, (out / "questions.jsonl").read_bytes())


def test_exported_rows_without_ids_are_numbered(tmp_path: Path) -> None:
    rows = [{key: value for key, value in row.items() if key != "id"} for row in hub_rows(tmp_path)]
    source, out = save(tmp_path / "saved", rows), tmp_path / "out"
    assert main(["import", "questions", "--from", str(source), "--out", str(out)]) == 0
    assert [question.id for question in load("plain", out / "questions.jsonl")] == ["0", "1", "2"]


def test_export_of_a_split_and_of_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = save(tmp_path / "saved", [PLAIN, PLAIN | {"id": "b"}], splits=True, with_images=False)
    out = tmp_path / "out"
    assert main(["import", "questions", "--from", str(source), "--out", str(out), "--split", "test"]) == 0
    assert json.loads((out / "questions.jsonl").read_text()) == PLAIN
    assert main(["import", "questions", "--from", str(source), "--out", str(out)]) == 2
    assert "has the splits train, test; pass one of them as --split" in capsys.readouterr().err


def test_labels_are_exported_by_their_names_from_data_sets_and_parquet_files(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    label = datasets.ClassLabel(names=["Assam", "India"])
    rows = [row | {"answers": [1, 0], "split": number % 2, "best": 0} for number, row in enumerate(hub_rows(tmp_path))]
    data = datasets.Dataset.from_list(rows).cast_column("image", datasets.Image())
    for column, kind in (("answers", datasets.Sequence(label)), ("split", label), ("best", label)):
        data = data.cast_column(column, kind)
    data.save_to_disk(str(tmp_path / "saved"))
    (tmp_path / "files").mkdir()
    data.to_parquet(tmp_path / "files" / "test-00000-of-00001.parquet")
    for source in ("saved", "files", "files/test-00000-of-00001.parquet"):
        assert main(["import", "questions", "--from", str(tmp_path / source), "--out", str(tmp_path / "out")]) == 0
        questions = load("plain", tmp_path / "out" / "questions.jsonl")
        assert [question.answers for question in questions] == [("India", "Assam")] * 3
        assert [question.data_split for question in questions] == ["Assam", "India", "Assam"]
    data.to_parquet(tmp_path / "files" / "train-00000-of-00001.parquet")
    arguments = ["import", "questions", "--from", str(tmp_path / "files"), "--out", str(tmp_path / "out")]
    assert main(arguments) == 2 and main([*arguments, "--split", "train"]) == 0
    [error, *_] = read("plain", tmp_path / "files")
    assert "row 1: field image holds the image itself; save it as a file, and give its name, as omgm imp" in str(error)
    data.remove_columns("image").add_column("image", ["a.jpg", "b.jpg", "c.jpg"]).to_parquet(tmp_path / "q.parquet")
    assert [(one.image_id, one.answers[0]) for one in load("plain", tmp_path / "q.parquet")] == [
        ("a.jpg", "India"), ("b.jpg", "India"), ("c.jpg", "India")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": ""}, "row 1: field question "),
        ({"id": "a"}, "row 1: field id: 'a' is also in an earlier row"),
        ({"image": {"bytes": b"not an image", "path": None}}, "row 1: field image: not an image of a known format"),
        ({"image": None}, "row 1: field image "),
    ],
)
def test_export_names_bad_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], message: str
) -> None:
    first, second, _ = hub_rows(tmp_path)
    source, out = save(tmp_path / "saved", [first, second | change]), tmp_path / "out"
    assert main(["import", "questions", "--from", str(source), "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not (out / "questions.jsonl").exists()


def test_export_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("datasets")
    assert main(["import", "questions", "--from", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "not a dataset that save_to_disk wrote" in capsys.readouterr().err


def test_the_command_on_fields_with_other_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_image(tmp_path / "tea.jpg")
    row = {"picture": "tea.jpg", "sentence": "Where is it grown?", "gold": ["Assam"], "page": "tea"}
    path = write_jsonl(tmp_path / "q.jsonl", row)
    given = ["--dataset", "plain", "--queries", path, "--query-images", tmp_path, "--json"]
    status, out = check(capsys, *given)
    assert status == 1 and "--query-map image=NAME" in out
    names = ["image=picture", "question=sentence", "answers=gold", "entity=page"]
    status, out = check(capsys, *given, *(part for name in names for part in ("--query-map", name)))
    assert (status, json.loads(out)["entities"]) == (0, 1)
