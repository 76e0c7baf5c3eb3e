"""Web access for agents: a search engine, pages and screenshots, live or replayed from a corpus."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import httpx
from PIL import Image

from chat_models.certificates import certificates
from chat_models.secrets import hidden, keep_secret
from omgm.downloads.guard import public_addresses
from omgm.downloads.images.reasons import Failure
from omgm.downloads.images.settings import DownloadSettings, user_agent
from omgm.downloads.images.web import Web
from omgm.settings import AgentSettings
from omgm.web_engines import duckduckgo, google_lens, searxng, serpapi
from retriever.files import write_whole
from retriever.images import encoded
from search_agents.browsing.chromium import Chromium
from search_agents.browsing.proxy import Connect
from search_agents.corpus import Corpus
from search_agents.documents import WebDocument
from search_agents.records import digest_of
from search_agents.state import Tool
from search_agents.tools.frozen import frozen_fetch, frozen_image_search, frozen_screenshot, frozen_search
from search_agents.tools.images import ocr, rotate, sharpen, zoom_in
from search_agents.tools.index import IndexTools
from search_agents.tools.page import Screenshot, open_page
from search_agents.tools.web import (
    Fetch,
    ImageWebSearch,
    PublishImage,
    WebSearch,
    web_image_search,
    web_pages,
    web_search,
)

SERPAPI_KEY = "SERPAPI_API_KEY"
"""The environment variable for SerpAPI's key."""


TOOLS = frozenset({
    "image_search", "text_search", "find_images", "ask_index", "open_page", "zoom_in", "rotate", "sharpen", "ocr",
    "web_search", "web_image_search",
})  # fmt: skip
"""The names of all tools that agents may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """The parts of the web that agents may use.

    Attributes:
        engine: The search engine; empty for none. SerpAPI's key is read from SERPAPI_API_KEY.
        searxng_url: URL of the server for the engine `searxng`.
        serpapi_url: URL of the server for the engine `serpapi`.
        published: A folder and the URL at which your web server makes it public, for image searches with SerpAPI, which
            fetches images by URL. Images that agents search for are written there, named by their hash.
        pages: How to fetch pages; `None` to fetch none.
        screenshots: Whether agents may see screenshots of pages; needs Chromium and `pages`.
        corpus: Where searches, pages and screenshots are recorded or replayed.
    """

    engine: Literal["", "searxng", "serpapi", "duckduckgo"] = ""
    searxng_url: str = ""
    serpapi_url: str = "https://serpapi.com"
    published: tuple[Path, str] | None = None
    pages: DownloadSettings | None = None
    screenshots: bool = False
    corpus: Corpus | None = None

    def __post_init__(self) -> None:
        """Checks that the engine has what it needs, unless a corpus replaces it."""
        if self.corpus is not None and not self.corpus.record:
            return
        if self.engine == "searxng" and not self.searxng_url:
            raise ValueError("the engine searxng needs the address of its server")
        if self.engine == "serpapi" and not os.environ.get(SERPAPI_KEY):
            raise ValueError(f"the engine serpapi needs a key in the environment variable {SERPAPI_KEY}")
        if self.screenshots and self.pages is None:
            raise ValueError("screenshots need pages: set how to fetch pages, with a contact")


def web_of(settings: AgentSettings, corpus: Corpus | None = None) -> WebSettings:
    """Returns the web settings of a profile; `corpus` overrides its own.

    Raises:
        ValueError: A setting requires another one.
    """
    if settings.searxng_url and settings.search_engine not in ("", "searxng"):
        raise ValueError(
            f"agents.searxng_url and agents.search_engine = {settings.search_engine!r} select two engines; set one"
        )
    engine = settings.search_engine or ("searxng" if settings.searxng_url else "")
    if bool(settings.publish_dir) != bool(settings.publish_url) or (settings.publish_dir and engine != "serpapi"):
        raise ValueError('agents.publish_dir and agents.publish_url belong together, with search_engine = "serpapi"')
    if corpus is None and settings.web_corpus:
        if not Path(settings.web_corpus).is_dir():
            raise ValueError(
                f"agents.web_corpus: {settings.web_corpus} is not a folder that `omgm download --queries` wrote"
            )
        corpus = Corpus(Path(settings.web_corpus))
    replays = corpus is not None and not corpus.record
    if settings.screenshots and not settings.contact and not replays:
        raise ValueError("agents.screenshots needs agents.contact")
    hosts = frozenset(host.lower() for host in settings.allow_private)
    agent = user_agent(settings.contact) if settings.contact else ""
    return WebSettings(
        engine=engine,
        searxng_url=settings.searxng_url,
        published=(Path(settings.publish_dir), settings.publish_url) if settings.publish_dir else None,
        pages=DownloadSettings(user_agent=agent, allow_private=hosts) if agent else None,
        screenshots=settings.screenshots,
        corpus=corpus,
    )


_ENOUGH_S = 15
"""Seconds for the content of a page; what has arrived by then is read."""


class WebAccess:
    """Functions that access the web, within one event loop.

    Attributes:
        search: Searches the web; `None` without a search engine.
        image_search: Searches the web by image; `None` if the engine cannot.
        fetch: Fetches pages; `None` if that is not allowed. Private networks are refused.
        screenshot: Takes screenshots; `None` if that is not allowed. Private networks are refused.
    """

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._client = httpx.AsyncClient(trust_env=False, verify=certificates())
        self._closing = AsyncExitStack()
        self._closing.push_async_callback(self._client.aclose)
        self.search: WebSearch | None = None
        self.image_search: ImageWebSearch | None = None
        self.fetch: Fetch | None = None
        self.screenshot: Screenshot | None = None
        corpus = settings.corpus
        if corpus is None or corpus.record:
            self._go_live()
        if corpus is not None:
            if settings.engine:
                self.search = frozen_search(corpus, settings.engine, self.search)
            if self.image_search is not None or (settings.engine == "serpapi" and not corpus.record):
                self.image_search = frozen_image_search(corpus, settings.engine, self.image_search)
            if self.fetch is not None or not corpus.record:
                self.fetch = frozen_fetch(corpus, self.fetch)
            if settings.screenshots:
                self.screenshot = frozen_screenshot(corpus, self.screenshot)

    def tools(self) -> list[Tool]:
        """Returns the searches as tools."""
        settings, tools = self._settings, []
        keep_secret(url=settings.searxng_url)
        name = hidden(settings.searxng_url) if settings.engine == "searxng" else settings.engine
        if self.search is not None:
            tools.append(web_search(self.search, name))
        if self.image_search is not None:
            tools.append(web_image_search(self.image_search, name))
        return tools

    async def aclose(self) -> None:
        """Closes the connections and the browser."""
        await self._closing.aclose()

    def _go_live(self) -> None:
        settings = self._settings
        if settings.engine == "searxng":
            self.search = searxng(settings.searxng_url, self._client)
        elif settings.engine == "duckduckgo":
            self.search = duckduckgo()
        elif settings.engine == "serpapi":
            key = os.environ[SERPAPI_KEY]
            self.search = serpapi(settings.serpapi_url, self._client, key)
            if settings.published is not None:
                publish = image_folder(*settings.published)
                self.image_search = google_lens(settings.serpapi_url, self._client, key, publish)
        if settings.pages is not None:
            web = Web(settings.pages)
            self._closing.push_async_exit(web)
            self.fetch = partial(_fetched, web)
            if settings.screenshots:
                connect = public_connect(settings.pages.allow_private)
                browser = Chromium(connect, settings.pages.user_agent)
                self._closing.push_async_callback(browser.aclose)
                self.screenshot = browser.screenshot


def agent_tools(index: IndexTools, web: WebAccess) -> list[Tool]:
    """Returns an agent's tools: for the index, for images, and for the parts of the web that it may use."""
    openers = [index.opener, *([web_pages(web.fetch)] if web.fetch is not None else [])]
    images = [zoom_in(), rotate(), sharpen(), ocr()]
    return [*index.tools(), *images, *web.tools(), open_page(openers, web.screenshot, index.changes)]


