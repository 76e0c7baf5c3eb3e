"""The run: every host has a few workers, which take its pictures in order, ask, wait, ask again, and note the end."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.robotparser import RobotFileParser
from weakref import WeakValueDictionary

from tqdm import tqdm

from omgm.downloads.images.encode import repeat, store
from omgm.downloads.images.hosts import Host
from omgm.downloads.images.journal import Journal, Wanted, unfinished
from omgm.downloads.images.plan import make_plan
from omgm.downloads.images.reasons import Failure
from omgm.downloads.images.report import write_report
from omgm.downloads.images.settings import DownloadSettings
from omgm.downloads.images.web import Web, parse
from omgm.downloads.images.wikimedia import scaled
from retriever.types import Entity

ENCODERS = 2
"""Pictures that are decoded at once: each may need what `encode.MAX_PIXELS` says."""
_ROBOTS_BYTES = 500 << 10


def fetch_images(
    entities: Iterable[Entity], images: Path, settings: DownloadSettings, *, every: bool = False, retry: bool = False
) -> dict[str, Any]:
    """Returns the report of a run that downloads the pictures of a knowledge base to where `find_image` finds them.

    Started again after a kill, it ends with the same files as if it had not been stopped.

    Args:
        entities: The knowledge base, read once and first.
        images: The folder of the pictures; made when absent.
        settings: How to ask, and what is too much.
        every: All pictures of an entity, else its main image.
        retry: Ask for all that failed in earlier runs, else only for what may come by itself.

    Raises:
        ValueError: Another process is at work in the folder, or it was filled with other settings.
        OSError: A picture could not be written.
    """
    pinned = {"max_side": settings.max_side, "thumbnails": settings.thumbnails}
    with Journal(images, pinned) as journal:
        named = make_plan(tqdm(entities, desc="entities", unit=" entities"), images, journal, every)
        journal.ask_again(retry)
        try:
            this_run = asyncio.run(_Run(images, settings, journal).all())
        except BaseExceptionGroup as group:
            raise _first(group) from group
        return write_report(journal, named, this_run)


class _Run:
    def __init__(self, images: Path, settings: DownloadSettings, journal: Journal) -> None:
        self._images, self._settings, self._journal = images, settings, journal
        self._partial = unfinished(journal.folder)
        self._threads = ThreadPoolExecutor(ENCODERS, thread_name_prefix="pictures")
        self._same_content: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._fetched = self._failed = self._bytes = 0

    async def all(self) -> dict[str, Any]:
        """Fetches all that is wanted, and returns this run's figures."""
        start = time.monotonic()
        names = self._journal.hosts()
        [(total,)] = self._journal.rows(
            "SELECT count(*) FROM pictures WHERE state = 'wanted' AND run = ?", self._journal.run
        )
        queue = iter(names)
        given_up: dict[str, str] = {}
        with self._threads, tqdm(total=total, desc="pictures", unit=" pictures") as self._bar:
            async with Web(self._settings) as web, asyncio.TaskGroup() as group:
                for _ in range(min(self._settings.hosts, len(names))):
                    group.create_task(self._hosts(queue, web, given_up))
        seconds = time.monotonic() - start
        return {
            "fetched": self._fetched,
            "failed": self._failed,
            "bytes": self._bytes,
            "seconds": round(seconds, 1),
            "hosts_given_up": given_up,
        }

    async def _hosts(self, names: Iterator[str], web: Web, given_up: dict[str, str]) -> None:
        for name in names:  # shared with the other tasks
            pictures = self._journal.wanted(name)
            first = next(pictures)
            host = web.host(parse(first.url))
            if self._settings.robots:
                await self._read_robots(first, host, web)
            if not host.given_up:
                async with asyncio.TaskGroup() as group:
                    rest = _chain(first, pictures)
                    for _ in range(self._settings.per_host):
                        group.create_task(self._worker(rest, host, web))
            if host.given_up:
                left = self._journal.give_up(name, host.given_up)
                given_up[name] = host.given_up
                self._failed += left
                self._bar.update(left)

    async def _read_robots(self, picture: Wanted, host: Host, web: Web) -> None:
        try:
            url = parse(picture.url).copy_with(raw_path=b"/robots.txt")
            content = await self._patiently(str(url), host, web, _ROBOTS_BYTES)
        except Failure as failure:
            if failure.reason.retry:  # RFC 9309: who cannot say what is allowed allows nothing
                host.give_up(f"robots.txt: {failure}")
            return
        robots = RobotFileParser()
        robots.parse(content.decode(errors="replace").splitlines())
        host.obey(robots)

    async def _worker(self, pictures: Iterator[Wanted], host: Host, web: Web) -> None:
        for picture in pictures:  # shared with the host's other workers
            try:
                sent = await self._content(picture, host, web)
                await self._keep(picture, sent)
            except Failure as failure:
                if failure.reason.blames_host:
                    host.failed(str(failure))
                else:
                    host.answered()
                self._journal.failed(picture, failure)
                self._failed += 1
            else:
                host.answered()
                self._fetched += 1
                self._bytes += len(sent)
            self._bar.update()
            self._bar.set_postfix(failed=self._failed, MB=round(self._bytes / 1e6), refresh=False)
            if host.given_up:
                return

    async def _content(self, picture: Wanted, host: Host, web: Web) -> bytes:
        smaller = scaled(picture.url, self._settings.max_side) if self._settings.thumbnails else None
        if smaller is not None:
            try:
                return await self._patiently(smaller, host, web, self._settings.max_bytes)
            except Failure as failure:
                if failure.name not in ("gone", "refused"):  # the original may be smaller than the step
                    raise
        return await self._patiently(picture.url, host, web, self._settings.max_bytes)

    async def _patiently(self, url: str, host: Host, web: Web, limit: int) -> bytes:
        for attempt in range(self._settings.retries + 1):
            try:
                return await web.get(url, limit, lambda target: web.host(target).check_robots(target))
            except Failure as failure:
                wait = self._pause(failure, attempt)
                if wait > self._settings.max_wait_s:
                    host.give_up(f"asks to be left alone for {wait:.0f} s ({failure})")
                if not failure.reason.retry or attempt == self._settings.retries or host.given_up:
                    raise
                if failure.name == "busy" or failure.wait is not None:
                    host.pause(wait)
                else:
                    await asyncio.sleep(wait)
        raise AssertionError("unreachable: the last try returns or raises")

    def _pause(self, failure: Failure, attempt: int) -> float:
        if failure.wait is not None:
            return failure.wait
        growing: float = self._settings.backoff_s * 2**attempt * (0.5 + random.random())
        return min(growing, self._settings.max_wait_s)

    async def _keep(self, picture: Wanted, sent: bytes) -> None:
        """Puts a picture into its place and notes it; one that was sent before gets a link to the first."""
        sha = hashlib.sha256(sent).digest()
        path, partial = self._images / picture.name, self._partial / str(picture.id)
        loop = asyncio.get_running_loop()
        lock = self._same_content.setdefault(sha, asyncio.Lock())
        async with lock:  # the second of two waits until the first has a file
            same = self._journal.same(sha)
            if same is not None and (self._images / same[0]).is_file():
                await loop.run_in_executor(self._threads, repeat, self._images / same[0], path, partial)
                size = same[1]
            else:
                size = await loop.run_in_executor(self._threads, store, sent, self._settings.max_side, path, partial)
            self._journal.done(picture, sha, len(sent), size)


def _chain(first: Wanted, rest: Iterator[Wanted]) -> Iterator[Wanted]:
    yield first
    yield from rest


def _first(error: BaseException) -> BaseException:
    """Returns what went wrong in one of several tasks."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
