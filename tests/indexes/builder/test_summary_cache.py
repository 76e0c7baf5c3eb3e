"""The file of cached summaries: shared by processes, and never the cause of a wrong summary."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from indexes.builder.summary_cache import SummaryCache, default_cache, question_hash


def test_a_question_is_answered_once_for_all_processes(tmp_path: Path) -> None:
    path = tmp_path / "new" / "summaries.sqlite"
    one, other = SummaryCache(path), SummaryCache(path)
    question = question_hash("model", "", 256, [{"role": "user", "content": "Où?"}])
    assert len(question) == 32 and question != question_hash("model", "", 255, [{"role": "user", "content": "Où?"}])
    assert one.get(question) is None and not path.parent.exists()  # a lookup creates nothing
    one.put(question, "model", "Là.")
    assert [one.get(question), other.get(question)] == ["Là.", "Là."]
    other.put(question, "model", "Ici.")
    one.close()
    assert one.get(question) == "Ici."
    one.close()
    other.close()


HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
db.execute("COMMIT")
"""


def test_a_file_that_another_process_creates_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "summaries.sqlite"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdin is not None and other.stdout.readline() == "held\n"
        release = threading.Timer(0.1, other.stdin.close)
        release.start()
        cache = SummaryCache(path)
        try:
            cache.put(b"question", "model", "summary")
        finally:
            release.join()
    assert cache.get(b"question") == "summary"
    cache.close()


def test_an_estimate_leaves_it_as_it_is(tmp_path: Path) -> None:
    cache = SummaryCache(tmp_path / "summaries.sqlite")
    cache.read_only = True
    cache.put(b"question", "model", "summary")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_used_is_named_with_the_setting(tmp_path: Path) -> None:
    text, newer, folder = tmp_path / "text", tmp_path / "newer", tmp_path / "folder"
    text.write_text("no database, but long enough to be read as one" * 50)
    folder.mkdir()
    db = sqlite3.connect(newer)
    db.execute("PRAGMA user_version = 7")
    db.close()
    for path, reason in ((text, "not a database"), (newer, "has format 7"), (folder, "unable to open"),
                         (text / "below", "")):  # fmt: skip
        with pytest.raises(ValueError, match=rf"{path}: cannot use the summary cache .*{reason}.*summarizer\.cache"):
            SummaryCache(path).put(b"question", "model", "summary")


def test_its_place_is_the_cache_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "omgm" / "summaries.sqlite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_cache() == Path("/home/someone/.cache/omgm/summaries.sqlite")
