"""Screenshots of loopback pages by a real Chromium."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chat_models.background import BackgroundLoop
from omgm.web_access import public_connect
from search_agents.browsing.chromium import Chromium, View, find_chromium
from search_agents.browsing.devtools import BrowserError, DevTools, remove_folders_of_killed
from search_agents.tools.page import slices, slim
from tests.fakes.web import FakeWeb, serve_web

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="Chromium is not installed: apt-get install chromium"),
]

TALL = b"""<body style="margin:0;background:white"><div style="height:100vh;background:#00f"></div>
<div style="height:2000px"></div><p style="height:20px;background:#f00;margin:0"></p></body>"""
REACHING = """<body style="margin:0;background:#0f0"><script>
fetch("http://{0}/page/fetch"); new Image().src = "http://{0}/page/image"; new WebSocket("ws://{0}/page/socket");
navigator.sendBeacon("http://{0}/page/beacon"); alert("hello"); open("http://{0}/page/window");
var peer = new RTCPeerConnection({{iceServers: [{{urls: "stun:{1}"}}]}}); peer.createDataChannel("x");
peer.createOffer().then(offer => peer.setLocalDescription(offer)); new WebTransport("https://{1}/x");
</script><iframe src="http://{0}/page/frame"></iframe><link rel="stylesheet" href="http://{0}/page/style">
<object data="file:///etc/passwd"></object></body>"""


class Shots:
    """A browser in its own event loop."""

    def __init__(self, web: FakeWeb) -> None:
        self.loop = BackgroundLoop()
        self.web = web
        self.browser = Chromium(public_connect(frozenset({web.place})), "omgm-test", seconds=30)

    def take(self, path: str, view: View = "top") -> Image.Image:
        url = path if "://" in path else self.web.url(path)
        return self.loop.submit(self.browser.screenshot(url, view)).result(120)


@pytest.fixture(scope="module")
def secret() -> Iterator[FakeWeb]:
    with serve_web({}) as pages:
        yield pages


@pytest.fixture(scope="module")
def datagrams() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        yield listening


@pytest.fixture(scope="module")
def shots(secret: FakeWeb, datagrams: socket.socket) -> Iterator[Shots]:
    reaching = REACHING.format(secret.place, f"127.0.0.1:{datagrams.getsockname()[1]}").encode()
    files = {"tall.html": TALL, "reaching.html": reaching, "inner.html": b"<p>inner"}
    with serve_web(files) as web:
        shots = Shots(web)
        yield shots
        shots.loop.submit(shots.browser.aclose()).result(60)
        shots.loop.close()


def test_the_top_of_a_page(shots: Shots) -> None:
    image = shots.take("page/tall.html")
    assert (image.size, image.mode) == ((1024, 1024), "RGB")
    assert image.getpixel((500, 500)) == (0, 0, 255)
    agents = {headers["user-agent"] for _, headers in shots.web.log}
    assert agents == {"omgm-test"}


def test_a_whole_page_slimmed(shots: Shots) -> None:
    """An element as high as the screen keeps that height, whatever the page's height."""
    image = shots.take("page/tall.html", "full")
    assert image.size == (512, 1024 + 2000 + 20)
    assert image.getpixel((10, 1023)) == (0, 0, 255) and image.getpixel((10, 1024)) == (255, 255, 255)
    assert image.getpixel((511, 3043)) == (255, 0, 0)
    slimmed = slim(image)
    assert slimmed.height < 100
    colors = set(map(tuple, np.asarray(slimmed).reshape(-1, 3).tolist()))
    assert colors == {(0, 0, 255), (255, 255, 255), (255, 0, 0)}
    assert len(slices(image)) == 6 and len(slices(slimmed)) == 1


