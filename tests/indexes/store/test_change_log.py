"""The log: the partial record that a kill leaves is dropped; damage is an error that names file, position and fix."""

from __future__ import annotations

import errno
import os
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from indexes.store.change_log import ChangeLog, has_changes, read_log

CONTENTS = [b"first", b"second record", b"", b"x" * 5000]
HEAD, FRAME = 16, 16


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of four records."""
    path = tmp_path / "000000.log"
    log = ChangeLog.create(path, CONTENTS[0])
    log.append(CONTENTS[1:3])
    log.append(CONTENTS[3:])
    log.close()
    return path


def contents(path: Path) -> list[bytes]:
    return [record.content for record in read_log(path)]


def acknowledge(path: Path, size: int) -> None:
    """Sets the position up to which the log marks records as acknowledged."""
    with path.open("r+b") as file:
        file.seek(8)
        file.write(struct.pack("<Q", size))


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Limits the size of files, like a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_records_come_back_in_order(path: Path) -> None:
    assert contents(path) == CONTENTS
    size = HEAD + sum(FRAME + len(content) for content in CONTENTS)
    assert path.stat().st_size == size
    assert path.read_bytes()[:HEAD] == b"OMGMLOG1" + struct.pack("<Q", size)
    log = ChangeLog.open(path)
    log.append([b"later"])
    log.close()
    assert contents(path) == [*CONTENTS, b"later"]


def test_an_empty_log(tmp_path: Path) -> None:
    log = ChangeLog.create(tmp_path / "log", b"origin")
    assert not has_changes(tmp_path / "log")
    log.append([b"one"])
    log.close()
    assert has_changes(tmp_path / "log")


@pytest.mark.parametrize("cut", [1, 4999, 5000, 5015, 5016])
def test_a_record_cut_short_by_a_kill_is_dropped(path: Path, cut: int, caplog: pytest.LogCaptureFixture) -> None:
    """5016 bytes are the whole last record: then there is nothing to drop."""
    size = path.stat().st_size
    acknowledge(path, size - 5016)
    os.truncate(path, size - cut)
    assert contents(path) == CONTENTS[:3]
    log = ChangeLog.open(path)
    assert (f"dropped {5016 - cut} bytes" in caplog.text) == (cut < 5016)
    log.append([b"again"])
    log.close()
    assert contents(path) == [*CONTENTS[:3], b"again"]


def test_zeros_at_the_end_are_dropped(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(4096))
    assert contents(path) == CONTENTS


@pytest.mark.parametrize("cut", [1, 5016, 5040])
def test_a_truncated_log_is_an_error(path: Path, cut: int) -> None:
    size = path.stat().st_size
    os.truncate(path, size - cut)
    with pytest.raises(ValueError, match=rf"000000\.log: {size - cut} bytes, but {size} were acknowledged.*backup"):
        contents(path)
    with pytest.raises(ValueError, match="truncated"):
        ChangeLog.open(path)


def test_every_flipped_byte_is_an_error(path: Path) -> None:
    """Any byte of the first two records may be damaged; the message names the record's first byte."""
    data = bytearray(path.read_bytes())
    second = HEAD + FRAME + 5
    for place in range(HEAD, second + FRAME + 13):
        data[place] ^= 0x40
        path.write_bytes(data)
        with pytest.raises(ValueError, match=rf"the record at byte {HEAD if place < second else second} is damaged"):
            contents(path)
        data[place] ^= 0x40


def test_a_flipped_byte_in_the_last_record_is_an_error(path: Path) -> None:
    """A complete record was not truncated by a kill, even if a power failure lost its acknowledgment."""
    data = bytearray(path.read_bytes())
    acknowledge_at = len(data) - 5016
    data[8:16] = struct.pack("<Q", acknowledge_at)
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"byte {acknowledge_at} is damaged: its checksum differs; restore"):
        contents(path)


def test_something_else_is_an_error(tmp_path: Path) -> None:
    for content in (b"", b"not a log of changes"):
        (tmp_path / "x.log").write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.log: not a log of changes"):
            contents(tmp_path / "x.log")


def test_a_full_disk_undoes_the_change(path: Path) -> None:
    before = path.read_bytes()
    log = ChangeLog.open(path)
    with largest_file(len(before) + 100), pytest.raises(OSError, match=r"not made: free space.*000000\.log"):
        log.append([b"fits", b"y" * 200])
    assert path.read_bytes() == before
    log.append([b"z"])
    log.close()
    assert contents(path) == [*CONTENTS, b"z"]


def test_what_cannot_be_undone_ends_the_writing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ChangeLog.open(path)

    def fail(*arguments: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        log.append([b"lost"])
    monkeypatch.undo()
    with pytest.raises(OSError, match="restart"):
        log.append([b"later"])
    log.close()
    assert contents(path) == CONTENTS


def test_a_log_that_is_no_longer_in_place_takes_no_changes(path: Path) -> None:
    """Data written to a removed file is lost when the process ends."""
    log = ChangeLog.open(path)
    kept = path.rename(path.with_name("moved"))
    for _ in range(2):
        with pytest.raises(OSError, match=r"removed or replaced.*000000\.log") as failed:
            log.append([b"lost"])
        assert failed.value.errno == errno.ENOENT
        path.write_bytes(b"another")  # and then in its place
    kept.replace(path)
    log.append([b"later"])
    log.close()
    assert contents(path) == [*CONTENTS, b"later"]
