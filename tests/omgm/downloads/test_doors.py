"""No URL leads to a private address, whichever door it comes through; in a network of its own, where all lead there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from search_agents.browsing.chromium import find_chromium
from tests.fakes.private_network import HOSTS, PUBLIC


def tried(*options: str) -> dict[str, Any]:
    """Returns the report of `tests.fakes.private_network`."""
    alone = ["unshare", "--net", "--map-root-user"]
    if sys.platform != "linux" or subprocess.run([*alone, "ip", "link"], capture_output=True, check=False).returncode:
        pytest.skip("needs Linux, unshare, ip, and the right to create network namespaces")
    command = [*alone, sys.executable, "-m", "tests.fakes.private_network", *options]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.slow
def test_pages_images_and_knowledge_bases_reach_no_private_address() -> None:
    report = tried()
    assert report["doors"].keys() == {"page", "knowledge base", "image"}
    for door, outcomes in report["doors"].items():
        assert len(outcomes) > len(HOSTS) and not [url for url, what in outcomes.items() if what == "fetched"], door
    assert report["arrived"] == []
    assert report["public"] == ["fetched"] * 3 and report["reached"] == [PUBLIC]


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(find_chromium() is None, reason="Chromium is not installed: apt-get install chromium")
def test_a_browser_reaches_no_private_address_on_its_own_either() -> None:
    """Its redirects by header and script, frames, sockets, beacons and the like."""
    report = tried("--browser")
    fetched = [url.partition("/moved")[0] for url, what in report["doors"]["screenshot"].items() if what == "fetched"]
    assert all(PUBLIC in url for url in fetched)  # the public page, with what it could not load left out
    assert any(url.endswith("/reaching") for url in fetched)
    assert report["arrived"] == [] and report["reached"] == [PUBLIC]
