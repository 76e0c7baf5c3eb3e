from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omgm.demo import DRAWN
from pretraining.demo import build
from pretraining.demo.dishes import dishes
from pretraining.demo.facts import countries
from pretraining.demo.flags import load_flags


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo of three countries: the full one takes half a minute."""
    folder = tmp_path_factory.mktemp("demo")
    few = {code: countries()[code] for code in ("fr", "jp", "np")}
    with pytest.MonkeyPatch.context() as patch:
        for module in ("pretraining.demo.articles", "pretraining.demo.questions"):
            patch.setattr(f"{module}.countries", lambda: few)
        build.write_demo(folder, seed=1, questions_per_country=4)
    return folder


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_splits_are_disjoint_in_questions_and_photographs(demo: Path) -> None:
    ids = {name: [row["dataset_image_ids"] for row in read(demo / name)] for name in build.FILES.values()}
    assert ids == {
        "train.csv": ["fr_0", "fr_1", "jp_0", "jp_1", "np_0", "np_1"],
        "validation.csv": ["fr_2", "jp_2", "np_2"],
        "test.csv": ["fr_3", "jp_3", "np_3"],
    }


def test_every_photograph_and_drawing_opens(demo: Path) -> None:
    queries = [path for path in sorted(demo.glob("queries/*.jpg")) if path.stem not in dishes()]
    assert [path.stem for path in queries] == sorted(f"{code}_{n}" for code in ("fr", "jp", "np") for n in range(4))
    for path in queries:
        with Image.open(path) as image:
            assert image.size == build.PHOTO_SIZE and image.mode == "RGB"
    for code in ("fr", "jp", "np"):
        with Image.open(demo / "images" / "flag" / f"{code}.png") as image:
            assert image.width == 320 and image.height == round(320 / load_flags()[code].ratio)


def test_the_drawing_of_france_is_a_tricolor(demo: Path) -> None:
    with Image.open(demo / "images" / "flag" / "fr.png") as image:
        pixels = np.asarray(image)[image.height // 2, [40, 160, 280]].tolist()
    hoist, middle, fly = pixels
    assert hoist[2] > hoist[0] and min(middle) > 230 and fly[0] > fly[2]


def test_knowledge_base_and_infoseek_files_read(demo: Path) -> None:
    kb = json.loads((demo / "kb_wiki.json").read_text(encoding="utf-8"))
    assert [entry["title"] for entry in kb.values()] == [
        "France",
        "Japan",
        "Nepal",
        *(dish["title"] for dish in dishes().values()),
    ]
    test = read(demo / "test.csv")
    lines = {
        name: [json.loads(line) for line in read_lines(demo / f"infoseek_test{name}.jsonl")]
        for name in ("", "_withkb", "_qtype")
    }
    assert [line["question"] for line in lines[""]] == [row["question"] for row in test]
    assert [line["entity_id"] for line in lines["_withkb"]] == list(kb)[:3]
    assert {line["question_type"] for line in lines["_qtype"]} <= {"Numerical", "String", "Time"}


def test_a_complete_folder_is_left_alone_and_an_incomplete_one_is_completed(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = shutil.copytree(demo, tmp_path / "demo")
    few = {"fr": countries()["fr"]}
    for module in ("pretraining.demo.articles", "pretraining.demo.questions"):
        monkeypatch.setattr(f"{module}.countries", lambda: few)
    photo, table = demo / "queries" / "fr_0.jpg", demo / "train.csv"
    before, rows = photo.read_bytes(), table.read_bytes()
    photo.unlink()
    build.write_demo(demo, seed=1, questions_per_country=4)
    assert not photo.exists()
    (demo / DRAWN).unlink()
    build.write_demo(demo, seed=1, questions_per_country=4)
    assert photo.read_bytes() == before
    assert table.read_bytes() != rows
    assert not list(demo.rglob("*.partial"))


def test_too_few_questions(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="questions_per_country must be at least 3, one for each split, got 2"):
        build.write_demo(tmp_path, questions_per_country=2)
