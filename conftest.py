"""Files for the examples in docstrings and docs/python.md, which `pytest` runs and which open "index"."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import secrets
import shutil
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

# Ray reads the mode only once, on import, so either all of its clusters in a process have a token or none has.
# Without a token from us, it would write one to the user's home folder.
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}

# Threads of several test processes on the same cores would wait for each other, and PyTorch's spin while they wait.
# The commands that tests start inherit it.
if processes := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))

_IMPORTED = {
    "indexes/builder/cluster.py": "ray",
    "omgm/integrations/langchain.py": "langchain_core",
    "omgm/integrations/llamaindex.py": "llama_index",
    "omgm/mcp_server.py": "mcp",
    "retriever/kernels/fp8_triton.py": "triton",
    "retriever/kernels/maxsim_triton.py": "triton",
}
"""Modules that cannot be imported without a package from an extra."""
collect_ignore = [module for module, package in _IMPORTED.items() if find_spec(package) is None]


# Test modules import PyTorch and much else, which stays: nothing there is garbage.
gc.disable()


def pytest_collection_finish() -> None:
    """Collects garbage from here on, except what has been imported."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def garbage_of_other_modules() -> None:
    """Spares collections what other test modules have imported and keep: one took seconds by the end of a run."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Looks for examples only in the docstrings of modules that have some, because it imports and inspects them."""
    collectors = yield
    if file_path.suffix == ".py" and b">>> " not in file_path.read_bytes():
        return [collector for collector in collectors if not isinstance(collector, DoctestModule)]
    return collectors


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an asynchronous test in an event loop of its own, for at most five minutes."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**given), 300))
    return True


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small index, its knowledge base, an image and questions; see tests/examples.py."""
    from tests.examples import write_examples  # not at the top, because it imports PyTorch, which many tests avoid
    from tests.once import written_once

    return written_once(tmp_path_factory, "examples", write_examples)


@pytest.fixture
def example_folder(examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `examples` that is the current working folder."""
    folder = tmp_path / "examples"
    shutil.copytree(examples, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(autouse=True)
def docstrings_of_omgm_run_there(request: pytest.FixtureRequest) -> None:
    """Runs the docstring examples of `omgm` in the folder with the files that they name."""
    if isinstance(request.node, pytest.DoctestItem) and request.node.name.startswith("omgm."):
        request.getfixturevalue("example_folder")
