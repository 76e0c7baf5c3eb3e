from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omgm.commands.demo import pick
from omgm.demo import DRAWN, EXAMPLES
from pretraining.demo import build
from pretraining.demo.dishes import PHOTOGRAPHS, dish_articles, dish_questions, dishes
from pretraining.demo.facts import countries
from serving.examples import read_examples


def test_every_dish_has_its_photograph_an_author_and_an_answer_in_its_article() -> None:
    expected = {
        f"{code}{end}.jpg" for code, dish in dishes().items() for end in ("", "-asked") if end[1:] in ("", *dish)
    }
    assert {path.name for path in PHOTOGRAPHS.iterdir()} == expected
    assert sum(path.stat().st_size for path in PHOTOGRAPHS.iterdir()) < 1_500_000
    entries = dish_articles()
    for row, dish in zip(dish_questions(), dishes().values(), strict=True):
        assert dish["author"] and dish["source"].endswith(".webp")
        entry, number = entries[row["wikipedia_url"]], int(row["evidence_section_id"])
        assert entry["section_texts"][number] == row["evidence"] and row["answer"].lower() in row["evidence"].lower()
        assert entry["section_titles"][number] == row["evidence_section_title"]


def test_few_photographs_are_taken_for_the_demo_and_dishes_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {code: countries()[code] for code in ("fr", "jp")}
    for module in ("pretraining.demo.articles", "pretraining.demo.questions"):
        monkeypatch.setattr(f"{module}.countries", lambda: few)
    build.write_demo(tmp_path, examples_only=True)
    queries = tmp_path / "queries"
    assert {path.stem for path in queries.iterdir()} == {*dishes(), "fr_0", "fr_3", "jp_0", "jp_3"}
    assert [path.name for path, _ in pick(tmp_path / EXAMPLES, 3)] == [
        "shakshouka.jpg",
        "fr_3.jpg",
        "brigadeiro.jpg",
    ]
    assert list(read_examples(tmp_path))[:4] == ["shakshouka", "fr_3", "brigadeiro", "jp_3"]
    # another photograph of the first dish; the others are taken again by code
    assert (queries / "shakshouka.jpg").read_bytes() == (PHOTOGRAPHS / "shakshouka-asked.jpg").read_bytes()
    with Image.open(queries / "guacamole.jpg") as taken, Image.open(PHOTOGRAPHS / "guacamole.jpg") as main:
        assert taken.width < main.width and taken.height < main.height
        assert np.asarray(taken.convert("RGB")).min(axis=2).mean() > 20  # nothing of the black beside a turned image
    kb = json.loads((tmp_path / "kb_wiki.json").read_text(encoding="utf-8"))
    assert len(kb) == 2 + len(dishes()) == 21
    with (tmp_path / "test.csv").open(encoding="utf-8", newline="") as file:
        assert {row["dataset_name"] for row in csv.DictReader(file)} == {"flags"}
    build.write_demo(tmp_path)
    assert (queries / "fr_1.jpg").is_file() and (tmp_path / DRAWN).is_file()
    before = (queries / "fr_3.jpg").stat().st_mtime_ns
    build.write_demo(tmp_path, examples_only=True)  # all of them are enough
    assert (queries / "fr_3.jpg").stat().st_mtime_ns == before
