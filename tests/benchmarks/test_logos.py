from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

from benchmarks.left_out import left_out, write_rest
from benchmarks.logos import write


def test_logos_become_a_data_set(tmp_path: Path) -> None:
    for name, color in {"a": "red", "b": "blue", "same": "red"}.items():
        (tmp_path / "topics" / name).mkdir(parents=True)
        Image.new("RGB", (40, 30), color).save(tmp_path / "topics" / name / f"{name}.png")
    (tmp_path / "topics" / "a" / "index.md").write_text("---\ntopic: a\n---\nIt is red.\n")
    assert write(tmp_path / "topics", tmp_path / "out") == 2  # "same" has the bytes of "a"
    entities = {row["id"]: row for row in map(json.loads, (tmp_path / "out" / "kb.jsonl").read_text().splitlines())}
    texts = sorted(row["sections"][0]["text"] for row in entities.values())
    assert len(entities) == 2 and ("It is red." in texts or "same" in texts)
    for kind in ("bare", "card"):
        rows = list(map(json.loads, (tmp_path / "out" / f"{kind}.jsonl").read_text().splitlines()))
        assert {row["entity"] for row in rows} == set(entities)
        assert all((tmp_path / "out" / "queries" / f"{row['image']}.jpg").is_file() for row in rows)


def test_a_flat_folder_of_icons(tmp_path: Path) -> None:
    (tmp_path / "png").mkdir()
    for name, color in {"fox": "red", "fox-light": "pink", "red-hen": "blue"}.items():
        Image.new("RGB", (40, 30), color).save(tmp_path / "png" / f"{name}.png")
    assert write(tmp_path / "png", tmp_path / "out") == 2  # "fox-light" is a variant of "fox"
    rows = map(json.loads, (tmp_path / "out" / "kb.jsonl").read_text().splitlines())
    assert {row["id"]: row["image"] for row in rows} == {"fox": "fox.png", "red-hen": "red-hen.png"}


def test_a_third_is_left_out(tmp_path: Path) -> None:
    ids = [str(number) for number in range(300)]
    (tmp_path / "kb.jsonl").write_text("".join(json.dumps({"id": key}) + "\n" for key in ids))
    (tmp_path / "out").mkdir()
    rest = write_rest(tmp_path / "kb.jsonl", tmp_path / "out")
    kept = [json.loads(line)["id"] for line in rest.read_text().splitlines()]
    assert kept == [key for key in ids if not left_out(key)]
    assert 170 <= len(kept) <= 230  # about two thirds
