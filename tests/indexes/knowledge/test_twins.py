"""One thing in several files is one entity; several things that share an image are not."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from indexes.knowledge.matching import MatchReport, with_matched_images
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sources import FolderImages
from retriever.types import Entity
from tests.fakes.images import write_image
from tests.fakes.reading import texts

Rows = list[dict[str, str]]
NAMES = ("Fox", "Hen", "Owl")


def to_json(rows: Rows, folder: Path) -> None:
    (folder / "all.json").write_text(json.dumps(rows))


def to_yaml(rows: Rows, folder: Path) -> None:
    (folder / "all.yml").write_text(yaml.safe_dump(rows, sort_keys=False))


def to_csv(rows: Rows, folder: Path) -> None:
    with (folder / "all.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def to_notes(rows: Rows, folder: Path) -> None:
    for row in rows:
        (folder / f"{row['title'].lower()}.md").write_text(
            f"---\n{yaml.safe_dump(row)}---\n\nA note on {row['title']}.\n"
        )


WRITERS = [to_json, to_yaml, to_csv, to_notes]


def read(folder: Path) -> tuple[list[Entity], MatchReport]:
    report = MatchReport()
    return list(with_matched_images(read_knowledge_base(folder), FolderImages(folder), "", report)), report


def rows(label: str, **more: str) -> Rows:
    return [
        {"id": f"{name}-{n}", "title": name, "image": f"img/{name}.png", label: f"{label} of {name}", **more}
        for n, name in enumerate(NAMES, start=7)
    ]


@pytest.mark.parametrize("first", WRITERS)
@pytest.mark.parametrize("second", WRITERS)
def test_records_of_one_thing_in_two_files_are_one(
    tmp_path: Path, first: Callable[[Rows, Path], None], second: Callable[[Rows, Path], None]
) -> None:
    for name in NAMES:
        write_image(tmp_path / "img" / f"{name}.png", "red")
    for number, (write, label) in enumerate(((first, "color"), (second, "weight"))):
        (tmp_path / f"part{number}").mkdir()
        write(rows(label), tmp_path / f"part{number}")
    entities, report = read(tmp_path)
    assert [one.title for one in entities] == list(NAMES)
    assert report.united == (3, "Fox")
    assert "3 entities joined with others that share main image and name in other files, such as Fox" in report.notes()
    for one in entities:
        said = "\n".join(text for _, text in texts(one))
        assert f"Color: color of {one.title}" in said and f"Weight: weight of {one.title}" in said
        assert (
            len({title for title, _ in texts(one)}) == len(one.sections) == len({part.index for part in one.sections})
        )
        assert one.image and {image.url for image in one.images} <= {one.image}


def test_lines_that_repeat_and_paragraphs_stay(tmp_path: Path) -> None:
    write_image(tmp_path / "fox.png", "red")
    poem = "Run, fox.\n\nIt is night.\n\nRun, fox."
    (tmp_path / "a.json").write_text(json.dumps([{"title": "Fox", "image": "fox.png", "text": poem}]))
    (tmp_path / "b.json").write_text(
        json.dumps([{"title": "Fox", "image": "fox.png", "text": "Run, fox.\nHide.", "size": 3}])
    )
    [fox] = read(tmp_path)[0]
    alone = next(iter(read_knowledge_base(tmp_path / "a.json")))
    assert texts(fox) == [*texts(alone), ("Fox", "Hide."), ("Facts", "Size: 3")]
    assert [part.index for part in fox.sections] == [0, 1, 2]


def test_the_title_is_what_fewest_are_called(tmp_path: Path) -> None:
    for name in NAMES:
        write_image(tmp_path / "img" / f"{name}.png", "red")
    to_json([{**row, "title": "animal"} for row in rows("color")], tmp_path)
    to_csv(rows("weight"), tmp_path)
    entities, _ = read(tmp_path)
    assert sorted((one.title, one.names) for one in entities) == [(name, ("animal",)) for name in NAMES]


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Another one", "id": "other-99"},  # names nothing alike
        {"image": "img/other.png"},  # another main image
    ],
)
def test_things_that_differ_are_two(tmp_path: Path, change: dict[str, str]) -> None:
    for name in (*NAMES, "other"):
        write_image(tmp_path / "img" / f"{name}.png", "red")
    to_json(rows("color"), tmp_path)
    to_csv([{**row, **change} for row in rows("weight")[:1]], tmp_path)
    entities, report = read(tmp_path)
    assert (len(entities), report.united) == (4, (0, ""))


def test_rows_of_two_tables_with_the_same_number_are_two(tmp_path: Path) -> None:
    write_image(tmp_path / "img.png", "red")
    for color in ("red", "blue"):
        row = {"id": "12", "title": f"{color} cup", "image": "img.png"}
        (tmp_path / f"{color}.json").write_text(json.dumps([row, {**row, "id": "13", "title": f"{color} jug"}]))
    assert len(read(tmp_path)[0]) == 4


def test_rows_of_one_file_and_pages_with_a_logo_are_not_compared(tmp_path: Path) -> None:
    write_image(tmp_path / "logo.png", "red")
    row = {"id": "1", "title": "Mug", "image": "logo.png", "text": "It is red."}
    (tmp_path / "all.json").write_text(json.dumps([row, {**row, "id": "2", "text": "It is blue."}]))
    assert len(read(tmp_path)[0]) == 2
    (tmp_path / "all.json").unlink()
    for n in range(6):
        (tmp_path / f"{n}").mkdir()
        (tmp_path / f"{n}" / "a.md").write_text(f"---\ntitle: Overview\nimage: ../logo.png\n---\n\nOf part {n}.\n")
    assert len(read(tmp_path)[0]) == 6
