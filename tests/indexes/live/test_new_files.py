"""A reader while another process compacts or rebuilds the index: a thread opens the new files, and nothing waits."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from indexes.live import following, opening
from indexes.live.index import LiveIndex
from indexes.live.opening import Opened
from indexes.store.generations import LIVE
from indexes.store.index import Index
from tests.fakes.changer import Changer, other_process
from tests.fakes.live import BASE, World, article, painting
from tests.fakes.models import FakeEncoder
from tests.indexes.live.test_live_index import check_same
from tests.paths import ROOT


class Gate:
    """Holds up the threads that open files, and counts them.

    Attributes:
        opened: Is set to let them go on.
        errors: Raised by the next ones instead of opening, the last first.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.errors = threading.Event(), list[Exception]()
        self.threads: list[threading.Thread] = []
        real = opening.open_current

        def open_current(*arguments: object) -> Opened:
            self.threads.append(threading.current_thread())
            assert self.opened.wait(30)
            if self.errors:
                raise self.errors.pop()
            return real(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(opening, "open_current", open_current)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.opened.set()
    for thread in gate.threads:
        thread.join()


@pytest.fixture
def other(world: World) -> Iterator[Changer]:
    with other_process(world) as changer:
        yield changer


def titles(reader: LiveIndex) -> list[str]:
    """Returns the titles that a search finds, sorted."""
    with reader.pinned():
        rows = reader.search(FakeEncoder().encode_images([painting(0)]), 20)[1][0]
        found = [row for row in rows.tolist() if row >= 0]
        assert all(len(reader.gather([reader.token_rows(row)]).first) == 1 for row in found)
        assert all(reader.summary(row) for row in found)
        return sorted(reader.entity(row).title for row in found)


def test_a_compaction_is_not_waited_for_and_no_change_is_missed(
    world: World, other: Changer, gate: Gate, tmp_path: Path
) -> None:
    reader = world.open()
    other("put f")
    assert titles(reader) == ["a 0", "b 0", "c 0", "d 0", "e 0", "f 0"]
    other("put a 1")  # which the reader has not read before the compaction
    other("compact")
    other("put g")
    old = reader.folder
    for change, expected in {
        "remove b": ["a 1", "c 0", "d 0", "e 0", "f 0", "g 0"],
        "put c 2": ["a 1", "c 2", "d 0", "e 0", "f 0", "g 0"],
        "put h": ["a 1", "c 2", "d 0", "e 0", "f 0", "g 0", "h 0"],
    }.items():
        other(change)
        assert titles(reader) == expected
        assert reader.folder == old and not reader.is_behind()
    other("compact")  # again, while the files of the first compaction are still being opened
    other("remove h")
    assert titles(reader) == ["a 1", "c 2", "d 0", "e 0", "f 0", "g 0"]
    assert len(gate.threads) == 1 and reader.folder == old
    gate.opened.set()
    gate.threads[0].join()
    assert titles(reader) == ["a 1", "c 2", "d 0", "e 0", "f 0", "g 0"]
    assert reader.folder == world.index / LIVE / "000002" and len(gate.threads) == 1
    final = [article("a", 1), article("c", 2), *BASE[3:], article("f"), article("g")]
    check_same(reader, world.build(final, tmp_path / "fresh"))


@pytest.mark.slow
def test_old_files_can_be_read_until_the_new_ones_are_open(world: World, gate: Gate) -> None:
    """Even if the process that compacted is gone, and with it the old files and logs."""
    reader = world.open()
    with other_process(world) as other:
        other("put f")
        other("compact")
    assert not (world.index / "manifest.json").exists()
    for _ in range(3):
        assert titles(reader) == ["a 0", "b 0", "c 0", "d 0", "e 0"]
        assert len(reader.tokens(np.array(reader.token_rows(0)))) == len(reader.token_rows(0)) > 0
    gate.opened.set()
    assert reader.refresh()
    assert titles(reader) == ["a 0", "b 0", "c 0", "d 0", "e 0", "f 0"] and len(gate.threads) == 1


def test_a_batch_keeps_its_files_when_new_ones_are_ready(world: World, gate: Gate) -> None:
    reader, editor = world.open(), world.editor()
    world.put(editor, article("a", 1))
    with reader.pinned() as version:
        rows = [row for row in reader.rows() if reader.entity(row).title == "a 1"]
        assert editor.index.compact()
        titles(reader)  # another batch, in the same thread
        gate.opened.set()
        assert reader.refresh() and reader.folder != version.base.folder
        assert [reader.entity(row).title for row in rows] == ["a 1"]
        assert len(reader.gather([reader.token_rows(rows[0])]).values) == 2
        assert reader.row_of("kb/a") == rows[0]
    assert reader.row_of("kb/a") != rows[0]
    assert len(reader.gather([reader.token_rows(rows[0])]).values) == 2  # readable for another minute


def test_new_files_that_cannot_be_opened_are_tried_again(
    world: World, gate: Gate, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, editor = world.open(), world.editor()
    full = [RuntimeError("CUDA out of memory. Tried to allocate 5.1 GB"), OSError(5, "Input/output error")]
    gate.errors = [full[1], full[0], full[0]]
    gate.opened.set()
    world.put(editor, article("f"))
    assert editor.index.compact()

    def attempts() -> int:
        for _ in range(3):
            assert titles(reader)[-1] == "f 0" and reader.folder == world.index
            gate.threads[-1].join()
        return len(gate.threads)

    def reported() -> list[object]:
        return [record.exc_info[1] for record in caplog.records if record.exc_info]

    def later(seconds: float) -> None:
        monkeypatch.setattr(time, "monotonic", lambda: now + seconds)

    now = time.monotonic()
    later(0)
    assert attempts() == 1 and reported() == full[:1]
    assert "cannot read another process's changes; serving the last state" in caplog.text
    later(following.RETRY - 0.1)
    assert attempts() == 1
    assert not reader.refresh() and len(gate.threads) == 2  # at once
    assert reported() == full[:1]  # the same is told once
    later(2.1 * following.RETRY)
    assert attempts() == 3 and reported() == full
    world.put(editor, article("g"))  # does not depend on the new files
    assert titles(reader)[-1] == "g 0" and len(gate.threads) == 3
    later(3.2 * following.RETRY)
    titles(reader)
    gate.threads[-1].join()
    assert titles(reader)[-1] == "g 0" and reader.folder == world.index / LIVE / "000001" and len(gate.threads) == 4


def test_closing_waits_for_the_thread(world: World, gate: Gate) -> None:
    reader, editor = world.open(), world.editor()
    world.put(editor, article("f"))
    assert editor.index.compact()
    titles(reader)
    [thread] = gate.threads
    threading.Timer(0.2, gate.opened.set).start()
    reader.close()
    assert not thread.is_alive()
    assert titles(reader)[-1] == "f 0" and reader.folder == world.index / LIVE / "000001"  # still readable
    reader.close()


def test_one_thread_opens_files_for_all(world: World, gate: Gate) -> None:
    reader, editor = world.open(), world.editor()
    world.put(editor, article("f"))
    assert editor.index.compact()
    found: list[list[str]] = []
    batches = [threading.Thread(target=lambda: found.append(titles(reader))) for _ in range(8)]
    for batch in batches:
        batch.start()
    for batch in batches:
        batch.join()
    titles(reader)
    assert len(gate.threads) == 1
    gate.opened.set()
    assert reader.refresh() and len(gate.threads) == 1
    assert len(titles(reader)) == 6


def test_a_rebuilt_index_is_opened_in_the_thread(world: World, gate: Gate) -> None:
    reader = world.open()
    world.options["overwrite"] = True
    fresh = world.build(BASE[:2], world.index)
    for _ in range(2):
        assert titles(reader) == ["a 0", "b 0", "c 0", "d 0", "e 0"]
    gate.opened.set()
    assert reader.refresh() and titles(reader) == ["a 0", "b 0"] and len(gate.threads) == 1
    check_same(reader, fresh)
    (world.index / "manifest.json").unlink()  # as if the next build were being published
    assert not reader.refresh() and len(reader) == 2


def test_changes_that_were_undone_do_not_open_the_files_again(world: World, gate: Gate) -> None:
    editor, reader = world.editor(), world.open()
    world.put(editor, article("f"))
    editor.index.close()
    path = world.index / LIVE / "000000.log"
    before = path.read_bytes()
    editor = world.editor()
    world.put(editor, article("g"))
    assert titles(reader)[-1] == "g 0"
    editor.index.close()
    path.write_bytes(before)  # as a writer does to undo a record when the disk is full
    assert titles(reader)[-1] == "f 0" and not gate.threads


def test_replaced_files_and_their_logs_are_removed_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of every generation can be read with all later changes as long as they exist."""
    held: list[object] = []
    monkeypatch.setattr("indexes.live.index.hold", held.append)
    editor = world.editor()
    for name in ("f", "g", "h"):
        world.put(editor, article(name))
        assert editor.index.compact()

    def state() -> list[str]:
        for thread in threading.enumerate():
            if thread.name == "remove old files":
                thread.join()
        names = sorted(path.name for path in (world.index / LIVE).iterdir() if path.name[0] == "0")
        return (["build"] if (world.index / "manifest.json").exists() else []) + names

    logs = [f"00000{number}.log" for number in range(4)]
    assert state() == ["build", logs[0], "000001", logs[1], "000002", logs[2], "000003", logs[3]]
    del held[1]  # a result that kept generation 1
    assert state() == ["build", logs[0], logs[1], "000002", logs[2], "000003", logs[3]]
    del held[0]
    assert state() == ["000002", logs[2], "000003", logs[3]]
    del held[0]
    assert state() == ["000003", logs[3]]
    editor.index.close()
    assert len(Index.open(world.index, verify=True)) == 8


def test_a_writer_that_no_longer_writes_follows_others(world: World) -> None:
    former = world.editor()
    world.put(former, article("f"))
    assert former.index.compact()
    world.put(former, article("g"))
    former.index.close()
    index, editor = former.index, world.editor()
    world.put(editor, article("h"))
    assert titles(index)[-3:] == ["f 0", "g 0", "h 0"] and index.folder == world.index / LIVE / "000001"
    assert editor.index.compact() and index.refresh() and index.folder == world.index / LIVE / "000002"
    assert titles(index)[-3:] == ["f 0", "g 0", "h 0"]


def test_an_index_is_freed_when_it_was_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, its vectors take gigabytes."""
    monkeypatch.setattr(following, "hold", lambda _: None)
    reader, editor = world.open(), world.editor()
    base = weakref.ref(reader.version.base)
    world.put(editor, article("f"))
    titles(reader)
    assert editor.index.compact() and reader.refresh() and base() is None


@pytest.mark.slow
def test_a_forked_process_opens_the_files_itself(world: World) -> None:
    script = """
import os, sys, threading
from pathlib import Path
from indexes.live import opening
from tests.fakes.live import World, article
world = World.at(Path(sys.argv[1]))
reader, editor = world.open(), world.editor()
world.put(editor, article("f"))
assert editor.index.compact()
real, go = opening.open_current, threading.Event()
opening.open_current = lambda *arguments: (go.wait(), real(*arguments))[1]
with reader.pinned():
    assert reader.folder == world.index
if not (child := os.fork()):
    go.set()
    assert reader.refresh() and reader.folder == world.index / "live" / "000001" and len(reader) == 6
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
go.set()
assert reader.refresh() and len(reader) == 6
"""
    command = [sys.executable, "-W", "ignore", "-c", script, str(world.folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
