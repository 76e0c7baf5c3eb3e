"""Failures around an index that is being changed: damage, full disks, read-only folders, a second writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from indexes.live import compaction
from indexes.live.changes import Origin, to_bytes
from indexes.store.change_log import ChangeLog
from indexes.store.index import Index
from indexes.store.lock import LockedError, holder, locked
from indexes.store.manifest import MANIFEST
from tests.fakes.live import World, article
from tests.indexes.store.test_change_log import largest_file
from tests.paths import ROOT, contents

BASE = [article(name) for name in ("a", "b", "c")]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An index with two changes that are only in the log."""
    world = World(tmp_path, BASE)
    editor = world.editor()
    world.put(editor, article("a", 1), article("z"))
    editor.index.close()
    return world


def test_a_flipped_byte_names_the_log(world: World) -> None:
    log = world.index / "live" / "000000.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(ValueError, match=r"000000\.log: the record at byte \d+ is damaged.*restore the file"):
        world.open()
    with pytest.raises(ValueError, match=r"000000\.log"):
        world.editor()
    log.unlink()  # the fix that the message suggests if there is no backup
    assert len(world.open()) == 3


def test_a_log_of_another_index(world: World) -> None:
    log = world.index / "live" / "000000.log"
    log.unlink()
    ChangeLog.create(log, to_bytes(Origin("other", None, "image", "float16"))).close()
    with pytest.raises(ValueError, match=r"000000\.log: the record at byte 16: the log belongs to another index"):
        world.open()


def test_files_that_are_gone(world: World) -> None:
    editor = world.editor()
    editor.index.compact()
    editor.index.close()
    (world.index / "live" / "000001" / "tokens.npy").unlink()
    with pytest.raises(ValueError, match=r"000001/tokens\.npy: missing; rebuild"):
        world.open()
    current = world.index / "live" / "current"
    current.write_text("7")
    with pytest.raises(ValueError, match=r"current: names generation '7', which does not exist; restore"):
        world.open()
    with pytest.raises(ValueError, match=r"current: names generation '7'"):
        Index.open(world.index)
    current.write_text("1")  # for the thread that removes the old files later


def test_a_full_disk_changes_nothing(world: World) -> None:
    editor = world.editor()
    before = contents(world.index)
    size = (world.index / "live" / "000000.log").stat().st_size
    with largest_file(size + 50), pytest.raises(OSError, match=r"the change is not made: free space.*000000\.log"):
        world.put(editor, article("y", image=None))
    with largest_file(2000), pytest.raises(OSError, match=r"the index is unchanged: free space.*live/000001"):
        editor.index.compact()
    assert editor.index.row_of("kb/y") is None
    editor.index.close()
    after = contents(world.index)
    assert {name for name in after if after[name] != before.get(name)} <= {"live/000001.log"}
    assert len(world.open()) == 4
    again = world.editor()
    world.put(again, article("y", image=None))
    assert again.index.compact()
    again.index.close()
    assert len(Index.open(world.index, verify=True)) == 5


