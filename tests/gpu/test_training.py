"""Trainings on a device: they finish, resume, and wait at most once per step."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from indexes.labeled_images import LabeledImage
from tests.fakes.training_world import COLORS, TrainingWorld, write_training_world
from tests.gpu.conftest import Device
from training.config import TrainingConfig
from training.encoder_data import EncoderData
from training.reranker.config import RerankerTrainingConfig
from training.reranker.train import train_reranker
from training.train_encoder import train_encoder

Train = Callable[[Path, int], Path]
"""Trains in a folder for a number of steps; returns the model's folder."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TrainingWorld:
    return write_training_world(tmp_path_factory.mktemp("world"))


def reranker(world: TrainingWorld, start: Path, recipe: str | None) -> Train:
    config = RerankerTrainingConfig(
        recipe=recipe, validation_share=0.25, validate_every=100, batch_size=2, device="cuda", workers=0
    )

    def train(out: Path, steps: int) -> Path:
        return train_reranker(start, world.data, out, replace(config, steps=steps)).folder

    return train


def encoder(world: TrainingWorld) -> Train:
    labeled = [
        LabeledImage(f"{color} {n}", world.folder / "queries" / f"q_{color}.png", f"https://e.example/wiki/{color}")
        for color in COLORS
        for n in range(4)
    ]
    data = EncoderData(index=world.data.index, originals=world.data.originals, labeled=labeled)
    config = TrainingConfig(validate_every=100, device="cuda")

    def train(out: Path, steps: int) -> Path:
        return train_encoder(world.folder / "clip", data, out, replace(config, steps=steps))

    return train


def check(cuda: Device, train: Train, out: Path) -> None:
    counts = []
    for steps in (1, 3):  # what happens once is in both
        with cuda.counting() as waits:
            folder = train(out / f"{steps}", steps)
        counts.append(len(waits))
    assert counts[1] - counts[0] <= 2, [wait for wait in waits if "training" in wait.place]
    [curve] = (out / "3").rglob("curve.csv")
    assert all(math.isfinite(float(row["loss"])) for row in csv.DictReader(curve.read_text().splitlines()))
    files = {path.name: load_file(path) for path in folder.glob("*.safetensors")}
    assert files and all(np.isfinite(value).all() for state in files.values() for value in state.values())
    again = train(out / "3", 3)  # is finished
    for path in again.glob("*.safetensors"):
        for name, value in load_file(path).items():
            np.testing.assert_array_equal(value, files[path.name][name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["in-batch", "mined", "paper"])
def test_the_reranker(cuda: Device, world: TrainingWorld, tmp_path: Path, recipe: str | None) -> None:
    check(cuda, reranker(world, world.folder / "fusion", recipe), tmp_path)


@pytest.mark.slow
def test_the_reranker_of_a_blip2(cuda: Device, world: TrainingWorld, blip2_folder: Path, tmp_path: Path) -> None:
    check(cuda, reranker(world, blip2_folder, None), tmp_path)


@pytest.mark.slow
def test_the_encoder(cuda: Device, world: TrainingWorld, tmp_path: Path) -> None:
    check(cuda, encoder(world), tmp_path)
