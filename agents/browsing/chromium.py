"""Screenshots of web pages by a headless Chromium, driven over a pipe by its own DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import itertools
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from typing import Any, Literal

from PIL import Image

from agents.browsing.proxy import Connect, FilteringProxy

View = Literal["top", "full"]
"""The first screen of a page, 1024 x 1024, or the whole page, 512 wide; sizes of MMSearch (arXiv 2409.12959)."""

VIEWPORTS: dict[View, tuple[int, int]] = {"top": (1024, 1024), "full": (512, 1024)}
MAX_HEIGHT = 10_240
"""The most pixels of a whole page from its top, more than any answer reads."""
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
    "--disable-features=Translate,MediaRouter,WebRtcHideLocalIpsWithMdns",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--password-store=basic",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
]
_MESSAGE_BYTES = 256 << 20
_START_S, _REPLY_S, _CLOSE_S = 60.0, 30.0, 5.0


class BrowserError(ValueError):
    """The browser is missing, or has failed, or a page cannot be opened."""


def find_chromium() -> str | None:
    """Returns the path of Chromium or Chrome, `None` if neither is installed."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Chromium:
    """A headless Chromium within one event loop, started at the first screenshot and shared by all.

    Every page gets a context of its own: no cookie, cache or storage outlives it. All connections go through a
    `FilteringProxy`. Nothing is downloaded, and no page sees the disk. As root, Chromium runs without its sandbox,
    because it refuses to run with it.

    Args:
        connect: Opens the browser's connections, or refuses to.
        user_agent: The user agent.
        seconds: How long a page may load; then what is there is taken.
        pages: Pages open at once.
        executable: The browser; by default the one of the distribution.
    """

    def __init__(
        self, connect: Connect, user_agent: str, *, seconds: float = 10, pages: int = 4, executable: str | None = None
    ) -> None:
        self._proxy = FilteringProxy(connect)
        self._user_agent, self._seconds = user_agent, seconds
        self._slots = asyncio.Semaphore(pages)
        self._executable = executable
        self._starting = asyncio.Lock()
        self._port = 0
        self._pipe: _Pipe | None = None

    async def screenshot(self, url: str, view: View) -> Image.Image:
        """Returns an image of a page, RGB.

        Args:
            url: Its http(s) address.
            view: How much of it.

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
        """Ends the browser and its proxy."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            await pipe.aclose()
        await self._proxy.aclose()

    async def _started(self) -> _Pipe:
        async with self._starting:
            if self._pipe is None or self._pipe.ended:
                path = self._executable or find_chromium()
                if path is None:
                    raise BrowserError("screenshots need Chromium: apt-get install chromium")
                if self._pipe is not None:
                    await self._pipe.aclose()
                self._port = self._port or await self._proxy.start()
                self._pipe = await _Pipe.open([path, *_FLAGS, *self._flags()])
            return self._pipe

    def _flags(self) -> list[str]:
        flags = [
            f"--proxy-server=http://127.0.0.1:{self._port}",
            "--proxy-bypass-list=<-loopback>",  # loopback goes through the proxy as well
            f"--user-agent={self._user_agent}",
        ]
        return [*flags, "--no-sandbox"] if os.geteuid() == 0 else flags

    async def _taken(self, pipe: _Pipe, session: str, url: str, view: View) -> Image.Image:
        width, height = VIEWPORTS[view]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await pipe.ask("Emulation.setDeviceMetricsOverride", metrics, session)
        await pipe.ask("Page.enable", {}, session)
        await pipe.ask("Page.setLifecycleEventsEnabled", {"enabled": True}, session)
        opened: dict[str, Any] = {"errorText": f"no answer in {self._seconds:g} s"}
        with contextlib.suppress(TimeoutError):  # a page that never rests is taken as it is by then
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
        shot = await pipe.ask("Page.captureScreenshot", taking, session)
        return await asyncio.to_thread(_decoded, shot["data"])


@contextlib.asynccontextmanager
async def _page(pipe: _Pipe) -> AsyncIterator[str]:
    """Yields the session of a new page in a context of its own."""
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


