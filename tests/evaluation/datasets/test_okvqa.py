from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from evaluation.datasets import Question, load
from evaluation.datasets.okvqa import annotations_of
from tests.fakes.question_files import okvqa, write_okvqa


def test_a_row_of_okvqa_becomes_a_question(tmp_path: Path) -> None:
    assert load("okvqa", write_okvqa(tmp_path, *okvqa())) == [
        Question(
            id="2971475",
            question="What sport is this?",
            image_id="COCO_val2014_000000297147",
            answers=("race",) * 6 + ("motocross",) * 4,
            entity_ids=(),
            question_type="other",
            data_split="val2014",
            category="Vehicles and Transportation",
            style="okvqa",
        )
    ]


def test_as_downloaded(tmp_path: Path) -> None:
    path = write_okvqa(tmp_path, *okvqa())
    for file in (path, annotations_of(path)):
        with zipfile.ZipFile(file.with_name(file.name + ".zip"), "w") as archive:
            archive.write(file, file.name)
        file.unlink()
    assert len(load("okvqa", path.with_name(path.name + ".zip"))) == 1


def test_the_answers_file_is_found_by_name() -> None:
    names = ["OpenEnded_mscoco_train2014_questions.json", "v2_OpenEnded_mscoco_val2014_questions.json"]
    found = [annotations_of(Path("x") / name).name for name in names]
    assert found == ["mscoco_train2014_annotations.json", "v2_mscoco_val2014_annotations.json"]
    with pytest.raises(ValueError, match=r"x\.json: the file name must contain 'questions'"):
        annotations_of(Path("x.json"))


NINE = [{"answer": "race"}] * 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": NINE}, "annotations.json: annotations[0]: field answers must be 10 objects"),
        ({"answers": [*NINE, {"raw_answer": "race"}]}, "annotations.json: annotations[0]: field answers "),
        ({"answers": [{"answer": " "}] * 10}, "annotations.json: annotations[0]: field answers "),
        ({"image_id": 5}, "annotations.json: annotations[0]: field image_id must be the question's, 297147"),
        ({"question_id": 5}, "questions.json: questions[0]: field question_id: '2971475' has no entry in mscoco"),
    ],
)
def test_bad_annotations_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write_okvqa(tmp_path, *okvqa(**change))
    with pytest.raises(ValueError, match="2014") as caught:
        load("okvqa", path)
    assert message in str(caught.value)


def test_bad_files_are_named(tmp_path: Path) -> None:
    asked, answered = okvqa()
    twice = asked | {"questions": asked["questions"] * 2}
    both = answered | {"annotations": answered["annotations"] * 2}
    for one, other, message in [
        (twice, answered, r"questions\[1\]: field question_id: '2971475' is also in an earlier row"),
        (asked, both, r"annotations\[1\]: field question_id: '2971475' is also in an earlier entry"),
        (asked | {"questions": {}}, answered, "field questions must be a list of objects"),
        (asked | {"data_subtype": ""}, answered, "questions.json: field data_subtype "),
    ]:
        with pytest.raises(ValueError, match=message):
            load("okvqa", write_okvqa(tmp_path, one, other))
    path = write_okvqa(tmp_path, asked, answered)
    path.write_text(json.dumps(asked)[:-9])
    with pytest.raises(ValueError, match=r"questions\.json: not JSON .* is the file truncated"):
        load("okvqa", path)
    annotations_of(path).unlink()
    with pytest.raises(ValueError, match=r"mscoco_val2014_annotations\.json: cannot be read"):
        load("okvqa", path)
