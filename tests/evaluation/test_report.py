from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.fakes.questions import QUESTIONS, WAVE, ask, run
from tests.fakes.world import FakeRetriever, write_images


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return write_images(tmp_path / "images")


def test_the_report_holds_everything(tmp_path: Path, images: Path) -> None:
    out = tmp_path / "run"
    run(FakeRetriever(), images, out)
    shutil.rmtree(images)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert set(re.findall(r'(?:src|href)="([^"]{1,10})', page)) == {"data:image"}
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "What is the wave length &lt;b&gt;here&lt;/b&gt;?" in page
    assert "<b>here" not in page
    assert "the wave length of red is <mark>700</mark>" in " ".join(page.split()).replace("</blockquote>", "")
    assert page.count('data-verdict="right"') == 4
    assert [page.count(f'data-verdict="{verdict}"') for verdict in ("wrong", "unanswered", "failed")] == [1, 1, 0]
    assert "Measured without BEM: this is exact match alone" in page
    assert "retrieval: RuntimeError: secret internals" in page
    assert [page.count(f"<td>{share}</td>") for share in ("75.0", "80.0")] >= [1, 1]  # the bin of confidence 0.75


def listed(page: str) -> list[list[str]]:
    """The queries listed for the page's search script."""
    found = re.search(r"const queries = (.*);  //", page)
    assert found is not None
    return json.loads(found[1])  # type: ignore[no-any-return]


def test_every_query_is_listed(tmp_path: Path, images: Path) -> None:
    hostile = ask(0, "red", "</script><script>alert(1)</script> What wave length?", "700")
    run(FakeRetriever(), images, tmp_path / "run", [hostile, *QUESTIONS[1:]])
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    rows = listed(page)
    assert [row[0] for row in rows] == [
        "right",
        "right",
        "wrong",
        "failed",
        "failed",
        "failed",
        "unanswered",
        "failed",
        "right",
        "right",
    ]
    assert rows[0] == ["right", "q0", hostile.question, "700", "700", "Redland: Wave", "templated · val · colors"]
    assert rows[4][3] == "retrieval: RuntimeError: secret internals"
    assert rows[6][3] == ""


def test_images_of_the_entities_that_were_found(tmp_path: Path, images: Path) -> None:
    def of_entity(entity: str) -> Path | None:
        path = images / f"{entity.rsplit('/', 1)[1]}.png"
        return path if "blue" not in entity else None

    run(FakeRetriever(), images, tmp_path / "run", QUESTIONS[:3], entity_image=of_entity)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert page.count("<img ") == 3 + 2
    assert "found: Redland" in page and "found: Blueland" not in page


def test_retrieval_alone_shows_no_confidence(tmp_path: Path, images: Path) -> None:
    run(FakeRetriever(), images, tmp_path / "run", [QUESTIONS[0]], generator=None)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Confidence</h2>" not in page and "<h2>Recall</h2>" in page
    assert listed(page)[0][0] == "right"  # by its section


def test_the_page_of_a_large_run_stays_small(tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation.report._LISTED_QUERIES", 3)
    monkeypatch.setattr("evaluation.report._CASES", 2)
    questions = [ask(n, "red", WAVE, "700") for n in range(8)] + [ask(8, "absent", WAVE)]
    run(FakeRetriever(), images, tmp_path / "run", questions)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert [row[1] for row in listed(page)] == ["q0", "q1", "q2", "q8"]  # failed queries are always listed
    assert "4 of 9, queries.jsonl has all" in " ".join(page.split())
    assert page.count('<article class="case"') == 2
