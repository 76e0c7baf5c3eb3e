"""An index that follows the changes of other processes."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self, Unpack

from indexes.live.opening import Opened, Opening, open_current, read_changes
from indexes.live.reading import VersionedIndex
from indexes.live.version import Version
from indexes.store import generations
from indexes.store.index import Index, OpenOptions
from indexes.store.manifest import MANIFEST

logger = logging.getLogger(__name__)

GRACE = 60.0
"""Seconds for which replaced files stay readable, since the web page fetches images that earlier responses named."""
RETRY = 10.0
"""Seconds until new files that could not be opened are tried again."""
_FREED = 1.0
"""Seconds after which the memory of an object is free that Python is about to delete."""


class FollowingIndex(VersionedIndex):
    """An index that sees every change of another process before its next batch.

    Changes are read from the logs, immediately. New files, after a compaction or a rebuild, are opened in a thread: on
    a GPU, this takes seconds. Until then, the old files are searched; after a compaction, with all later changes, too.

    Args:
        root: The index's folder.
        opened: The current files and changes.
        open_files: Opens the files in a folder.
    """

    def __init__(self, root: Path, opened: Opened, open_files: Callable[[Path], Index]) -> None:
        super().__init__(root, opened.base, opened.changes)
        self._open_files, self._follows = open_files, True
        self._files, self._seen, self._ends = opened.files, opened.state, opened.ends
        self._opening: Opening | None = None
        self._retry_at, self._failure = 0.0, ""  # the failure that was last reported, until all is well
        self._changing = threading.Lock()

    @classmethod
    def open(cls, folder: Path, *, verify: bool = False, **options: Unpack[OpenOptions]) -> Self:
        """Opens the index in `folder` with its changes.

        Args:
            folder: The folder that `build_index` wrote.
            verify: As in `Index.open`; the checksums of changes are always compared.
            **options: As in `Index.open`.

        Raises:
            ValueError: The index is damaged, or does not match a model.
        """
        open_files = partial(Index.open_files, **options)
        return cls(folder, open_current(folder, partial(open_files, verify=verify)), open_files)

    @contextmanager
    def pinned(self) -> Iterator[Version]:
        """Yields the current version after a `refresh`; this context uses it until the end of the block."""
        self.refresh(wait=False)
        with super().pinned() as version:
            yield version

    def is_behind(self) -> bool:
        """Returns whether another process has changed the index since `refresh`, judged by the state of a few files."""
        try:
            return self._follows and generations.state_of(self.root) != self._seen
        except OSError:  # `refresh` reports it
            return True

    def refresh(self, wait: bool = True) -> bool:
        """Applies changes made by another process, unless this one is the writer; returns whether there were any.

        If nothing has changed, this only checks the state of a few files. If the other process's changes cannot be
        read, the index stays as it is: until the next change if they are damaged, until the next call after an
        `OSError`. New files that cannot be opened are tried again after `RETRY` seconds.

        Args:
            wait: Whether to wait until new files are open, and to try again at once.
        """
        if not self._follows or not (self._is_outdated() or self.is_behind()):
            return False
        if not self._changing.acquire(blocking=False):
            return False  # another thread is doing it
        try:
            changed = self._follows and self._follow(at_once=wait)  # unless another thread has taken over
            while wait and self._opening is not None:
                self._opening.wait()
                changed = self._follow() or changed
            return changed
        finally:
            self._changing.release()

    def close(self) -> None:
        """Waits for the thread that opens new files, if any; the index stays readable."""
        if (opening := self._opening) is not None:
            opening.wait()

    def _is_outdated(self) -> bool:
        """Returns whether there are other files than those that are open."""
        return self._seen.files not in (self._files.state, generations.NO_FILES)

    def _follow(self, at_once: bool = False) -> bool:
        """Applies what can be applied now, and starts to open new files; called by one thread at a time."""
        changed = self._adopt()
        before = self._seen
        try:
            changed = self._read_logs() or changed
        except (ValueError, OSError) as error:
            if isinstance(error, OSError):
                self._seen = before
            self._report(error)
        else:
            if not self._is_outdated():
                self._failure = ""
        if self._is_outdated() and self._opening is None and (at_once or time.monotonic() >= self._retry_at):
            self._opening = Opening(self.root, self._open_files)
        return changed

    def _adopt(self) -> bool:
        """Replaces the files by those that a thread has opened; returns whether it has."""
        if self._opening is None or self._opening.is_running():
            return False
        opening, self._opening = self._opening, None
        try:
            opened = opening.result()
        except Exception as error:  # the memory of a GPU may be full, for example
            self._retry_at = time.monotonic() + RETRY
            self._report(error)
            return False
        if opened is None:
            return False
        hold(self._current)
        self._current = self._after(self._moved(opened.base), opened.changes)
        self._files, self._seen, self._ends = opened.files, opened.state, opened.ends
        return True

    def _read_logs(self) -> bool:
        """Applies the changes in the logs; returns whether there were any.

        Raises:
            ValueError: A log is damaged.
            OSError: A log cannot be read.
        """
        before, self._seen = (
            self._seen,
            generations.state_of(self.root),
        )  # first, so that the next call sees later changes
        if self._seen == before or self._seen.files == generations.NO_FILES:
            return False
        if not self._is_outdated():
            return self._apply_logs(self._seen)
        with suppress(ValueError, OSError):  # which concern the new files, too, and stop the thread that opens them
            return self._apply_logs(self._seen)
        return False

    def _apply_logs(self, state: generations.State) -> bool:
        version, ends, changes = self._current, dict(self._ends), None
        if not self._leads_on(state):
            return False
        if all(size >= ends.get(name, 0) for name, size in state.logs):
            with suppress(ValueError):
                changes = read_changes(self.root, self._files.generation, version.base, ends)
        if changes is None:  # the last changes could not be written completely and were undone, so read all again
            version, ends = Version(version.base, version.start), {}
            changes = read_changes(self.root, self._files.generation, version.base, ends)
        if not self._leads_on(generations.state_of(self.root)):  # these may be changes to other files
            return False
        version, before = self._after(version, changes), self._current
        self._current, self._ends = version, ends
        return version is not before

    def _leads_on(self, state: generations.State) -> bool:
        """Returns whether the files that are open and the logs give the current state of the index.

        After a compaction they do, as long as the process that compacted keeps the old files and logs.
        """
        if state.files == self._files.state:
            return True
        own = self._files.generation
        wanted = range(own, generations.generation_of(self.root) + 1)
        manifest = generations.status_of(generations.files_of(self.root, own) / MANIFEST)
        return manifest == self._files.manifest and {f"{number:06}.log" for number in wanted} <= dict(state.logs).keys()

    def _report(self, error: Exception) -> None:
        if str(error) != self._failure:
            about = "%s: cannot read another process's changes; serving the last state"
            logger.error(about, self.root, exc_info=error)
        self._failure = str(error)

    def _moved(self, base: Index) -> Version:
        """Returns a version with only the new files; its entities get new rows."""
        start, self._next_row = self._next_row, self._next_row + len(base)
        self._bases = [(s, one) for s, one in self._bases if one() is not None] + [(start, weakref.ref(base))]
        self.folder, self.manifest = base.folder, base.manifest
        self.digest = base.digest
        if base.residency.free is not None:  # a GPU: what the old files take may be what the new tokens lack
            weakref.finalize(self._current.base, _settle_later, weakref.ref(self)).atexit = False
        return Version(base, start)

    def settle(self) -> None:
        """Moves the tokens of the current files to the GPU, if they are not there and fit now."""
        base = self._current.base
        before = base.residency
        try:
            base.token_store.settle()
        except Exception:  # without them on the GPU, everything works as before
            logger.exception("%s: the tokens could not be moved to the GPU", base.folder)
        if base.residency != before:
            logger.info("%s: %s", base.folder, base.residency)


def hold(version: Version) -> None:
    """Keeps a version readable for `GRACE` seconds."""
    _later(GRACE, bool, version)  # only keeps a reference until then


def _settle_later(reference: weakref.ref[FollowingIndex]) -> None:
    def settle() -> None:
        if (index := reference()) is not None:
            index.settle()

    if threading.main_thread().is_alive():  # otherwise the process is exiting and can start no threads
        _later(_FREED, settle)


def _later(seconds: float, call: Callable[..., object], *arguments: object) -> None:
    timer = threading.Timer(seconds, call, arguments)
    timer.daemon = True
    timer.start()