def test_many_pages_are_opened_by_one_browser_at_once(shots: Shots, monkeypatch: pytest.MonkeyPatch) -> None:
    """The published code of MMSearch starts a new browser for every page, one after another."""
    waiting = shots.browser._proxy._connect
    both, connections = asyncio.Event(), 0

    async def meet(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        nonlocal connections
        connections += 1
        if connections == 2:
            both.set()
        await both.wait()
        return await waiting(host, port)

    async def take() -> list[Image.Image]:
        pipe = await shots.browser._started()
        url = shots.web.url("page/tall.html")
        images = await asyncio.gather(*(shots.browser.screenshot(f"{url}?{number}", "top") for number in range(2)))
        assert await shots.browser._started() is pipe
        return images

    monkeypatch.setattr(shots.browser._proxy, "_connect", meet)
    assert [image.size for image in shots.loop.submit(take()).result(120)] == [(1024, 1024)] * 2


def test_nothing_of_a_page_reaches_a_private_address(shots: Shots, secret: FakeWeb, datagrams: socket.socket) -> None:
    image = shots.take("page/reaching.html")
    assert image.getpixel((1000, 1000)) == (0, 255, 0)  # the page itself is shown, its dialog is closed
    assert secret.log == []
    with pytest.raises(BlockingIOError):  # no STUN, no QUIC
        datagrams.recv(100)


def test_a_private_address_is_refused_and_so_is_a_redirect_to_one(shots: Shots, secret: FakeWeb) -> None:
    for url in (secret.url("page/a.html"), secret.url("page/a.html").replace("127.0.0.1", "localhost")):
        with pytest.raises(BrowserError, match="cannot be opened: net::ERR_"):
            shots.take(url)
    with pytest.raises(BrowserError, match="cannot be opened: net::ERR_"):
        shots.take("private/inner.html")  # redirects to localhost, which is not allowed
    assert secret.log == []


@pytest.mark.parametrize("url", ["file:///etc/passwd", "chrome://version", "data:text/html,x", "javascript:1"])
def test_other_addresses_are_refused(shots: Shots, url: str) -> None:
    with pytest.raises(BrowserError, match=r"is not an http\(s\) address"):
        shots.loop.submit(shots.browser.screenshot(url, "top")).result(60)


def test_a_silent_server_is_given_up(shots: Shots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shots.browser, "_seconds", 0.2)
    with pytest.raises(BrowserError, match=r"no answer in 0\.2 s"):
        shots.take("hang/a.html")


@pytest.mark.slow
def test_a_killed_browser_is_started_again(shots: Shots) -> None:
    pipe = shots.loop.submit(shots.browser._started()).result(60)
    os.killpg(pipe._process.pid, signal.SIGKILL)
    shots.loop.submit(_ended(pipe)).result(60)
    assert shots.take("page/tall.html").size == (1024, 1024)


async def _ended(pipe: DevTools) -> None:
    while not pipe.ended:
        await asyncio.sleep(0.01)


def test_without_a_browser_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def ask() -> None:
        browser = Chromium(public_connect(), "x", executable="/nonexistent/chromium")
        try:
            await browser.screenshot("http://127.0.0.1/", "top")
        finally:
            await browser.aclose()

    with pytest.raises(BrowserError, match="/nonexistent/chromium did not start"):
        asyncio.run(ask())
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_page_that_never_shows_anything_is_said(shots: Shots) -> None:
    shots.web.files["busy.html"] = b"<p>text<script>while (true) {}</script>"
    browser = Chromium(public_connect(frozenset({shots.web.place})), "omgm-test", seconds=1.5)
    try:
        with pytest.raises(BrowserError, match=r"busy\.html showed nothing within 3 s"):
            shots.loop.submit(browser.screenshot(shots.web.url("page/busy.html"), "top")).result(60)
    finally:
        shots.loop.submit(browser.aclose()).result(60)


def test_folders_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    kept, gone, other = (f"omgm-chromium-{os.getpid()}-a", f"omgm-chromium-{ended.pid}-b", "omgm-chromium-c")
    for name in (kept, gone, other):
        (tmp_path / name / "Default").mkdir(parents=True)
    remove_folders_of_killed()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([kept, other])
