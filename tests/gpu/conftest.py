"""The device of these tests: pretended on any machine, and a real one where there is one (marker `gpu`)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import pytest
import torch

from tests.gpu.flags import Models, build_flags, write_flags
from tests.gpu.pretend import Wait, pretend_cuda
from tests.paths import ROOT

CARD = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


class Device(Protocol):
    """A CUDA device that counts how often the host waits for it."""

    def counting(self) -> AbstractContextManager[list[Wait]]:
        """Yields a list that has the block's waits once the block has ended."""


class Card:
    """A real device, which reports waits through PyTorch's synchronization debug mode."""

    @contextmanager
    def counting(self) -> Iterator[list[Wait]]:
        """Yields a list that has the block's waits once the block has ended."""
        found: list[Wait] = []
        torch.cuda.synchronize()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield found
            finally:
                torch.cuda.set_sync_debug_mode("default")
        waits = [one for one in caught if "called a synchronizing CUDA operation" in str(one.message)]
        found += [Wait("synchronization", f"{_relative(one.filename)}:{one.lineno}") for one in waits]


def _relative(file: str) -> str:
    return os.path.relpath(file, ROOT) if Path(file).is_relative_to(ROOT) else file


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Runs small models in one thread: more would wait for each other longer than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["pretended", pytest.param("card", marks=CARD)])
def cuda(request: pytest.FixtureRequest) -> Iterator[Device]:
    """A CUDA device."""
    if request.param == "card":
        yield Card()
        return
    with pretend_cuda() as device:
        yield device


@pytest.fixture(scope="session")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the knowledge base of flags, and `index`, built on the CPU."""
    folder = tmp_path_factory.mktemp("flags")
    write_flags(folder)
    build_flags(folder, Models("cpu"), folder / "index")
    return folder
