"""A package that is installed beside omgm adds a command and a mode, each by one line; what is broken says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from omgm.__main__ import main
from tests.fakes.packages import installing

COMMAND = '''"""Say hello."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name")


def run(args: argparse.Namespace) -> None:
    print(f"hello {args.name}")
'''
MODE = """from dataclasses import dataclass

from omgm.modes import ModeFamily
from retriever.trail_views import SpentOut, TrailOut


@dataclass
class Answer:
    answer: str
    trail: TrailOut
    failure: None = None


class Hello:
    model = "nobody"

    def __init__(self, searcher):
        self._searcher = searcher

    def begin(self, request):
        async def run(watch):
            name = f"Hello, {request.image.size} of {self._searcher.index.name}."
            spent = SpentOut(tokens=0, money=0, calls={}, ms=0)
            parts = dict.fromkeys(("claims", "invented_citations", "without", "sources", "rounds"), [])
            trail = TrailOut(
                question=request.question, policy="hello", answer=name, abstained=False, stopped="", failure="",
                malformed=0, spent=spent, **parts,
            )
            return Answer(name, trail)

        return run


HELLO = ModeFamily(lambda: ("hello",), lambda name, context: Hello(context.searcher))
"""
TABLE = """[omgm.commands]
hello = greetings
index.greet = greetings
lost = greetings_lost
"""


def install(folder: Path, name: str, table: str) -> None:
    (folder / f"{name}-1.0.dist-info").mkdir()
    (folder / f"{name}-1.0.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / f"{name}-1.0.dist-info/entry_points.txt").write_text(table)


def omgm(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "omgm", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "greetings.py").write_text(COMMAND)
    install(tmp_path, "greetings", TABLE)
    return tmp_path


def test_commands_of_another_package_are_listed_and_run(folder: Path) -> None:
    text = omgm(folder, "--help").stdout
    assert "\nothers:\n  hello              Say hello\n" in text
    assert "  lost               Cannot be imported: there is no module greetings_lost\n" in text
    assert omgm(folder, "hello", "world").stdout == "hello world\n"
    assert omgm(folder, "index", "greet", "world").stdout == "hello world\n"


def test_a_command_that_cannot_be_imported_names_its_entry_point(folder: Path) -> None:
    done = omgm(folder, "lost")
    assert done.returncode == 2
    assert done.stderr == (
        "omgm: error: entry point 'lost' of omgm.commands (greetings 1.0): greetings_lost cannot be imported "
        "(No module named 'greetings_lost'); install what it needs, or uninstall the package\n"
    )
    assert omgm(folder, "hello", "again").stdout == "hello again\n"  # the others work


def test_a_mode_of_another_package_answers(
    tmp_path: Path, examples: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    index, photo = str(examples / "index"), str(examples / "photo.jpg")
    trail = tmp_path / "trail.json"
    with Image.open(photo) as image:
        size = image.size
    asked = ["ask", "--index", index, "--mode", "hello", photo, "Who?", "--trail"]
    with installing(tmp_path / "packages", monkeypatch) as install:
        install("greetings_mode", MODE, "omgm.modes", "greetings = greetings_mode:HELLO")
        with pytest.raises(SystemExit):
            main(["ask", "--help"])
        assert "hello" in " ".join(capsys.readouterr().out.split())
        assert main([*asked, str(trail)]) == 0
        assert capsys.readouterr().out.startswith(f"Hello, {size} of ")
        assert json.loads(trail.read_text())["question"] == "Who?"
        assert main([*asked, "trail.svg"]) == 2
        said = capsys.readouterr().err
    assert "--trail: the mode hello draws no image of its trail; name a file that ends in .json" in said


def test_a_mode_that_cannot_be_imported_names_its_entry_point(folder: Path) -> None:
    install(folder, "salutes", "[omgm.modes]\nsalutes = salutes:MODES\n")
    done = omgm(folder, "ask", "--index", "none", "--mode", "auto", "photo.jpg", "Who?")
    assert done.returncode == 2
    assert done.stderr == (
        "omgm: error: entry point 'salutes' of omgm.modes (salutes 1.0): salutes:MODES cannot be imported "
        "(No module named 'salutes'); install what it needs, or uninstall the package\n"
    )
