"""Imports point one way, as shown in docs/architecture.md. The code is parsed, not imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.paths import ROOT

LAYERS = (
    ("chat_models", "retriever"),
    ("generators", "indexes"),
    ("training", "evaluation", "search_agents"),
    ("serving",),
    ("omgm",),
    ("pretraining",),
)
"""From bottom to top; a package imports only from lower layers."""
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}
FOREIGN_TO = {
    "retriever": {
        "argparse",
        "faiss",
        "fastapi",
        "http",
        "httpx",
        "chat_models",
        "starlette",
        "tqdm",
        "urllib",
        "uvicorn",
    },
    "serving": {"faiss", "torch", "transformers"},
    "search_agents": {"argparse", "faiss", "fastapi", "starlette", "torch", "transformers", "uvicorn"},
}
"""Modules that a package must not import."""


def package_of(module: str) -> str:
    """Returns the top-level package of a module."""
    return module.partition(".")[0]


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Returns the modules that a file imports, including imports inside functions."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}:{node.lineno}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_of(package: str) -> set[tuple[str, str]]:
    """Returns the packages that a package's files import, each with the importing file."""
    files = sorted((ROOT / package.replace(".", "/")).rglob("*.py"))
    assert files
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    return {
        (package_of(module), names[path])
        for path in files
        if package_of(names[path]) == package
        for module in imports(path)
    }


@pytest.mark.parametrize("package", LEVEL)
def test_imports_point_down(package: str) -> None:
    wrong = [
        f"{file} imports {other}"
        for other, file in imports_of(package)
        if other != package and LEVEL.get(other, -1) >= LEVEL[package]
    ]
    assert wrong == []


def test_packages_are_joined_by_few_arrows() -> None:
    arrows = {(package, other) for package in LEVEL for other, _ in imports_of(package) if other in LEVEL}
    assert len({(one, other) for one, other in arrows if one != other}) <= 40


@pytest.mark.parametrize("package", LEVEL)
def test_no_module_imports_itself_through_others(package: str) -> None:
    """Imports inside functions and for types only count, too."""
    files = sorted((ROOT / package.replace(".", "/")).rglob("*.py"))
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in files}
    graph = {}
    for name, path in names.items():
        named = {one if one in names else one.rpartition(".")[0] for one in imports(path)}
        graph[name] = named & names.keys() - {name}
    TopologicalSorter(graph).prepare()  # raises a CycleError that names the modules


def test_trainings_read_an_index_and_no_files_of_a_knowledge_base() -> None:
    files = sorted((ROOT / "training").rglob("*.py"))
    assert [path for path in files if any(module.startswith("indexes.knowledge") for module in imports(path))] == []


@pytest.mark.parametrize("package", FOREIGN_TO)
def test_a_package_leaves_to_others_what_is_theirs(package: str) -> None:
    assert [f"{file} imports {other}" for other, file in imports_of(package) if other in FOREIGN_TO[package]] == []


def test_one_module_below_the_top_uses_the_hub() -> None:
    """Everything else there works without its client and thus without a network."""
    lower = [package for packages in LAYERS[:2] for package in packages]
    users = {file for package in lower for other, file in imports_of(package) if other == "huggingface_hub"}
    assert users == {"retriever.hub"}


def test_every_package_has_a_layer() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(LEVEL)
