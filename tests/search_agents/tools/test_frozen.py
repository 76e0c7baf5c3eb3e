"""The frozen web: recordings are replayed exactly, including failures, without network access."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from PIL import Image

from search_agents.browsing.chromium import View
from search_agents.corpus import Corpus, NotRecorded
from search_agents.documents import WebDocument
from search_agents.records import Source
from search_agents.tools.frozen import frozen_fetch, frozen_image_search, frozen_screenshot, frozen_search, record_web
from search_agents.tools.page import Screenshot
from search_agents.tools.web import Fetch, WebSearch

T = TypeVar("T")
FOUND = [Source("Niger, «land»", "all\nabout it", "https://web/a"), Source("b", "", "https://web/b")]
PAGE = WebDocument(bytes(range(256)) * 3, "text/html; charset=koi8-r")
SHOT = Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8))


class FlakyWeb:
    """The requests, and which of them fail."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.away: set[str] = set()

    async def search(self, query: str) -> list[Source]:
        return self._answer(f"search {query}", FOUND)

    async def image_search(self, image: Image.Image) -> list[Source]:
        return self._answer("image", FOUND)

    async def fetch(self, url: str, limit: int) -> WebDocument:
        return self._answer(url, PAGE)

    async def screenshot(self, url: str, view: View) -> Image.Image:
        return self._answer(f"{view} {url}", SHOT)

    def _answer(self, name: str, result: T) -> T:
        self.asked.append(name)
        if name in self.away:
            raise OSError(f"{name} is away")
        return result


def run(awaitable: Awaitable[T]) -> T:
    async def wait() -> T:
        return await awaitable

    return asyncio.run(wait())


def bits(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.json"))}


def wrapped(corpus: Corpus, world: FlakyWeb | None) -> tuple[WebSearch, Fetch, Screenshot]:
    return (
        frozen_search(corpus, "searxng", None if world is None else world.search),
        frozen_fetch(corpus, None if world is None else world.fetch),
        frozen_screenshot(corpus, None if world is None else world.screenshot),
    )


def record(folder: Path, world: FlakyWeb, *queries: str) -> dict[str, Any]:
    search, fetch, screenshot = wrapped(Corpus(folder, record=True), world)
    return run(record_web(queries, search, fetch, screenshot, pages=5))


def test_what_is_recorded_is_replayed(tmp_path: Path) -> None:
    world = FlakyWeb()
    assert record(tmp_path, world, "Niger", "Niger") == {"search": 1, "page": 2, "screenshot": 4, "failed": {}}
    before = bits(tmp_path)
    assert len(before) == 7
    search, fetch, screenshot = wrapped(Corpus(tmp_path), None)
    assert run(search("Niger")) == FOUND
    assert run(fetch("https://web/a", 10_000)) == PAGE
    shown = run(screenshot("https://web/b", "full"))
    assert np.array_equal(np.asarray(shown), np.asarray(SHOT))
    assert record(tmp_path, world, "Niger") == {"search": 1, "page": 2, "screenshot": 4, "failed": {}}
    assert len(world.asked) == 7 and bits(tmp_path) == before


def test_nobody_is_asked_for_what_is_missing(tmp_path: Path) -> None:
    world = FlakyWeb()
    record(tmp_path, world, "Niger")
    asked = len(world.asked)
    search, fetch, screenshot = wrapped(Corpus(tmp_path), world)
    other = frozen_search(Corpus(tmp_path), "duckduckgo", world.search)
    missing: list[Awaitable[object]] = [
        search("niger"), other("Niger"), fetch("https://web/c", 10_000), screenshot("https://web/c", "top"),
    ]  # fmt: skip
    for one in missing:
        with pytest.raises(NotRecorded, match=r"this (search|page|screenshot) is not in the frozen corpus"):
            run(one)
    assert len(world.asked) == asked


def test_failures_are_replayed_and_recorded_again(tmp_path: Path) -> None:
    world = FlakyWeb()
    world.away = {"https://web/b"}
    report = record(tmp_path, world, "Niger")
    assert report == {
        "search": 1, "page": 1, "screenshot": 4, "failed": {"page https://web/b": "https://web/b is away"},
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"^https://web/b is away$"):
        run(wrapped(Corpus(tmp_path), None)[1]("https://web/b", 10_000))
    world.away.clear()
    world.asked.clear()
    assert record(tmp_path, world, "Niger")["page"] == 2
    assert world.asked == ["https://web/b"]


def test_a_search_by_image(tmp_path: Path) -> None:
    world = FlakyWeb()
    image = Image.new("RGB", (3, 2), "red")
    run(frozen_image_search(Corpus(tmp_path, record=True), "serpapi", world.image_search)(image))
    replayed = frozen_image_search(Corpus(tmp_path), "serpapi", None)
    assert run(replayed(Image.new("RGB", (3, 2), "red"))) == FOUND
    with pytest.raises(NotRecorded):
        run(replayed(Image.new("RGB", (3, 2), "blue")))


def test_nothing_can_be_recorded_without_a_function(tmp_path: Path) -> None:
    search, *_ = wrapped(Corpus(tmp_path, record=True), None)
    with pytest.raises(NotRecorded):
        run(search("a"))


def test_a_page_that_is_larger_than_asked_for(tmp_path: Path) -> None:
    fetch = frozen_fetch(Corpus(tmp_path, record=True), FlakyWeb().fetch)
    with pytest.raises(ValueError, match="has more than 100 bytes"):
        run(fetch("https://web/a", 100))
    assert run(fetch("https://web/a", 768)) == PAGE


@pytest.mark.parametrize("text", ["{", '{"result": 3}', '{"result": {}}', "[]", '{"result": {"value": [3]}}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    record(tmp_path, FlakyWeb(), "Niger")
    [path] = (tmp_path / "search").iterdir()
    path.write_text(text)
    with pytest.raises(ValueError, match=r"search/\w+\.json: not a recorded result"):
        run(wrapped(Corpus(tmp_path), None)[0]("Niger"))
