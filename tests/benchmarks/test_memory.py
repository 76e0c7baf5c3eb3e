from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import memory


def test_shared_pages_count_once() -> None:
    hold = "import mmap, os; held = mmap.mmap(-1, 64 << 20); held.write(b'x' * (64 << 20)); os.fork()"
    code = f"{hold}; os.write(1, b'1'); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.read(2) == b"11"  # of both processes
        assert 64 < memory.resident_mib(process.pid) < 64 + 40
        process.stdin.write(b"\n\n")
        process.stdin.close()


@pytest.mark.parametrize(("late", "percent"), [(100.0, 0.0), (104.0, 4.0)])
def test_growth_compares_ten_minutes_with_ten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: float, percent: float
) -> None:
    mib = iter([*[50.0] * 5, *[100.0] * 10, *[102.0] * 5, *[late] * 10])

    @contextmanager
    def service(*arguments: Any) -> Iterator[Any]:
        yield SimpleNamespace(pid=1), None

    monkeypatch.setattr(memory, "service", service)
    monkeypatch.setattr(memory, "Requests", lambda args: lambda start: iter(()))
    monkeypatch.setattr(memory, "put_load", lambda *arguments: {"answered_per_s": 8.0, "errors": {}})
    monkeypatch.setattr(memory, "resident_mib", lambda pid: next(mib))
    monkeypatch.setattr(memory, "limit_threads", lambda threads: None)
    given = ["--index", "index", "--queries", "q.csv", "--query-images", "images", "--minutes", "30"]
    memory.main([*given, "--out", str(tmp_path / "memory.json")])
    report = json.loads((tmp_path / "memory.json").read_text())
    assert report["growth_percent"] == percent and len(report["minutes"]) == 30


def test_too_few_minutes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        memory.main(["--index", "i", "--queries", "q", "--query-images", "i", "--minutes", "20"])
    assert "--minutes: must be at least 25, got 20" in capsys.readouterr().err
