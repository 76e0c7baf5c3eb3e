"""An index that changes while it is read."""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self, Unpack

from indexes.live.changes import Addition, Change, Origin, to_bytes
from indexes.live.compaction import write_generation
from indexes.live.following import FollowingIndex, hold
from indexes.live.opening import Opened
from indexes.live.version import Entry, Version
from indexes.store import generations
from indexes.store.change_log import ChangeLog, sync_folder
from indexes.store.index import Index, OpenOptions
from indexes.store.lock import locked
from indexes.store.manifest import read_manifest
from retriever.filters import fits
from retriever.types import Filter

logger = logging.getLogger(__name__)


class LiveIndex(FollowingIndex):
    """An index that any process can read and one process at a time can change.

    Results stay readable while their version is held, and for a minute after a compaction; then the files that it
    replaced are removed. `manifest` describes the current files; its counts do not include changes.

    Args:
        root: The index's folder; `folder` is that of the current files.
        opened: The current files and changes.
        open_files: Opens the files in a folder.
    """

    def __init__(self, root: Path, opened: Opened, open_files: Callable[[Path], Index]) -> None:
        super().__init__(root, opened, open_files)
        self._generation = opened.files.generation  # of the log
        self._writer: ExitStack | None = None  # holds the lock; `None` if the index is only read
        self._log: ChangeLog | None = None
        self._compacting, self._taking, self._due = threading.Lock(), threading.Lock(), threading.Lock()
        self._failed_at = 0  # of compaction, in changes
        self._waiting: deque[_Waiting] = deque()

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        verify: bool = False,
        write: bool = False,
        doing: str = "changes it",
        **options: Unpack[OpenOptions],
    ) -> Self:
        """Opens the index in `folder` with its changes.

        Args:
            folder: The folder that `build_index` wrote.
            verify: As in `Index.open`; the checksums of changes are always compared.
            write: Whether to open it for changes, which one process at a time can do, until `close`.
            doing: What this process does with the index, for the error that other processes get.
            **options: As in `Index.open`.

        Raises:
            ValueError: The index is damaged, does not match a model, or is being changed by another process
                (`LockedError`).
            OSError: `write` is set, and the folder is read-only.
        """
        with ExitStack() as held:
            if write:
                read_manifest(generations.current_files(folder))  # before the lock, which would create a folder
                held.enter_context(locked(folder, doing))
                generations.remove_leftovers(folder)
            index = super().open(folder, verify=verify, **options)
            if write:
                index._continue_log()
                index._writer, index._follows = held.pop_all(), False
            return index

    def take_over(self, doing: str) -> None:
        """Opens the index for changes once the process that had it open has ended, after reading its last changes.

        Args:
            doing: As in `open`.

        Raises:
            LockedError: Another process has it open for changes.
            ValueError: The other process's changes cannot be read.
            OSError: The folder is read-only.
        """
        with self._taking:
            if self._writer is not None:
                return
            with ExitStack() as held:
                held.enter_context(locked(self.root, doing))
                generations.remove_leftovers(self.root)
                self.refresh()
                with self._changing:
                    if self._is_outdated() or self.is_behind():
                        raise ValueError(f"{self.root}: another process's changes cannot be read; see the log")
                    self._generation = self._files.generation
                    self._continue_log()
                    self._writer, self._follows = held.pop_all(), False

    def apply(self, changes: Sequence[Change], scope: Filter = ()) -> None:
        """Makes changes; on return, they are on disk, and every later search sees them.

        Changes of callers that wait at the same time are written together.

        Args:
            changes: The changes.
            scope: What the entities must fit that are changed, before and after.

        Raises:
            KeyError: One does not, so that there is no such entity for this caller; none of the changes is made.
            OSError: The changes could not be written; none of them is made.
            ValueError: The index is not open for changes, or an addition does not match it.
        """
        for change in changes:
            if isinstance(change, Addition):
                change.check(self.manifest)
        waiting = _Waiting(changes, scope)
        self._waiting.append(waiting)
        with self._changing:
            if waiting.open:
                self._commit([self._waiting.popleft() for _ in range(len(self._waiting))])
        if waiting.error is not None:
            raise waiting.error

    def compact(self) -> bool:
        """Writes all changes so far to new files, which then replace the old ones; returns False if there are none.

        In the meantime, the index can be read and changed as usual.

        Raises:
            ValueError: The index is not open for changes, or is damaged.
            OSError: The files could not be written; the index is unchanged.
        """
        with self._compacting:
            with self._changing:
                log, version = self._open_log(), self._current
                if not version.changes and generations.is_settled(self.root):
                    return False
                generation = self._generation = self._generation + 1
                self._log = self._begin_log()
                log.close()
            target = generations.files_of(self.root, generation)
            write_generation(version, target)
            base = self._open_files(target)
            with self._changing:
                before = generations.generation_of(self.root)
                generations.set_generation(self.root, generation)
                self._switch(version, base, before)
                self._thumbnails.keep(entry.change.thumbnail for entry in list(self._entries.values()))
            return True

    def compact_when_due(self, after: int) -> None:
        """Compacts the index in a thread once so many changes are in the log; 0 never does."""
        # Not `changes`: replacing the same article repeatedly fills the log, too.
        due = after and self.version.logged >= self._failed_at + after
        if due and self._due.acquire(blocking=False):
            threading.Thread(target=self._compact, name="compact the index").start()

    def _compact(self) -> None:
        try:
            self.compact()
            self._failed_at = 0
        except Exception:  # the index can be read and changed as before
            self._failed_at = self.version.logged
            logger.exception("%s: could not be compacted; will try again later", self.root)
        finally:
            self._due.release()

    def close(self) -> None:
        """Lets other processes change the index, after waiting for threads; the index stays readable."""
        super().close()
        with self._compacting, self._changing:
            if self._log is not None:
                self._log.close()
            self._log = None
            if self._writer is not None:
                self._writer.close()
            self._writer, self._follows = None, True

    def _commit(self, batch: Sequence[_Waiting]) -> None:
        """Writes the changes of several callers with one sync; called by one thread at a time."""
        after, records = self._current, list[bytes]()
        try:
            log = self._open_log()
            for waiting in batch:
                if waiting.scope and (hidden := self._hidden(after, waiting)):
                    waiting.error = KeyError(hidden)
                    continue
                for change in waiting.changes:
                    if isinstance(change, Addition):
                        self._thumbnails.write(change.thumbnail)
                after = self._after(after, waiting.changes)
                records += map(to_bytes, waiting.changes)
            log.append(records)
            self._current = after
        except BaseException as error:
            for waiting in batch:
                waiting.error = waiting.error or error
        finally:
            for waiting in batch:
                waiting.open = False

    def _hidden(self, version: Version, waiting: _Waiting) -> str:
        """Returns the id of an entity that a caller would change outside its scope, or ""."""
        for change in waiting.changes:
            row = version.row_of(change.id)
            old = None if row is None else self.entity(row)
            there = [old] if old is not None and old.id == change.id else []
            there += [change.entity] if isinstance(change, Addition) else []
            if not all(fits(entity, waiting.scope) for entity in there):
                return change.id
        return ""

    def _open_log(self) -> ChangeLog:
        """Returns the log; the first change creates it."""
        if self._writer is None:
            raise ValueError(f"{self.root}: is not open for changes")
        if self._log is None:
            (self.root / generations.LIVE).mkdir(exist_ok=True)
            sync_folder(self.root)
            self._log = self._begin_log()
        return self._log

    def _begin_log(self) -> ChangeLog:
        return ChangeLog.create(generations.log_of(self.root, self._generation), to_bytes(Origin.of(self.manifest)))

    def _continue_log(self) -> None:
        """Opens the newest log, and writes thumbnails that are missing because the process writing them was killed."""
        if found := generations.logs(self.root):
            self._log = ChangeLog.open(found[-1])
            self._generation = int(found[-1].stem)
        thumbnails = [entry.change.thumbnail for entry in self._current.entries.values()]
        self._thumbnails.keep(thumbnails)
        for thumbnail in thumbnails:
            self._thumbnails.write(thumbnail)

    def _switch(self, compacted: Version, base: Index, before: int) -> None:
        """Replaces the old files, and the changes that the new files include, with the new files."""
        current, old = self._current, self._current.base
        ids = (current.removed.keys() - compacted.removed.keys() | compacted.entries.keys()) - current.entries.keys()
        later: list[tuple[str, Entry | None]] = [(entity_id, None) for entity_id in sorted(ids)]
        later += [(i, entry) for i, entry in current.entries.items() if compacted.entries.get(i) is not entry]
        self._current, self._files = self._moved(base).changed(later), generations.identify(self.root)
        hold(current)
        weakref.finalize(old, _drop, self.root, before)


class _Waiting:
    """The pending changes of one caller."""

    def __init__(self, changes: Sequence[Change], scope: Filter) -> None:
        self.changes, self.scope = changes, scope
        self.open = True
        self.error: BaseException | None = None


def _drop(root: Path, generation: int) -> None:
    """Removes files that nobody reads any more, in a thread because there may be a million thumbnails."""
    if threading.main_thread().is_alive():
        threading.Thread(target=_remove, args=(root, generation), name="remove old files").start()
    else:  # the process is exiting and can start no threads
        _remove(root, generation)


def _remove(root: Path, generation: int) -> None:
    try:
        generations.remove_generation(root, generation)
    except (ValueError, OSError):
        logger.exception("%s: old files could not be removed; the next process that writes will try again", root)
