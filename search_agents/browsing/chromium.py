"""Takes screenshots of web pages with a headless Chromium, controlled by the DevTools protocol over a pipe."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import os
import shutil
from collections.abc import AsyncIterator
from typing import Any, Literal

from PIL import Image

from search_agents.browsing.devtools import BrowserError, DevTools
from search_agents.browsing.proxy import Connect, FilteringProxy

View = Literal["top", "full"]
"""The first screen of a page, 1024 x 1024 pixels, or the whole page, 512 wide, as in MMSearch (arXiv 2409.12959)."""

VIEWPORTS: dict[View, tuple[int, int]] = {"top": (1024, 1024), "full": (512, 1024)}
MAX_HEIGHT = 10_240
"""Maximum height of a whole page in pixels, more than any answer needs."""
PAGES = 4
"""Maximum number of open pages."""
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = [
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--disable-extensions",
    "--disable-sync",
    "--disable-component-update",
    "--disable-background-networking",
    "--disable-default-apps",
    "--disable-features=Translate,MediaRouter",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",  # otherwise WebRTC bypasses the proxy
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # its name in older versions
    "--hide-scrollbars",
    "--mute-audio",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--password-store=basic",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
]


def find_chromium() -> str | None:
    """Returns the path of Chromium or Chrome, or `None` if neither is installed."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Chromium:
    """A headless Chromium within one event loop, started at the first screenshot and then shared.

    Every page gets its own context, so that no cookies, cache or storage outlive it. All connections go through a
    `FilteringProxy`. Nothing is downloaded, and no page can read the disk. As root, Chromium runs without its sandbox,
    because it refuses to run with it.

    Args:
        connect: Opens or refuses the browser's connections.
        user_agent: The user agent.
        seconds: Maximum loading time of a page; then the screenshot is taken as it is.
        executable: The browser; by default the installed one.
    """

    def __init__(
        self, connect: Connect, user_agent: str, *, seconds: float = 10, executable: str | None = None
    ) -> None:
        self._proxy = FilteringProxy(connect)
        self._user_agent, self._seconds = user_agent, seconds
        self._slots = asyncio.Semaphore(PAGES)
        self._executable = executable
        self._starting = asyncio.Lock()
        self._port = 0
        self._pipe: DevTools | None = None

    async def screenshot(self, url: str, view: View) -> Image.Image:
        """Returns a screenshot of a page, RGB.

        Args:
            url: The http(s) URL of the page.
            view: How much of the page to show.

        Raises:
            BrowserError: The page cannot be opened, or there is no browser.
        """
        if not url.lower().startswith(("http://", "https://")):
            raise BrowserError(f"{url[:200]} is not an http(s) address")
        async with self._slots:
            pipe = await self._started()
            try:
                async with _page(pipe) as session:
                    return await self._taken(pipe, session, url, view)
            except (OSError, KeyError, TypeError, TimeoutError) as error:
                raise BrowserError(f"the browser failed: {type(error).__name__} {error}"[:300]) from error

    async def aclose(self) -> None:
        """Stops the browser and its proxy."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            await pipe.aclose()
        await self._proxy.aclose()

    async def _started(self) -> DevTools:
        async with self._starting:
            if self._pipe is None or self._pipe.ended:
                path = self._executable or find_chromium()
                if path is None:
                    raise BrowserError("screenshots need Chromium: apt-get install chromium")
                if self._pipe is not None:
                    await self._pipe.aclose()
                self._port = self._port or await self._proxy.start()
                self._pipe = await DevTools.open([path, *_FLAGS, *self._flags()])
            return self._pipe

    def _flags(self) -> list[str]:
        flags = [
            f"--proxy-server=http://127.0.0.1:{self._port}",
            "--proxy-bypass-list=<-loopback>",  # loopback goes through the proxy too
            f"--user-agent={self._user_agent}",
        ]
        return [*flags, "--no-sandbox"] if os.geteuid() == 0 else flags

    async def _taken(self, pipe: DevTools, session: str, url: str, view: View) -> Image.Image:
        width, height = VIEWPORTS[view]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await pipe.ask("Emulation.setDeviceMetricsOverride", metrics, session)
        await pipe.ask("Page.enable", {}, session)
        await pipe.ask("Page.setLifecycleEventsEnabled", {"enabled": True}, session)
        opened: dict[str, Any] = {"errorText": f"no answer in {self._seconds:g} s"}
        with contextlib.suppress(TimeoutError):  # a page that never stops loading is shown as it is by then
            async with asyncio.timeout(self._seconds):
                opened = await pipe.ask("Page.navigate", {"url": url}, session)
                if not opened.get("errorText"):
                    await pipe.quiet(session, opened["loaderId"])
                    if view == "full":
                        await _scroll(pipe, session)
        if opened.get("errorText"):
            raise BrowserError(f"{url[:200]} cannot be opened: {opened['errorText']}")
        if view == "full":
            size = (await pipe.ask("Page.getLayoutMetrics", {}, session))["cssContentSize"]
            height = max(1, min(int(size["height"]), MAX_HEIGHT))
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        taking = {"format": "png", "clip": clip, "captureBeyondViewport": view == "full"}
        try:
            shot = await pipe.ask("Page.captureScreenshot", taking, session, seconds=max(self._seconds, 1.0))
        except TimeoutError as error:
            raise BrowserError(f"{url[:200]} showed nothing within {2 * self._seconds:g} s") from error
        return await asyncio.to_thread(_decoded, shot["data"])


@contextlib.asynccontextmanager
async def _page(pipe: DevTools) -> AsyncIterator[str]:
    """Yields the session of a new page in its own context."""
    context = (await pipe.ask("Target.createBrowserContext", {"disposeOnDetach": True}))["browserContextId"]
    session = ""
    try:
        await pipe.ask("Browser.setDownloadBehavior", {"behavior": "deny", "browserContextId": context})
        page = await pipe.ask("Target.createTarget", {"url": "about:blank", "browserContextId": context})
        attaching = {"targetId": page["targetId"], "flatten": True}
        session = (await pipe.ask("Target.attachToTarget", attaching))["sessionId"]
        yield session
    finally:
        pipe.forget(session)
        if not pipe.ended:
            pipe.tell("Target.disposeBrowserContext", {"browserContextId": context})


async def _scroll(pipe: DevTools, session: str) -> None:
    """Scrolls through a page and back, so that lazily loaded content appears."""
    size = (await pipe.ask("Page.getLayoutMetrics", {}, session))["cssContentSize"]
    step = VIEWPORTS["full"][1]
    for at in [*range(step, min(int(size["height"]), MAX_HEIGHT), step), 0]:
        await pipe.ask("Runtime.evaluate", {"expression": f"scrollTo(0, {at})", "timeout": 1000}, session)
        await asyncio.sleep(0.05)


def _decoded(data: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
