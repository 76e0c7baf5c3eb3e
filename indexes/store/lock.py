"""A lock on a folder: one writer at a time. The kernel releases it if the process that holds it dies."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from indexes.store.change_log import is_at

LOCK = ".lock"
"""The lock file in the folder; it exists only while a process writes, or after a kill."""

SERVES = "serves it: send it the changes (PUT and DELETE /entities?id=…, omgm.client)"
"""What a service does with the folder of its index."""


class LockedError(ValueError):
    """Another process writes to the folder."""


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """Holds the lock on a folder. The folder is created if it is absent, and then removed again if it is left empty.

    Args:
        folder: The folder of an index, or of other work that resumes.
        doing: What this process does there, for the error that other processes get: "builds it".

    Raises:
        LockedError: Another process, or another part of this one, holds the lock.
        OSError: The folder is read-only.
    """
    created = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    file = _acquired(path)
    try:
        _write(file, path, f"process {os.getpid()} ({_command()}), which {doing}")
        yield
    finally:
        with suppress(FileNotFoundError):
            path.unlink()  # before releasing it: a lock on a deleted file does not count, see `_acquired`
        os.close(file)
        if created:
            with suppress(OSError):  # not empty
                folder.rmdir()


def holder(folder: Path) -> str | None:
    """Returns who writes to a folder, such as "process 12 (omgm demo), which builds it", or `None`."""
    try:
        file = os.open(folder / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(file, 4096).decode(errors="replace") or "another process"
    else:
        return None
    finally:
        os.close(file)


def _write(file: int, path: Path, text: str) -> None:
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _acquired(path: Path) -> int:
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_at(file, path):
                return file
        except BlockingIOError as error:
            by = os.read(file, 4096).decode(errors="replace") or "another process"
            os.close(file)
            raise LockedError(
                f"{path.parent}: is locked by {by}; only one process may write there: wait until it has ended"
            ) from error
        except OSError as error:
            os.close(file)
            raise OSError(error.errno, f"{error.strerror}: its file system cannot lock files", str(path)) from error
        os.close(file)  # its last holder has removed it in the meantime


def _command() -> str:
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
