"""Downloads images: every host has a few workers, which request its images in order, retry, and record the outcome."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.robotparser import RobotFileParser
from weakref import WeakValueDictionary

from indexes.image_source import thumbnail
from indexes.progress import progress_bar
from indexes.svg import load_any
from omgm.downloads.images.journal import Journal, WantedImage, unfinished
from omgm.downloads.images.plan import make_plan
from omgm.downloads.images.reasons import Failure
from omgm.downloads.images.report import write_report
from omgm.downloads.images.settings import DownloadSettings
from omgm.downloads.images.web import Host, Web, parse
from retriever.files import replacing, write_whole
from retriever.images import ImageError
from retriever.types import Entity

ENCODERS = 2
"""Number of images decoded at the same time; for the memory that each may need, see `encode.MAX_PIXELS`."""
_ROBOTS_BYTES = 500 << 10


def fetch_images(
    entities: Iterable[Entity], images: Path, settings: DownloadSettings, *, every: bool = False, retry: bool = False
) -> dict[str, Any]:
    """Downloads the images of a knowledge base to where `find_image` finds them, and returns the run's report.

    A run that is killed and restarted produces the same files as an uninterrupted one.

    Args:
        entities: The knowledge base, read once, before anything is fetched.
        images: The folder of the images; created if absent.
        settings: How to request images, and limits.
        every: Whether to fetch all images of an entity, or only its main image.
        retry: Whether to retry all earlier failures, or only temporary ones.

    Raises:
        ValueError: Another process is using the folder, or it was filled with other settings.
        OSError: An image could not be written.
    """
    pinned = {"max_side": settings.max_side, "thumbnails": settings.thumbnails}
    with Journal(images, pinned) as journal:
        named = make_plan(progress_bar(entities, desc="read knowledge base", unit="entity"), images, journal, every)
        journal.ask_again(retry)
        try:
            this_run = asyncio.run(_Run(images, settings, journal).all())
        except BaseExceptionGroup as group:
            raise _first(group) from group
        return write_report(journal, named, this_run)


class _Run:
    def __init__(self, images: Path, settings: DownloadSettings, journal: Journal) -> None:
        self._images, self._settings, self._journal = images, settings, journal
        self._temporary = unfinished(journal.folder)
        self._threads = ThreadPoolExecutor(ENCODERS, thread_name_prefix="images")
        self._same_content: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._fetched = self._failed = self._bytes = 0

    async def all(self) -> dict[str, Any]:
        """Fetches all wanted images and returns this run's figures."""
        start = time.monotonic()
        names = self._journal.hosts()
        [(total,)] = self._journal.rows(
            "SELECT count(*) FROM pictures WHERE state = 'wanted' AND run = ?", self._journal.run
        )
        queue = iter(names)
        given_up: dict[str, str] = {}
        with self._threads, progress_bar(total=total, desc="fetch images", unit="image") as self._bar:
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
            images = self._journal.wanted(name)
            first = next(images)
            host = web.host(parse(self._settings.requested(first.url)))
            if self._settings.robots:
                await self._read_robots(first, host, web)
            if not host.given_up:
                async with asyncio.TaskGroup() as group:
                    rest = _chain(first, images)
                    for _ in range(self._settings.per_host):
                        group.create_task(self._worker(rest, host, web))
            if host.given_up:
                left = self._journal.give_up(name, host.given_up)
                given_up[name] = host.given_up
                self._failed += left
                self._bar.update(left)

    async def _read_robots(self, image: WantedImage, host: Host, web: Web) -> None:
        try:
            url = parse(self._settings.requested(image.url)).copy_with(raw_path=b"/robots.txt")
            content = await self._patiently(str(url), host, web, _ROBOTS_BYTES)
        except Failure as failure:
            if failure.reason.retry:  # RFC 9309: an unreachable robots.txt disallows everything
                host.give_up(f"robots.txt: {failure}")
            return
        robots = RobotFileParser()
        robots.parse(content.decode(errors="replace").splitlines())
        host.obey(robots)

    async def _worker(self, images: Iterator[WantedImage], host: Host, web: Web) -> None:
        for image in images:  # shared with the host's other workers
            try:
                sent = await self._content(image, host, web)
                await self._keep(image, sent)
            except Failure as failure:
                if failure.reason.blames_host:
                    host.failed(str(failure))
                else:
                    host.answered()
                self._journal.failed(image, failure)
                self._failed += 1
            else:
                host.answered()
                self._fetched += 1
                self._bytes += len(sent)
            self._bar.update()
            self._bar.set_postfix(failed=self._failed, MB=round(self._bytes / 1e6), refresh=False)
            if host.given_up:
                return

    async def _content(self, image: WantedImage, host: Host, web: Web) -> bytes:
        smaller = scaled(image.url, self._settings.max_side) if self._settings.thumbnails else None
        if smaller is not None:
            try:
                return await self._patiently(smaller, host, web, self._settings.max_bytes)
            except Failure as failure:
                if failure.name not in ("gone", "refused"):  # the original may be smaller than the thumbnail
                    raise
        return await self._patiently(self._settings.requested(image.url), host, web, self._settings.max_bytes)

    async def _patiently(self, url: str, host: Host, web: Web, limit: int) -> bytes:
        for attempt in range(self._settings.retries + 1):
            try:
                return await web.get(url, limit, lambda target: web.host(target).check_robots(target))
            except Failure as failure:
                wait = self._pause(failure, attempt)
                if wait > self._settings.max_wait_s:
                    host.give_up(f"asks to wait {wait:.0f} s ({failure})")
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

    async def _keep(self, image: WantedImage, sent: bytes) -> None:
        """Stores and records an image; one with the same bytes as an earlier image becomes a link to it."""
        sha = hashlib.sha256(sent).digest()
        path, temporary = self._images / image.name, self._temporary / str(image.id)
        loop = asyncio.get_running_loop()
        lock = self._same_content.setdefault(sha, asyncio.Lock())
        async with lock:  # of two equal images, the second waits until the first is stored
            same = self._journal.same(sha)
            if same is not None and (self._images / same[0]).is_file():
                await loop.run_in_executor(self._threads, repeat, self._images / same[0], path, temporary)
                size = same[1]
            else:
                size = await loop.run_in_executor(self._threads, store, sent, self._settings.max_side, path, temporary)
            self._journal.done(image, sha, len(sent), size)