async def _fetched(web: Web, url: str, limit: int) -> WebDocument:
    try:
        found = await web.read(url, limit, enough_s=_ENOUGH_S)
    except Failure as failure:
        raise ValueError(f"{url[:200]} cannot be fetched: {failure}") from failure
    return WebDocument(found.data, found.content_type, found.is_cut, found.may_keep)


def image_folder(folder: Path, url: str) -> PublishImage:
    """Returns a function that publishes images in a folder that a web server makes public.

    Args:
        folder: The folder; created if it is missing.
        url: Its public URL.
    """

    async def publish(image: Image.Image) -> str:
        name = f"{digest_of(image)}.png"

        def write() -> None:
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / name).exists():
                write_whole(folder / name, encoded(image))

        await asyncio.to_thread(write)
        return f"{url.rstrip('/')}/{name}"

    return publish


def public_connect(allow_private: frozenset[str] = frozenset()) -> Connect:
    """Returns a function that opens connections, to public addresses only.

    Args:
        allow_private: Hosts (`name` or `name:port`) that may be on a private network.
    """

    async def connect(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            addresses = await public_addresses(host, port, allow_private)
        except Failure as failure:
            raise (ValueError if failure.name == "private_address" else OSError)(str(failure)) from failure
        for address in addresses[:-1]:
            try:  # connect to the checked address, not to the name, which could resolve differently now
                return await asyncio.open_connection(address, port)
            except OSError:
                continue
        return await asyncio.open_connection(addresses[-1], port)

    return connect
