"""Training step 2 with a BLIP-2: its own image tower stays, however many image features fit in memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from omgm.__main__ import main
from retriever.models.qformer import QFormerFusion
from tests.fakes.training_world import TrainingWorld
from training.checkpoint import CHECKPOINT_NAME
from training.reranker.config import RerankerTrainingConfig
from training.reranker.train import train_reranker

CONFIG = RerankerTrainingConfig(steps=3, batch_size=4, learning_rate=1e-3, validation_share=0.25, validate_every=2)


def run(world: TrainingWorld, blip2: Path, out: Path, config: RerankerTrainingConfig = CONFIG) -> Path:
    return train_reranker(blip2, world.data, out, config).folder


def assert_same(one: Path, other: Path) -> None:
    expected, found = (load_file(folder / "model.safetensors") for folder in (one, other))
    assert set(expected) == set(found)
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name


def test_the_q_former_learns_and_the_tower_stays(world: TrainingWorld, blip2_folder: Path, tmp_path: Path) -> None:
    after = QFormerFusion.load(run(world, blip2_folder, tmp_path)).state_dict()
    before = QFormerFusion.load(blip2_folder).state_dict()
    moved = {name for name, tensor in before.items() if not torch.equal(tensor, after[name])}
    assert not {name for name in moved if name.startswith("vision.")}
    assert {"query_tokens", "vision_norm.weight"} < moved
    layers = {int(name.split(".")[3]) for name in moved if name.startswith("qformer.encoder.layer.")}
    assert layers == set(range(4))
    with safe_open(tmp_path / CHECKPOINT_NAME, "pt") as checkpoint:
        assert not [name for name in checkpoint.keys() if ".vision." in name]  # noqa: SIM118


def test_defaults_are_those_of_the_kind(world: TrainingWorld, blip2_folder: Path, tmp_path: Path) -> None:
    run(world, blip2_folder, tmp_path, replace(CONFIG, steps=1, learning_rate=None, validation_share=0.0))
    with safe_open(tmp_path / CHECKPOINT_NAME, "pt") as checkpoint:
        settings = json.loads(checkpoint.metadata()["run"])["settings"]
    assert (settings["learning_rate"], settings["max_tokens"]) == (1e-5, 20)  # of 512, the most that the model reads


@pytest.mark.parametrize(("recipe", "ratio"), [("paper", 1.25), ("mined", None)])
def test_the_paper_s_recipe_pads_elongated_images_from_plain_blip2(
    world: TrainingWorld, blip2_folder: Path, tmp_path: Path, recipe: str, ratio: float | None
) -> None:
    assert QFormerFusion.load(blip2_folder).pixels.target_ratio is None
    config = replace(CONFIG, steps=1, recipe=recipe, validation_share=0.0)
    trained = QFormerFusion.load(run(world, blip2_folder, tmp_path / "first", config)).pixels
    assert (trained.target_ratio, trained.crop) == (ratio, ratio is not None)
    again = replace(config, recipe="paper")  # from what has been trained, which keeps its preparation
    folder = run(world, tmp_path / "first" / "fusion", tmp_path / "second", again)
    assert QFormerFusion.load(folder).pixels.target_ratio == ratio


def test_the_command_leaves_blip2_its_tower(
    world: TrainingWorld, blip2_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {
            "id": question.id,
            "image": f"{question.image_id}.png",
            "question": question.question,
            "answers": ["no"],
            "entity": question.entity_ids[0],
            "section": question.section_index,
        }
        for question in world.questions
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    negatives = json.loads((world.folder / "negatives.json").read_text())
    renamed = {f"{image_id}.png": found for image_id, found in negatives.items()}
    (tmp_path / "negatives.json").write_text(json.dumps(renamed))
    given = {
        "--set": f"fusion.model={blip2_folder}",
        "--kb": world.folder / "kb.json",
        "--kb-format": "evqa",
        "--images": world.folder / "images",
        "--dataset": "plain",
        "--queries": tmp_path / "questions.jsonl",
        "--query-images": world.folder / "queries",
        "--negatives": tmp_path / "negatives.json",
        "--steps": 1,
        "--out": tmp_path / "out",
    }
    encoder = f"encoder.model={world.folder / 'clip'}"
    arguments = [str(word) for pair in given.items() for word in pair]
    assert main(["train-reranker", "--set", encoder, "--set", "device=cpu", *arguments]) == 0
    assert f"--profile {tmp_path / 'out' / 'profile.toml'}" in capsys.readouterr().out
    before, after = QFormerFusion.load(blip2_folder), QFormerFusion.load(tmp_path / "out" / "fusion")
    assert after.vision_settings["kind"] == "blip2"
    assert after.fingerprint != before.fingerprint
    for name, tensor in before.vision.state_dict().items():
        assert torch.equal(tensor, after.vision.state_dict()[name]), name
