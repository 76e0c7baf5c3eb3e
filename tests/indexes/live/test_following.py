"""A reader while another process changes the index: it sees every change before its next batch."""

from __future__ import annotations

import errno
import logging

import pytest

from indexes.live import following, opening
from indexes.live.changes import Change, Origin, from_bytes
from indexes.store.generations import LIVE, logs
from indexes.store.index import Index
from tests.fakes.live import World, article
from tests.indexes.live.test_live_index import FINAL, check_same, edit


def test_changes_and_compactions_are_seen_by_the_next_batch(world: World) -> None:
    reader = world.open()
    assert not reader.refresh()
    writer = edit(world)  # creates the log
    fresh = world.build(FINAL, world.folder / "fresh")
    with reader.pinned():
        check_same(reader, fresh)
    assert not reader.refresh()
    before = reader.folder
    assert writer.compact() and reader.refresh() and reader.folder != before
    with reader.pinned() as version:
        check_same(reader, fresh)
        writer.close()
        editor = world.editor()
        world.put(editor, article("i"))
        with reader.pinned():  # in the same batch
            assert reader.row_of("kb/i") is None
    assert version.row_of("kb/i") is None
    with reader.pinned():
        row = reader.row_of("kb/i")
        assert row is not None and reader.entity(row) == article("i")
    editor.remove(["kb/i"])
    assert reader.refresh() and reader.row_of("kb/i") is None and len(reader) == len(FINAL)
    editor.index.close()


def test_nothing_is_read_if_nothing_changed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    editor, reader = world.editor(), world.open()
    world.put(editor, article("f"))
    assert reader.refresh()
    monkeypatch.setattr(following, "read_changes", None)
    assert not reader.refresh() and not editor.index.refresh()
    editor.index.close()


def test_only_new_changes_are_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    editor, reader = world.editor(), world.open()
    world.put(editor, article("f"), article("g"))
    assert reader.refresh()
    read: list[bytes] = []

    def counted(content: bytes) -> Change | Origin:
        read.append(content)
        return from_bytes(content)

    monkeypatch.setattr(opening, "from_bytes", counted)
    world.put(editor, article("h"))
    assert reader.refresh() and len(read) == 1
    assert [reader.row_of(f"kb/{name}") is not None for name in "fgh"] == [True] * 3
    editor.index.close()


def test_what_was_found_stays_readable_after_a_compaction(world: World) -> None:
    editor, reader = world.editor(), world.open()
    row = reader.row_of("kb/a")
    assert row is not None
    found = reader.entity(row), reader.image_path(row)
    world.put(editor, article("f"))
    assert editor.index.compact() and reader.refresh()
    assert reader.row_of("kb/a") not in (None, row)
    assert (reader.entity(row), reader.image_path(row)) == found  # a page may request its image only now
    editor.index.close()


def test_what_cannot_be_read_leaves_the_reader_as_it_was(world: World, caplog: pytest.LogCaptureFixture) -> None:
    editor, reader = world.editor(), world.open()
    world.put(editor, article("f"))
    editor.index.close()
    (path,) = logs(world.index)
    assert path.parent.name == LIVE
    path.write_bytes(b"?" * 64)
    assert not reader.refresh() and reader.row_of("kb/f") is None and isinstance(reader, Index)
    assert "cannot read another process's changes; serving the last state" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        assert not reader.refresh()
    assert not caplog.records  # it is told once


def test_what_cannot_be_read_for_the_moment_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    editor, reader = world.editor(), world.open()
    world.put(editor, article("f"))
    editor.index.close()

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error", "000000.log")

    for function in ("read_changes", "generations.state_of"):
        with monkeypatch.context() as broken:
            broken.setattr(f"indexes.live.following.{function}", fails)
            for _ in range(3):
                with reader.pinned():
                    assert reader.row_of("kb/f") is None
        assert reader.is_behind()
    assert len(caplog.records) == 1  # it is told once
    assert reader.refresh() and reader.row_of("kb/f") is not None
    assert not reader.is_behind()
