"""The agents' web access, built from settings."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from PIL import Image

from omgm.downloads.images.settings import DownloadSettings
from omgm.web_access import SERPAPI_KEY, WebAccess, WebSettings, image_folder, public_connect
from search_agents.corpus import Corpus, NotRecorded
from tests.fakes.web import serve_web


def names(settings: WebSettings) -> list[str]:
    async def run() -> list[str]:
        access = WebAccess(settings)
        try:
            return [tool.name for tool in access.tools()]
        finally:
            await access.aclose()

    return asyncio.run(run())


def test_tools_by_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert names(WebSettings()) == []
    assert names(WebSettings(engine="searxng", searxng_url="http://a")) == ["web_search"]
    monkeypatch.setenv(SERPAPI_KEY, "secret")
    assert names(WebSettings(engine="serpapi")) == ["web_search"]
    published = WebSettings(engine="serpapi", published=(tmp_path, "https://a"))
    assert names(published) == ["web_search", "web_image_search"]
    monkeypatch.delenv(SERPAPI_KEY)
    replayed = WebSettings(engine="serpapi", corpus=Corpus(tmp_path))  # needs no key
    assert names(replayed) == ["web_search", "web_image_search"]


def test_settings_that_miss_something_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SERPAPI_KEY, raising=False)
    with pytest.raises(ValueError, match="needs a key in the environment variable SERPAPI_API_KEY"):
        WebSettings(engine="serpapi")
    with pytest.raises(ValueError, match="searxng needs the address of its server"):
        WebSettings(engine="searxng")
    with pytest.raises(ValueError, match="screenshots need pages"):
        WebSettings(screenshots=True)


def test_a_search_by_image_publishes_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google Lens fetches the image from the URL where the operator's web server serves the folder."""
    monkeypatch.setenv(SERPAPI_KEY, "secret")
    match = {"title": "Flag of Niger", "link": "https://example.org/flag", "source": "Example"}
    with serve_web({"search.json": json.dumps({"visual_matches": [match]}).encode()}) as web:
        settings = WebSettings(
            engine="serpapi",
            serpapi_url=web.url("good"),
            published=(tmp_path / "public", "https://images.example/agent/"),
            corpus=Corpus(tmp_path / "corpus", record=True),
        )

        async def ask() -> list[str]:
            access = WebAccess(settings)
            assert access.image_search is not None
            try:
                return [source.url for _ in range(2) for source in await access.image_search(Image.new("RGB", (4, 3)))]
            finally:
                await access.aclose()

        assert asyncio.run(ask()) == ["https://example.org/flag"] * 2
    [path] = web.paths()
    [file] = (tmp_path / "public").iterdir()
    assert parse_qs(urlsplit(path).query)["url"] == [f"https://images.example/agent/{file.name}"]
    with Image.open(file) as image:
        assert image.size == (4, 3)


def test_pages_are_frozen_only_as_far_as_they_are_fetched(tmp_path: Path) -> None:
    async def fetches(settings: WebSettings) -> bool:
        access = WebAccess(settings)
        try:
            return access.fetch is not None
        finally:
            await access.aclose()

    recording = Corpus(tmp_path, record=True)
    assert not asyncio.run(fetches(WebSettings(corpus=recording)))
    assert asyncio.run(fetches(WebSettings(corpus=recording, pages=DownloadSettings(user_agent="test"))))
    assert asyncio.run(fetches(WebSettings(corpus=Corpus(tmp_path))))


async def test_a_replay_asks_nobody(tmp_path: Path) -> None:
    with serve_web({"search": b'{"results": []}', "a.html": b"<p>a"}) as web:
        pages = DownloadSettings(user_agent="test", allow_private=frozenset({web.place}))
        settings = WebSettings(
            engine="searxng", searxng_url=web.url("good"), pages=pages, screenshots=True, corpus=Corpus(tmp_path)
        )

        access = WebAccess(settings)
        assert access.search is not None and access.fetch is not None and access.screenshot is not None
        for one in (
            access.search("a"),
            access.fetch(web.url("page/a.html"), 99),
            access.screenshot("http://a", "top"),
        ):
            with pytest.raises(NotRecorded):
                await one
        await access.aclose()
        assert web.log == []


async def test_an_image_folder_names_by_content(tmp_path: Path) -> None:
    place = image_folder(tmp_path / "new", "https://a/")
    first, second, again = [await place(Image.new("RGB", (2, 2), color)) for color in ("red", "blue", "red")]
    assert first == again != second and first.startswith("https://a/") and first.endswith(".png")
    assert len(list((tmp_path / "new").iterdir())) == 2


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "10.0.0.1", "192.168.1.1", "::1", "fe80::1", "169.254.169.254"]
)
def test_private_addresses_are_not_connected_to(host: str) -> None:
    async def connect() -> None:
        await public_connect()(host, 80)

    with pytest.raises(ValueError, match="private_address"):
        asyncio.run(connect())


def test_a_name_is_resolved_once_and_its_address_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second resolution could return another address than the one that was checked."""
    connected: list[str] = []

    async def open_connection(host: str, port: int) -> None:
        connected.append(host)

    async def run(*addresses: str) -> None:
        loop = asyncio.get_running_loop()
        answers = iter([[(0, 0, 0, "", (address, 80)) for address in addresses]])

        async def resolve(*arguments: object, **named: object) -> object:
            return next(answers)

        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        await public_connect()("example.org", 80)

    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    asyncio.run(run("93.184.216.34"))
    assert connected == ["93.184.216.34"]
    with pytest.raises(ValueError, match=r"example\.org:80 is 127\.0\.0\.1"):
        asyncio.run(run("93.184.216.34", "127.0.0.1"))
    assert connected == ["93.184.216.34"]
