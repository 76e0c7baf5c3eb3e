"""What a reader must know to change one thing: the files that one file imports, directly or through others."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.docs.test_layers import LEVEL, imports
from tests.paths import ROOT

DOORS = {
    "serving/app.py": 6_150,
    "training/reranker/train.py": 11_522,
    "evaluation/run.py": 4_499,
    "indexes/builder/build.py": 9_809,
    "omgm/api.py": 11_345,
}
"""The most lines that a file may pull in, itself included. A bar only goes down.
"""


@cache
def house() -> dict[str, Path]:
    """Returns the product's files by their modules' names."""
    files = (path for package in LEVEL for path in sorted((ROOT / package).rglob("*.py")))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}


@cache
def named(path: Path) -> frozenset[Path]:
    """Returns the files that a file imports, inside functions and for types only, too."""
    modules = (name if name in house() else name.rpartition(".")[0] for name in imports(path))
    return frozenset(house()[name] for name in modules if name in house()) - {path}


def closure(door: Path) -> set[Path]:
    seen, left = {door}, [door]
    while left:
        new = named(left.pop()) - seen
        seen |= new
        left += new
    return seen


@pytest.mark.parametrize("door", DOORS)
def test_a_door_pulls_in_no_more_than_its_bar(door: str) -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in closure(ROOT / door)}
    total, bar = sum(lines.values()), DOORS[door]
    assert total <= bar, f"{door} pulls in {total:,} lines of {len(lines)} files"


def test_few_files_import_by_a_string() -> None:
    """What they import is not counted above, so that it must be a command, an extra, or what the user names."""
    strings = {
        path.relative_to(ROOT).as_posix()
        for path in house().values()
        if "import_" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__"))
    }
    assert strings <= {
        "indexes/extras.py",
        "indexes/knowledge/embedded.py",
        "omgm/machine.py",
        "retriever/models/cross_encoder.py",
    }
