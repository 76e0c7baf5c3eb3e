"""Limits for one host: number of concurrent requests, rate, when to wait and when to give up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.robotparser import RobotFileParser

import httpx

from omgm.downloads.images.reasons import Failure
from omgm.downloads.images.settings import DownloadSettings

_BURST_S = 1.0


class Host:
    """One host and port, within one event loop."""

    def __init__(self, url: httpx.URL, settings: DownloadSettings) -> None:
        self.place = place_of(url)
        self.given_up = ""
        self._robots: RobotFileParser | None = None
        self._settings = settings
        self._slots = asyncio.Semaphore(settings.per_host)
        self._interval = 1 / settings.per_second
        self._next_start = self._resume = self._paid_until = 0.0
        self._failures = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits until a request may start; the request is made inside the block."""
        loop = asyncio.get_running_loop()
        async with self._slots:
            while (wait := max(self._resume, self._next_start) - loop.time()) > 0:
                await asyncio.sleep(wait)
            self._next_start = loop.time() + self._interval
            yield

    async def pay(self, count: int) -> None:
        """Waits as long as reading `count` bytes should have taken, with one second of slack."""
        now = asyncio.get_running_loop().time()
        self._paid_until = max(self._paid_until, now) + count * 8e-6 / self._settings.megabits
        await asyncio.sleep(max(0.0, self._paid_until - now - _BURST_S))

    def pause(self, seconds: float) -> None:
        """Starts no further requests for `seconds` seconds."""
        self._resume = max(self._resume, asyncio.get_running_loop().time() + seconds)

    def obey(self, robots: RobotFileParser) -> None:
        """Follows a robots.txt from now on, including its Crawl-delay."""
        self._robots = robots
        delay = robots.crawl_delay(self._settings.user_agent)
        self._interval = max(self._interval, float(delay or 0))

    def check_robots(self, url: httpx.URL) -> None:
        """Raises a `Failure` if the host's robots.txt is known and forbids a URL."""
        if self._robots is not None and not self._robots.can_fetch(self._settings.user_agent, str(url)):
            raise Failure("robots", self.place)

    def answered(self) -> None:
        """Records that the host works."""
        self._failures = 0

    def failed(self, detail: str) -> None:
        """Records an image that failed after all attempts because of the host; gives up after too many in a row."""
        self._failures += 1
        if self._failures >= self._settings.give_up_after:
            self.give_up(f"{self._failures} failures in a row, the last: {detail}")

    def give_up(self, detail: str) -> None:
        """Makes no more requests to the host in this run."""
        self.given_up = self.given_up or detail


def place_of(url: httpx.URL) -> str:
    """Returns `host` or `host:port` of a URL."""
    return url.netloc.decode("ascii")
