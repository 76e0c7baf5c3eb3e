"""The day with a GPU, in a Python with only the packages that it may rely on; test_gpu.py has the models of part 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.frame import recorder
from benchmarks.gpu_day import Part, Step, install, last_lines, main, steps
from tests.paths import ROOT
from tests.small_python import python_with


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "gpu-day.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def small_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return python_with(tmp_path_factory.mktemp("small"))


def environment(python: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "OMP_NUM_THREADS") if name in os.environ}
    return kept | {"GPU_PYTHON": str(python), "CUDA_VISIBLE_DEVICES": ""} | more


@pytest.mark.slow
def test_two_parts_on_a_cpu(small_python: Path, tmp_path: Path) -> None:
    """The step of tests passes only if all of them can be collected with few packages."""
    absent = subprocess.run(
        [small_python, "-c", "import fastapi"], env=environment(small_python), capture_output=True, text=True
    )
    assert "No module named 'fastapi'" in absent.stderr
    done = subprocess.run(
        [ROOT / "benchmarks/gpu_day.sh", "1", "3"],
        env=environment(small_python, OUT=str(tmp_path / "out"), COMMIT="c0ffee"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
    )
    out = tmp_path / "out"
    assert done.returncode == 0, done.stdout + done.stderr + (out / "gpu-day.log").read_text()[-4000:]
    assert {file.name for file in out.iterdir()} == {"gpu-day.jsonl", "gpu-day.log", "trace-2.json.gz", "kernels-2.md"}
    lines = lines_of(out)
    ended = [(line["part"], line["step"]) for line in lines if line.get("status") == "passed"]
    assert ended == [
        (1, "versions"),
        (1, "tests"),
        (3, "training"),
        (3, "trace"),
    ]
    assert [line["machine"]["commit"] for line in lines if "machine" in line] == ["c0ffee"] * 2
    measured = {line["benchmark"] for line in lines if "benchmark" in line}
    assert measured == {"train", "trace"}


def python_step(code: str, name: str = "step", needs: float = 0, most: float = 60) -> Step:
    return Step(name, ("-c", code), needs, most)


def part(folder: Path, seconds: float = 60) -> Part:
    return Part(1, folder, dict(os.environ), seconds)


def test_a_failure_is_shown_and_the_next_step_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = part(tmp_path)
    both.run(python_step("print('measured'); raise SystemExit('no such device')", "first"))
    assert both.run(python_step("print('fine')", "second")) == "fine\n"
    assert both.failed == ["first"]
    ended = [line for line in lines_of(tmp_path) if line["status"] != "started"]
    assert [(line["step"], line["status"], line["said"]) for line in ended] == [
        ("first", "failed, exit status 1", ["measured", "no such device"]),
        ("second", "passed", ["fine"]),
    ]
    assert "no such device" in capsys.readouterr().out
    assert "measured" in (tmp_path / "gpu-day.log").read_text()


@pytest.mark.slow
def test_a_step_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    child = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    code = (
        "import pathlib, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}, {str(tmp_path / 'begun')!r}])\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(child.pid))\n"
        f"while not pathlib.Path({str(tmp_path / 'begun')!r}).exists(): time.sleep(0.01)\n"
        "print('half of it', flush=True)\n"
        "time.sleep(600)"
    )
    slow = part(tmp_path)
    assert slow.run(python_step(code, most=3)) == "half of it\n"
    assert slow.failed == ["step"] and lines_of(tmp_path)[-1]["status"] == "out of time"
    status = Path(f"/proc/{(tmp_path / 'pid').read_text()}/status")
    deadline = time.monotonic() + 10
    while status.exists() and "State:\tZ" not in status.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_does_not_fit_is_skipped_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = part(tmp_path, seconds=20)
    short.run(python_step("", "long", needs=30))
    short.run(python_step("", "brief", needs=5))
    assert [(line["step"], line["status"]) for line in lines_of(tmp_path)] == [
        ("long", "skipped"),
        ("brief", "started"),
        ("brief", "passed"),
    ]
    assert short.failed == []
    assert "needs 30 s, but 20 s are left" in capsys.readouterr().out


def test_a_gpu_gets_paper_sizes_and_tries_tiny_ones_first(tmp_path: Path) -> None:
    first, second, third = (steps(number, tmp_path, tmp_path, True, "paper") for number in (1, 2, 3))
    assert [step.name for step in first[1:]] == [step.name for step in [*second, *third]]
    assert all("tiny" not in step.command and "--runs" not in step.command for step in [*second, *third])
    assert [step.name for step in steps(1, tmp_path, tmp_path, False, "tiny")] == ["tests"]
    for some in (first, second, third):
        assert sum(step.needs for step in some) <= 300  # every step can start if none uses its full limit


def test_wheels_of_a_folder_are_installed_without_a_network(tmp_path: Path) -> None:
    for name, tag in (("one_two", "py3-none-any"), ("three", "py3-none-any"), ("three", "cp27-none-any")):
        with zipfile.ZipFile(tmp_path / f"{name}-1.0-{tag}.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", "value = 1\n")
            info = f"{name}-1.0.dist-info"
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: no\n"
            )
            wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
            wheel.writestr(f"{info}/RECORD", "")
    install(tmp_path, tmp_path / "packages")
    code = "import one_two, three; print(one_two.value + three.value)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "packages")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "2\n"


@pytest.mark.parametrize(("argv", "variables", "words"), [
    ([], {}, "name the parts to run"),
    (["4"], {}, "name the parts to run"),
    (["1"], {"SIZE": "huge"}, "SIZE: must be tiny or paper, got 'huge'"),
    (["1"], {"WHEELS": "nowhere"}, "has no .whl file"),
])  # fmt: skip
def test_wrong_arguments(
    argv: list[str], variables: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in (variables | {"OUT": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match=words):
        main(argv)


def test_last_lines_without_what_progress_bars_overwrote() -> None:
    assert last_lines("first\n\n 10%\r 50%\r100%\nlast\r\n\n", 2) == ["100%", "last"]


def test_lines_are_whole_and_without_a_file_nothing_happens(tmp_path: Path) -> None:
    recorder(None, benchmark="one")({"a": 1})
    for name in ("one", "two"):
        recorder(tmp_path / "lines.jsonl", benchmark=name)({"é": name})
    lines = (tmp_path / "lines.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [{"benchmark": "one", "é": "one"}, {"benchmark": "two", "é": "two"}]
