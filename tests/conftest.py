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


@pytest.fixture(scope="session")
def transformers_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `transformers serve`; it takes long to start, and answers for any model that a request names."""
    from tests.fakes.transformers_server import transformers_serve  # here, because it imports httpx

    with transformers_serve(tmp_path_factory.mktemp("transformers")) as url:
        yield url
