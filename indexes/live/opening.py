"""Opens the current files of an index, if need be in a thread, and reads the changes made since."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from indexes.live.changes import Addition, Change, Origin, from_bytes
from indexes.store import generations
from indexes.store.change_log import read_log
from indexes.store.index import Index


class Opened(NamedTuple):
    """The current files of an index, open.

    Attributes:
        base: The files.
        files: What identifies them.
        changes: The changes since then, oldest first.
        ends: Where to continue reading each log, by its name.
        state: The state of the index shortly before; changes made since then may be missing.
    """

    base: Index
    files: generations.Files
    changes: list[Change]
    ends: dict[str, int]
    state: generations.State


def open_current(folder: Path, open_files: Callable[[Path], Index]) -> Opened:
    """Opens the current files of an index and reads the changes since then.

    Raises:
        ValueError: They are damaged, or do not match a model.
        OSError: They cannot be read.
    """
    while True:
        state, files, ends = generations.state_of(folder), generations.identify(folder), dict[str, int]()
        try:
            base = open_files(generations.files_of(folder, files.generation))
            changes = read_changes(folder, files.generation, base, ends)
        except (ValueError, OSError):
            if generations.identify(folder) == files:
                raise
        else:  # others may have replaced the files in the meantime
            if generations.identify(folder) == files:
                return Opened(base, files, changes, ends, state)


class Opening:
    """A thread that opens the current files of an index.

    Args:
        folder: The index's folder.
        open_files: Opens the files in a folder.
    """

    def __init__(self, folder: Path, open_files: Callable[[Path], Index]) -> None:
        self._folder, self._open_files = folder, open_files
        self._result: Opened | Exception | None = None
        self._thread = threading.Thread(target=self._run, name="open new files")
        self._thread.start()

    def is_running(self) -> bool:
        """Returns whether the thread is still at it."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Waits until the thread has ended."""
        self._thread.join()

    def result(self) -> Opened | None:
        """Returns the files and changes that the thread has opened; `None` in a forked process, which lacks the thread.

        Raises:
            Exception: What went wrong.
        """
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    def _run(self) -> None:
        try:
            self._result = open_current(self._folder, self._open_files)
        except Exception as error:  # raised by `result`
            self._result = error


def read_changes(folder: Path, generation: int, base: Index, ends: dict[str, int]) -> list[Change]:
    """Returns the changes in the logs of an index.

    Args:
        folder: The index's folder.
        generation: The generation of `base`, which need not be the current one.
        base: The files of that generation.
        ends: Where to begin in each log that was read before, by its name; updated to the end of the last record.

    Raises:
        ValueError: A log is damaged, or belongs to another index.
    """
    changes: list[Change] = []
    for path in generations.logs_since(folder, generation):
        known = ends.get(path.name)
        for record in read_log(path) if known is None else read_log(path, known):
            try:
                change = from_bytes(record.content)
                if (path.name not in ends) != isinstance(change, Origin):
                    raise ValueError("records are not in the order in which they were written")
                ends[path.name] = record.end
                if isinstance(change, Origin):
                    change.check(base.manifest)
                    continue
                if isinstance(change, Addition):
                    change.check(base.manifest)
                changes.append(change)
            except ValueError as error:
                raise ValueError(f"{path}: the record at byte {record.offset}: {error}") from error
    return changes