async def _scroll(pipe: _Pipe, session: str) -> None:
    """Scrolls through a page, so that it loads what it loads late, and back."""
    size = (await pipe.ask("Page.getLayoutMetrics", {}, session))["cssContentSize"]
    step = VIEWPORTS["full"][1]
    for at in [*range(step, min(int(size["height"]), MAX_HEIGHT), step), 0]:
        await pipe.ask("Runtime.evaluate", {"expression": f"scrollTo(0, {at})", "timeout": 1000}, session)
        await asyncio.sleep(0.05)


def _decoded(data: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")


class _Pipe:
    """The browser's process and its protocol: JSON texts that end with a null byte."""

    def __init__(self, process: asyncio.subprocess.Process, folder: tempfile.TemporaryDirectory[str]) -> None:
        self._process, self._folder = process, folder
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._quiet: dict[str, dict[str, asyncio.Event]] = {}
        self._reading = asyncio.ensure_future(self._read())
        self.ended = False

    @classmethod
    async def open(cls, command: list[str]) -> _Pipe:
        """Starts the browser.

        Raises:
            BrowserError: It did not start.
        """
        folder = tempfile.TemporaryDirectory(prefix="omgm-chromium-", ignore_cleanup_errors=True)
        # The protocol is spoken on file descriptors 3 and 4, which the shell makes of standard input and output.
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null', "sh", *command, f"--user-data-dir={folder.name}",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            limit=_MESSAGE_BYTES, start_new_session=True,
        )  # fmt: skip
        pipe = cls(process, folder)
        try:
            await pipe.ask("Browser.getVersion", seconds=_START_S)
        except (OSError, TimeoutError) as error:
            await pipe.aclose()
            raise BrowserError(f"{command[0]} did not start") from error
        return pipe

    async def ask(
        self, method: str, values: dict[str, Any] | None = None, session: str = "", seconds: float = _REPLY_S
    ) -> dict[str, Any]:
        """Sends a command and returns its result.

        Raises:
            BrowserError: The browser refused.
            OSError: It has ended.
            TimeoutError: It did not answer.
        """
        if self.ended:
            raise OSError("it has ended")
        number = self.tell(method, values, session)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            answer = await asyncio.wait_for(self._waiting[number], seconds)
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            raise BrowserError(f"the browser refused {method}: {answer['error'].get('message')}")
        result: dict[str, Any] = answer["result"]
        return result

    def tell(self, method: str, values: dict[str, Any] | None = None, session: str = "") -> int:
        """Sends a command without waiting, and returns its number."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": values or {}}
        if session:
            message["sessionId"] = session
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        return number

    async def quiet(self, session: str, loader: str) -> None:
        """Waits until a document has loaded, and hardly anything is loaded any more."""
        await self._event(session, loader).wait()

    def forget(self, session: str) -> None:
        """Forgets a page."""
        self._quiet.pop(session, None)

    def _event(self, session: str, loader: str) -> asyncio.Event:
        return self._quiet.setdefault(session, {}).setdefault(loader, asyncio.Event())

    async def aclose(self) -> None:
        """Ends the browser, by force if it does not end by itself."""
        if self._process.returncode is None and not self.ended:
            self.tell("Browser.close")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 0 if self.ended else _CLOSE_S)
        with contextlib.suppress(ProcessLookupError):  # it has gone, and so has its group
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await asyncio.to_thread(self._folder.cleanup)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                self._take(json.loads((await self._process.stdout.readuntil(b"\0"))[:-1]))
        except (EOFError, OSError, ValueError, asyncio.LimitOverrunError):
            pass  # the browser has ended, or speaks no protocol that is known here
        finally:
            self.ended = True
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(OSError("it has ended"))

    def _take(self, message: dict[str, Any]) -> None:
        session, values = message.get("sessionId", ""), message.get("params", {})
        if "id" in message:
            future = self._waiting.get(message["id"])
            if future is not None and not future.done():
                future.set_result(message)
        elif message.get("method") == "Page.lifecycleEvent" and values["name"] == "networkAlmostIdle":
            self._event(session, values["loaderId"]).set()
        elif message.get("method") == "Page.javascriptDialogOpening":
            self.tell("Page.handleJavaScriptDialog", {"accept": False}, session)
