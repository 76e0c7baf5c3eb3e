"""Fixtures of the training tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.fakes.training_world import TrainingWorld, write_training_world


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """Runs these small models in one thread: more threads would wait for each other longer than they compute.

    This also makes runs in two processes equal to those in one: with other thread counts, sums are computed in a
    different order, and Adam amplifies tiny differences where a gradient is close to 0.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> TrainingWorld:
    """A small training set for step 2; tests write to other folders."""
    return write_training_world(tmp_path_factory.mktemp("world"))
