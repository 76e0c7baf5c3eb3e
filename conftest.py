"""The files that examples read: `pytest` runs those of docstrings and of docs/python.md, and they open "index"."""

from __future__ import annotations

import os
import secrets
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

# Ray reads the mode once, when it is imported, so all its clusters in one process have to have a token, or none.
# Without one of ours it would write one to the home of who runs the tests.
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}

_IMPORTED = {
    "indexes/cluster.py": "ray",
    "omgm/integrations/langchain.py": "langchain_core",
    "omgm/integrations/llamaindex.py": "llama_index",
    "omgm/mcp_server.py": "mcp",
    "retriever/kernels/maxsim_triton.py": "triton",
}
"""Modules that cannot be imported without a package of an extra."""
collect_ignore = [module for module, package in _IMPORTED.items() if find_spec(package) is None]


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small index, its knowledge base, an image and questions; see tests/examples.py."""
    from tests.examples import write_examples  # here, because it imports PyTorch, which many tests do without

    folder = tmp_path_factory.mktemp("examples")
    write_examples(folder)
    return folder


@pytest.fixture
def example_folder(examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `examples`, which becomes the working folder."""
    folder = tmp_path / "examples"
    shutil.copytree(examples, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(autouse=True)
def docstrings_of_omgm_run_there(request: pytest.FixtureRequest) -> None:
    """Gives the docstring examples of `omgm` the files that they name."""
    if isinstance(request.node, pytest.DoctestItem) and request.node.name.startswith("omgm."):
        request.getfixturevalue("example_folder")
