from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from indexes.article_images import MainImage
from indexes.builder.report import counts_of, image_problem, problem_lines, read_problems, read_report, write_report
from retriever.types import Entity

SKIPPED = {"skipped": {"count": 0, "of": 1500, "entries": []}}


def missing(row: int) -> dict[str, Any]:
    entity = Entity(id=f"e/{row}", title="", image=f"https://e.example/{row}.jpg", sections=())
    return image_problem(row, entity, MainImage(None, "missing", "no file"))


def unreadable(row: int) -> dict[str, Any]:
    return image_problem(row, Entity(id="", title="", sections=()), MainImage("a", "unreadable", f"reason {row}"))


def test_the_first_thousand_are_listed_and_all_are_in_lines(tmp_path: Path) -> None:
    problems = [missing(row) if row % 3 else unreadable(row) for row in range(1500)]
    write_report(tmp_path, iter(problems), SKIPPED)
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert list(read_problems(tmp_path)) == problems and read_report(tmp_path) == report
    assert report["missing"] == {
        "count": 1000,
        "reasons": {"no file": 1000},
        "entries": [problem for problem in problems if problem["problem"] == "missing"],
    }
    found = report["unreadable"]
    assert found["count"] == 500 and found["entries"] == problems[::3]
    assert found["reasons"] == {f"reason {row}": 1 for row in range(0, 300, 3)}
    write_report(tmp_path, map(missing, range(1001)), {})
    assert len(read_report(tmp_path)["missing"]["entries"]) == 1000 and len(list(read_problems(tmp_path))) == 1001
    assert counts_of(read_report(tmp_path)) == {"entries_skipped": 0, "images_missing": 1001, "images_unreadable": 0}


def test_a_report_of_an_older_version_lists_all(tmp_path: Path) -> None:
    lost = {"row": 3, "id": "c", "image": "https://e.example/c.jpg", "path": None, "reason": "no file"}
    broken = {"row": 1, "id": "a", "image": "a.jpg", "path": "a.jpg", "reason": "damaged"}
    old = SKIPPED | {"missing": [lost], "unreadable": [broken]}
    (tmp_path / "report.json").write_text(json.dumps(old))
    assert list(read_problems(tmp_path)) == [broken | {"problem": "unreadable"}, lost | {"problem": "missing"}]
    assert problem_lines(read_report(tmp_path)) == [
        "1 image missing, the first of c: 1 x no file; omgm kb images downloads those on the web",
        "1 image unreadable, the first of a: 1 x damaged",
    ]