def _chain(first: WantedImage, rest: Iterator[WantedImage]) -> Iterator[WantedImage]:
    yield first
    yield from rest


def _first(error: BaseException) -> BaseException:
    """Returns the first error of a group."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


STEPS = (250, 330, 500, 960, 1280, 1920, 3840)
"""Widths that Wikimedia serves (mediawiki.org, "Common thumbnail sizes"); it refuses others."""

_IMAGE = re.compile(
    r"(?P<head>https?://upload\.wikimedia\.org/wikipedia/[\w-]+/)(?:thumb/)?"
    r"(?P<hash>[0-9a-f]/[0-9a-f]{2}/)(?P<file>[^/?#]+\.(?P<kind>jpe?g|png|svg|gif))(?:/[^/?#]+)?",
    re.IGNORECASE,
)


def scaled(url: str, side: int) -> str | None:
    """Returns the URL of a Wikimedia image at the widest step up to `side`, or `None` if there is none."""
    found = _IMAGE.fullmatch(url)
    widths = [step for step in STEPS if step <= side]
    if found is None or not widths:
        return None
    file = found["file"]
    drawn = ".png" if found["kind"].lower() == "svg" else ""
    return f"{found['head']}thumb/{found['hash']}{file}/{widths[-1]}px-{file}{drawn}"


MAX_PIXELS = 64_000_000
"""Maximum number of pixels that are decoded, by the header; a transparent PNG of that size takes 560 MB."""
QUALITY = 90
_REASONS = {
    "unknown_format": "not_a_picture",
    "damaged": "damaged",
    "unreadable": "damaged",
    "too_many_pixels": "too_many_pixels",
    "too_thin": "too_thin",
}


def as_jpeg(data: bytes, side: int) -> bytes:
    """Converts `data` to a JPEG: first frame, RGB, upright, no side longer than `side` pixels, no metadata.

    Raises:
        Failure: It is not an image, is damaged or too thin, or its header declares too many pixels.
    """
    if not data:
        raise Failure("empty")
    try:
        image = load_any(data, max_pixels=MAX_PIXELS, max_side=2 * side)
    except ImageError as error:
        begin = f"; begins with {data[:12]!r}" if error.problem == "unknown_format" else ""
        raise Failure(_REASONS[error.problem], f"{error}{begin}") from error
    return thumbnail(image, side, QUALITY)


def store(data: bytes, side: int, path: Path, temporary: Path) -> int:
    """Writes the image in `data` to `path` via `temporary`, and returns the size of the file in bytes.

    Raises:
        Failure: As for `as_jpeg`.
        OSError: The disk is full, or the folder cannot be written.
    """
    content = as_jpeg(data, side)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content, temporary)
    return len(content)


def repeat(existing: Path, path: Path, temporary: Path) -> None:
    """Gives a stored image a second name: a hard link, or a copy if the file system has none."""
    temporary.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, temporary):
        try:
            os.link(existing, temporary)
        except OSError:
            shutil.copyfile(existing, temporary)
    temporary.unlink(missing_ok=True)  # renaming one link of a file to another does nothing
