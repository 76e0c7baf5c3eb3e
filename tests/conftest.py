"""Fixtures that several folders of tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import retriever.models  # noqa: F401  first: test modules import transformers before anything of ours
from tests.browser import Browser, started

collect_ignore = ["lavis/oracle.py"]
"""Runs in an environment of its own, `make test-lavis`."""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium; skips the test where there is none."""
    yield from started(tmp_path_factory.mktemp("profile"))
