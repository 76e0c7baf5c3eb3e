"""Fixtures of the training tests."""

from __future__ import annotations

import pytest

from tests.fakes.training_world import TrainingWorld, write_training_world


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> TrainingWorld:
    """A small training of step 2; tests write to other folders."""
    return write_training_world(tmp_path_factory.mktemp("world"))
