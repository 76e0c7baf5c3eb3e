"""Step 2's training: a loss that falls, a frozen tower, and a resumed run that equals an uninterrupted one."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from retriever.models.encoder import ClipEncoder
from retriever.models.qformer import QFormerFusion
from tests.fakes.training_world import TrainingWorld
from training import loop
from training.candidates import Sample, SectionRef
from training.config import RerankerTrainingConfig
from training.train_reranker import split_samples, train_reranker

CONFIG = RerankerTrainingConfig(steps=6, validate_every=2, validation_share=0.25)


def run(world: TrainingWorld, out: Path, config: RerankerTrainingConfig = CONFIG, encoder: Path | None = None) -> Path:
    return train_reranker(world.folder / "fusion", world.data, out, config, encoder=encoder, progress=False)


def test_the_loss_falls_and_the_result_loads(world: TrainingWorld, tmp_path: Path) -> None:
    config = RerankerTrainingConfig(steps=48, validate_every=16, learning_rate=3e-3, validation_share=0.0, batch_size=6)
    out = run(world, tmp_path, config)
    with (tmp_path / "curve.csv").open() as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    # Of the 12 negatives from other lands about 3 have the question's topic: by texts alone about log(4) is the least.
    assert losses[-1] < 1.1 < losses[0], losses
    before, after = QFormerFusion.load(world.folder / "fusion"), QFormerFusion.load(out)
    assert after.fingerprint != before.fingerprint
    for name, tensor in before.vision.state_dict().items():
        assert torch.equal(tensor, after.vision.state_dict()[name]), name


def test_a_resumed_run_equals_an_uninterrupted_one(
    world: TrainingWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(world, tmp_path / "whole")
    saved = loop._save

    def save_and_stop(*arguments: object) -> None:
        saved(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_save", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        run(world, tmp_path / "parts")
    monkeypatch.setattr(loop, "_save", saved)
    parts = run(world, tmp_path / "parts")
    expected = load_file(whole / "model.safetensors")
    for name, tensor in load_file(parts / "model.safetensors").items():
        assert torch.equal(tensor, expected[name]), name
    assert not torch.equal(
        expected["query_tokens"], load_file(world.folder / "fusion" / "model.safetensors")["query_tokens"]
    )


def test_the_tower_of_an_encoder_is_taken_and_stays(world: TrainingWorld, tmp_path: Path) -> None:
    out = run(world, tmp_path, replace(CONFIG, steps=2), encoder=world.folder / "clip")
    tower = ClipEncoder.load(world.folder / "clip").model.vision_model.state_dict()
    found = QFormerFusion.load(out).vision.state_dict()
    for name, tensor in tower.items():
        assert torch.equal(tensor, found[name]), name


def test_nothing_to_train_on_is_an_error(world: TrainingWorld, tmp_path: Path) -> None:
    blind = replace(world.data, query_image_of=lambda image_id: None)
    with pytest.raises(ValueError, match="none of 16 questions"):
        train_reranker(world.folder / "fusion", blind, tmp_path, progress=False)


def test_no_image_is_trained_on_and_validated_on() -> None:
    samples = [Sample("what?", f"q{i // 2}", SectionRef("gold", 0), (), ("a", "b")) for i in range(40)]
    training, validation = split_samples(samples, 0.2, 0)
    assert (len(training), len(validation)) == (32, 8)
    assert not {s.image_id for s in training} & {s.image_id for s in validation}
