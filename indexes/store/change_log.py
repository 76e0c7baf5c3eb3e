"""The log of changes: checksummed records, each on disk before it is acknowledged."""

from __future__ import annotations

import errno
import logging
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from retriever.files import write_whole

logger = logging.getLogger(__name__)

_MAGIC = b"OMGMLOG1"
_START = len(_MAGIC) + 8
"""Bytes before the first record: the magic number, then the end of the acknowledged records, uint64."""
_FRAME = struct.Struct("<QII")
"""The header of each record: its length, its CRC-32, and the CRC-32 of these 12 bytes."""
_FIX = "restore the file from a backup, or remove it to lose the changes in it"


class Record(NamedTuple):
    """A record's bytes and its offset in the file."""

    offset: int
    content: bytes

    @property
    def end(self) -> int:
        """The offset at which the next record begins."""
        return self.offset + _FRAME.size + len(self.content)


class ChangeLog:
    """A log open for appending; `open` first reads an existing one to its end.

    After each sync, the length of the file is written to its header, without another sync: a log that is shorter than
    that was truncated, while one that is longer was being written when its process was killed.

    Args:
        path: The file.
        end: The offset at which the next record begins.
    """

    def __init__(self, path: Path, end: int) -> None:
        self.path = path
        self._end = end
        self._broken = False
        self._file = os.open(path, os.O_RDWR)

    @classmethod
    def create(cls, path: Path, first: bytes) -> Self:
        """Creates a log with one record.

        Raises:
            OSError: The file cannot be written.
        """
        record = _framed(first)
        end = _START + len(record)
        write_whole(path, _MAGIC + struct.pack("<Q", end) + record)
        sync_folder(path.parent)
        return cls(path, end)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Opens a log after its last complete record; drops one that was being written when its process was killed.

        Raises:
            ValueError: The log is damaged.
            OSError: The file cannot be written.
        """
        end = _START
        for record in read_log(path):
            end = record.end
        if left := path.stat().st_size - end:
            logger.warning("%s: dropped %d bytes of a change that was never acknowledged", path, left)
            os.truncate(path, end)
        return cls(path, end)

    def append(self, contents: Sequence[bytes]) -> None:
        """Writes records and waits until they are on disk.

        Raises:
            OSError: The records could not be written; none of them is in the log.
        """
        if self._broken:
            raise OSError(f"{self.path}: an earlier change could not be written or undone; free space, then restart")
        if not is_at(self._file, self.path):  # writes to a deleted file would be lost when it closes
            reason = "the log was removed or replaced, so the change was not made; restore the index, then restart"
            raise OSError(errno.ENOENT, reason, str(self.path))
        blob = b"".join(_framed(content) for content in contents)
        try:
            _write(self._file, blob, self._end)
            os.fsync(self._file)
        except OSError as error:
            self._undo()
            raise OSError(
                error.errno,
                f"{error.strerror}; the change is not made: free space, or make the file writable, and repeat it",
                str(self.path),
            ) from error
        self._end += len(blob)
        os.pwrite(self._file, struct.pack("<Q", self._end), len(_MAGIC))

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)

    def _undo(self) -> None:
        """Truncates what was written of a change; if even that fails, no more changes are accepted."""
        try:
            os.ftruncate(self._file, self._end)
            os.fsync(self._file)
        except OSError:
            self._broken = True
            logger.exception("%s: could not be truncated to %d bytes", self.path, self._end)


def read_log(path: Path, start: int = _START) -> Iterator[Record]:
    """Yields the records of a log, except one that was being written when its process was killed.

    Args:
        path: The file.
        start: The offset of the first record to read, which is the `end` of an earlier one.

    Raises:
        ValueError: A record is damaged, or acknowledged records are missing. The message names file, offset and fix.
    """
    with path.open("rb") as file:
        head = file.read(_START)
        if len(head) < _START or not head.startswith(_MAGIC):
            raise ValueError(f"{path}: not a log of changes, or from another release; {_FIX}")
        size, offset = os.fstat(file.fileno()).st_size, file.seek(start)
        acknowledged = struct.unpack_from("<Q", head, len(_MAGIC))[0]
        if size < acknowledged:
            raise ValueError(f"{path}: {size} bytes, but {acknowledged} were acknowledged: it was truncated; {_FIX}")
        while offset < size:
            found = _read_framed(file)
            if isinstance(found, bytes):
                yield (record := Record(offset, found))
                offset = record.end
            elif found.unfinished and offset >= acknowledged:
                return
            else:
                raise ValueError(f"{path}: the record at byte {offset} is damaged: {found.reason}; {_FIX}")


class _Damage(NamedTuple):
    """What is wrong with a record, and whether a kill during the write explains it."""

    reason: str
    unfinished: bool


def _read_framed(file: BinaryIO) -> bytes | _Damage:
    """Reads the next record that `_framed` framed."""
    frame = file.read(_FRAME.size)
    if len(frame) < _FRAME.size:
        return _Damage("it is truncated", unfinished=True)
    length, checksum, own = _FRAME.unpack(frame)
    if own != zlib.crc32(frame[:12]):  # all zeros if the file system extended the file before writing to it
        return _Damage("its length is damaged", unfinished=not any(frame + file.read()))
    content = file.read(length)
    if len(content) < length or zlib.crc32(content) != checksum:
        return _Damage("its checksum differs", unfinished=len(content) < length)
    return content


def has_changes(path: Path) -> bool:
    """Returns whether a log has more than its first record."""
    records = read_log(path)
    return next(records, None) is not None and next(records, None) is not None


def is_at(file: int, path: Path) -> bool:
    """Returns whether a path still names an open file."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def sync_folder(folder: Path) -> None:
    """Syncs a folder's entries (file names) to disk."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _framed(content: bytes) -> bytes:
    head = struct.pack("<QI", len(content), zlib.crc32(content))
    return head + struct.pack("<I", zlib.crc32(head)) + content


def _write(file: int, blob: bytes, offset: int) -> None:
    view = memoryview(blob)
    while view:  # a write to a nearly full disk may be partial
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written
