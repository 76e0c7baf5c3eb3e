"""The report in a browser: one search box for cases and queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import by_id, screenshot
from tests.fakes.questions import run
from tests.fakes.world import FakeRetriever, write_images

pytestmark = pytest.mark.browser


def listed(page: Any) -> list[str]:
    """The ids in the list of queries."""
    return [row.text.split()[0] for row in by_id(page, "queries").find_elements("css selector", "tbody tr")]


def test_the_page_filters_its_queries(chromium: Any, tmp_path: Path) -> None:
    run(FakeRetriever(), write_images(tmp_path / "images"), tmp_path / "run")
    chromium.get((tmp_path / "run" / "report.html").as_uri())
    assert listed(chromium) == [f"q{number}" for number in range(10)]
    assert by_id(chromium, "count").text == "6 of 6 shown"
    screenshot(chromium, "report")

    by_id(chromium, "search").send_keys("RED wave")  # both words, in any case
    assert (listed(chromium), by_id(chromium, "count").text) == (["q0", "q8"], "2 of 6 shown")
    by_id(chromium, "search").clear()
    by_id(chromium, "search").send_keys("?")
    expected = {"wrong": ["q2", "q3", "q5", "q6", "q7"], "failed": ["q3", "q5", "q7"], "unanswered": ["q6"]}
    for verdict, ids in expected.items():  # failed and unanswered queries count as wrong
        chromium.find_element("css selector", f"[data-show={verdict}]").click()
        assert listed(chromium) == ids
    assert by_id(chromium, "queries").text.endswith("no answer 1 Blueland: Blueland templated · val · colors")
    faults = [entry["message"] for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"]
    assert faults == []