def test_what_other_libraries_cannot_write_is_said_in_their_words(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("Milvus at http://db:19530, collection omgm: not reachable")  # without a number

    editor = world.editor()
    monkeypatch.setattr(compaction, "write_search", refuse)
    with pytest.raises(OSError, match=r"^Milvus at http://db:19530, collection omgm: not reachable$"):
        editor.index.compact()
    assert not list((world.index / "live").glob("*.partial"))
    editor.index.close()


def test_a_folder_that_refuses_to_be_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails as on a read-only file system, even for root."""
    editor = world.editor()
    real = os.pwrite

    def refuse(file: int, data: bytes, offset: int) -> int:
        if offset > 16:
            raise OSError(30, "Read-only file system")
        return real(file, data, offset)

    monkeypatch.setattr("os.pwrite", refuse)
    with pytest.raises(OSError, match=r"Read-only file system; the change is not made.*000000\.log"):
        editor.remove(["kb/a"])
    monkeypatch.undo()
    assert editor.index.row_of("kb/a") is not None
    editor.remove(["kb/a"])
    editor.index.close()
    assert world.open().row_of("kb/a") is None


def test_a_second_writer_is_refused(world: World) -> None:
    editor = world.editor()
    with pytest.raises(LockedError, match=rf"{world.index}: is locked by process {os.getpid()} .*which changes it;"):
        world.editor()
    assert "which changes it" in (holder(world.index) or "")
    assert len(world.open()) == 4  # readers are not refused
    editor.index.close()
    assert holder(world.index) is None
    world.editor().index.close()
    assert not (world.index / ".lock").exists()


def test_a_build_is_refused_while_another_writes(world: World) -> None:
    """Regression: two concurrent builds into one folder overwrote each other's files."""
    editor = world.editor()
    world.options["overwrite"] = True
    before = contents(world.index)
    with pytest.raises(LockedError, match="only one process may write there"):
        world.build(BASE[:1], world.index)
    assert contents(world.index) == before
    editor.index.close()
    with locked(world.folder / "new", "builds it"), pytest.raises(LockedError, match="which builds it"):
        world.build(BASE[:1], world.folder / "new")
    assert not (world.folder / "new").exists()
    assert len(world.build(BASE[:1], world.folder / "new")) == 1


def test_the_kernel_releases_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from indexes.store.lock import locked\n"
        "with locked(Path(sys.argv[1]), 'builds it'):\n    print('held', flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(LockedError, match=rf"process {process.pid} "), locked(tmp_path, "changes it"):
            pass
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / ".lock").exists()
    with locked(tmp_path, "changes it"):
        assert str(os.getpid()) in (tmp_path / ".lock").read_text()
    assert not (tmp_path / ".lock").exists()


def test_not_an_index(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"no {MANIFEST}"):
        World.at(tmp_path / "nothing").editor()
    assert not (tmp_path / "nothing" / "index").exists()


def test_a_read_only_disk(small_disk: Path) -> None:
    """Reading works, including changes; every write fails and names the file, starting with the lock."""
    world = World(small_disk / "world", BASE)
    editor = world.editor()
    world.put(editor, article("z", image=None))
    editor.index.close()
    other = World(small_disk.parent / "other", BASE)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert len(world.open(verify=True)) == 4
    assert len(other.build(BASE, world.index)) == 3  # complete, so nothing is written
    with pytest.raises(OSError, match=rf"Read-only file system: '{world.index}/\.lock'"):
        world.editor()
    with pytest.raises(
        OSError, match=rf"Read-only file system; .* make the folder writable, and build again.*'{small_disk}/new'"
    ):
        other.build(BASE, small_disk / "new")


def test_a_really_full_disk(small_disk: Path) -> None:
    """Memory-mapped files included: without reserved space, writing to them would kill the process."""
    world = World(small_disk / "world", BASE)
    editor = world.editor()
    put = [article(f"y{number}", image=None) for number in range(2)]
    world.put(editor, put[0])
    rest = (small_disk / "rest").open("wb")
    free = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes((free.f_bavail - 3) * free.f_frsize))
    with pytest.raises(OSError, match=r"No space left.*free space.*live/000001"):
        editor.index.compact()
    with pytest.raises(OSError, match="No space left"):
        while True:
            os.write(rest.fileno(), bytes(512))
    with pytest.raises(OSError, match=r"No space left on device; the change is not made: free space.*\.log"):
        for _ in range(20):  # its last block may have some space left
            world.put(editor, put[1])
    other = World(small_disk.parent / "other", BASE)
    with pytest.raises(OSError, match=rf"No space left on device.*free space.*{small_disk}/new"):
        other.build(BASE, small_disk / "new")
    (small_disk / "filler").unlink()
    rest.close()
    (small_disk / "rest").unlink()
    world.put(editor, put[1])
    editor.index.compact()
    editor.index.close()
    assert len(Index.open(world.index, verify=True)) == 5
    assert len(other.build(BASE, small_disk / "new")) == 3
