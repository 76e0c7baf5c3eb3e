"""Step 2's training: a decreasing loss, a frozen tower, and a resumed run that equals an uninterrupted one."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from evaluation.datasets import Question
from retriever.models.bm25 import BM25
from retriever.models.qformer import QFormerFusion
from tests.fakes.plans import indexed
from tests.fakes.processes import run_in_two
from tests.fakes.training_world import TrainingWorld
from training import checkpoint, loop
from training.questions import is_held_out
from training.record import Provenance
from training.reranker import training_set
from training.reranker.config import RerankerTrainingConfig
from training.reranker.model import Reranker
from training.reranker.train import train_reranker

CONFIG = RerankerTrainingConfig(recipe="mined", steps=6, validate_every=2, validation_share=0.25)


def run(world: TrainingWorld, out: Path, config: RerankerTrainingConfig = CONFIG) -> Path:
    return train_reranker(world.folder / "fusion", world.data, out, config).folder


@pytest.mark.slow
def test_the_loss_falls_and_the_result_loads(world: TrainingWorld, tmp_path: Path) -> None:
    config = replace(CONFIG, steps=48, validate_every=16, learning_rate=3e-3, validation_share=0.0, batch_size=6)
    out = run(world, tmp_path, config)
    with (tmp_path / "curve.csv").open() as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    # About 3 of the 12 negatives from other lands have the question's topic: texts alone reach about log(4) at best.
    assert losses[-1] < 1.1 < losses[0], losses
    before, after = QFormerFusion.load(world.folder / "fusion"), QFormerFusion.load(out)
    assert after.fingerprint != before.fingerprint
    for name, tensor in before.vision.state_dict().items():
        assert torch.equal(tensor, after.vision.state_dict()[name]), name


def test_a_resumed_run_equals_an_uninterrupted_one(
    world: TrainingWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(world, tmp_path / "whole")
    saved = checkpoint.save

    def save_and_stop(*arguments: object) -> None:
        saved(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "save", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        run(world, tmp_path / "parts")
    monkeypatch.setattr(loop, "save", saved)
    parts = run(world, tmp_path / "parts")
    expected = load_file(whole / "model.safetensors")
    for name, tensor in load_file(parts / "model.safetensors").items():
        assert torch.equal(tensor, expected[name]), name
    assert not torch.equal(
        expected["query_tokens"], load_file(world.folder / "fusion" / "model.safetensors")["query_tokens"]
    )


def test_both_recipes_train(world: TrainingWorld, tmp_path: Path) -> None:
    for recipe in ("mined", "paper"):
        result = train_reranker(
            world.folder / "fusion",
            world.data,
            tmp_path / recipe,
            RerankerTrainingConfig(recipe=recipe, batch_size=4, epochs=2, validation_share=0.25),
            sections=BM25,
            provenance=Provenance(base="org/base", commit="abc"),
        )
        record = json.loads((result.folder / "training.json").read_text())
        assert (record["recipe"], record["commit"], record["base"]) == (recipe, "abc", "org/base")
        assert {name: record["settings"][name] for name in ("seed", "processes", "workers")} == {
            **dict.fromkeys(("seed", "workers"), 0),
            "processes": 1,
        }
        assert record["environment"]["torch"] == torch.__version__
        assert record["environment"]["threads"] == torch.get_num_threads()
        trained = record["data"]["questions trained on"]
        assert trained + record["data"]["questions validated on"] == 16
        assert record["metrics"]["steps"] == 2 * math.ceil(trained / 4)
        assert result.alpha is None and result.beta is not None  # the file has no similarities


def test_what_cannot_be_trained_on_is_listed(world: TrainingWorld, tmp_path: Path) -> None:
    red, blue = (next(q for q in world.questions if q.image_id == f"q_{color}") for color in ("red", "blue"))
    (tmp_path / "q_torn.png").write_bytes(b"no image")
    negatives = json.loads(world.data.negatives.read_text())
    (tmp_path / "negatives.json").write_text(json.dumps(negatives | {"q_torn": negatives["q_red"]}))
    bad: list[Question | ValueError] = [
        replace(red, id="1", image_id="q_gone"),
        replace(red, id="2", entity_ids=("https://e.example/wiki/mauve",)),
        replace(red, id="3", section_index=9),
        replace(red, id=blue.id),
        replace(red, id="4", image_id="q_torn"),
        ValueError("line 7: no such column"),
    ]
    data = replace(
        world.data,
        questions=[*world.questions, *bad, replace(red, id="5", section_index=None)],
        negatives=tmp_path / "negatives.json",
        query_image_of=lambda key: tmp_path / "q_torn.png" if key == "q_torn" else world.query_image_of(key),
    )
    config = replace(CONFIG, steps=1)
    with pytest.raises(ValueError, match="5 of 23 questions are bad, more than 5 %"):
        train_reranker(world.folder / "fusion", data, tmp_path / "out", config)
    assert not (tmp_path / "out" / "data" / "features").exists()  # before an image is read
    config = replace(config, max_bad=0.23)
    with pytest.raises(ValueError, match=r"6 of 23 questions are bad, more than 23 %: .*left_out\.jsonl lists them"):
        train_reranker(world.folder / "fusion", data, tmp_path / "out", config)
    lines = [json.loads(line) for line in (tmp_path / "out" / "left_out.jsonl").read_text().splitlines()]
    assert {line["id"]: line["reason"] for line in lines if line["bad"]} == {
        "1": "the image is missing",
        "2": "the gold entity is not in the index",
        "3": "the article has no such section, or it is empty",
        blue.id: "the id is a duplicate",
        "4": "the image cannot be read",
        "": "the row is malformed: line 7: no such column",
    }
    assert [line["id"] for line in lines if not line["bad"]] == ["5"]
    train_reranker(world.folder / "fusion", data, tmp_path / "out", replace(config, max_bad=0.3))


def test_nothing_to_train_on_is_an_error(world: TrainingWorld, tmp_path: Path) -> None:
    blind = replace(world.data, query_image_of=lambda image_id: None)
    config = RerankerTrainingConfig(recipe="mined", max_bad=1.0)
    with pytest.raises(ValueError, match="none of 16 questions"):
        train_reranker(world.folder / "fusion", blind, tmp_path, config)


def test_a_section_without_text_is_no_evidence(world: TrainingWorld, tmp_path: Path) -> None:
    kb = json.loads(world.kb.read_text())
    kb["https://e.example/wiki/red"]["section_texts"][0] = "  "
    (tmp_path / "kb.json").write_text(json.dumps(kb))
    data = replace(world.data, **indexed(tmp_path / "kb.json", world.images))
    train_reranker(world.folder / "fusion", data, tmp_path, replace(CONFIG, steps=1, max_bad=0.1))
    (line,) = (tmp_path / "left_out.jsonl").read_text().splitlines()
    assert json.loads(line) == {"id": "red_0", "reason": "the article has no such section, or it is empty", "bad": True}


def test_the_held_out_images_depend_on_name_share_and_seed_alone() -> None:
    names = [f"image {i}" for i in range(2000)]
    held_out = {name for name in names if is_held_out(name, 0.1, 0)}
    assert 150 < len(held_out) < 250
    assert held_out < {name for name in names if is_held_out(name, 0.2, 0)}
    assert held_out != {name for name in names if is_held_out(name, 0.1, 1)}
    assert not any(is_held_out(name, 0.0, 0) for name in names)


@pytest.mark.slow
def test_two_processes_equal_one_with_twice_the_batch(world: TrainingWorld, tmp_path: Path) -> None:
    config = RerankerTrainingConfig(
        recipe="paper", steps=10, batch_size=4, precision="float32", learning_rate=1e-4, validation_share=0.25
    )
    run(world, tmp_path / "alone", replace(config, batch_size=8))
    run(world, tmp_path / "parts", replace(config, accumulate=2))
    run_in_two(train_in_one_thread, world, tmp_path / "two", config)
    # The last weights, because the best ones can be the initial ones.
    expected, *others = (last_weights(tmp_path / name) for name in ("alone", "parts", "two"))
    for found in others:
        assert max(float((tensor - found[name]).abs().max()) for name, tensor in expected.items()) < 1e-5
    start = load_file(world.folder / "fusion" / "model.safetensors")
    assert float((start["query_tokens"] - expected["query_tokens"]).abs().max()) > 1e-4
    with (tmp_path / "alone" / "curve.csv").open() as one, (tmp_path / "two" / "curve.csv").open() as two:
        (first,), (second,) = list(csv.DictReader(one)), list(csv.DictReader(two))
    assert float(first["loss"]) == pytest.approx(float(second["loss"]), abs=1e-5)


@pytest.mark.slow
def test_two_processes_average_their_gradients(world: TrainingWorld, tmp_path: Path) -> None:
    config = RerankerTrainingConfig(
        recipe="in-batch", steps=3, batch_size=6, precision="float32", validation_share=0.25, tokens_per_forward=512
    )
    run_in_two(train_in_one_thread, world, tmp_path / "two", config)
    run(world, tmp_path / "alone", replace(config, accumulate=2))
    found, expected = (last_weights(tmp_path / name) for name in ("two", "alone"))
    learned = [name for name in expected if "running_" not in name and "num_batches" not in name]
    assert any(name.startswith("vision.") for name in learned)
    assert max(float((found[name] - expected[name]).abs().max()) for name in learned) < 1e-5
    start = load_file(world.folder / "fusion" / "model.safetensors")
    assert float((start["query_tokens"] - expected["query_tokens"]).abs().max()) > 1e-4


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_processes(world: TrainingWorld, tmp_path: Path) -> None:
    config = replace(CONFIG, recipe="paper", steps=8, batch_size=4, precision="float32", learning_rate=1e-4)
    run(world, tmp_path / "alone", replace(config, accumulate=2))
    run_in_two(train_in_one_thread, world, tmp_path / "two", replace(config, minutes=1e-9))  # both stop after a step
    folder = run(world, tmp_path / "two", config)
    expected, found = (last_weights(tmp_path / name) for name in ("alone", "two"))
    assert max(float((tensor - found[name]).abs().max()) for name, tensor in expected.items()) < 1e-5
    with (tmp_path / "alone" / "curve.csv").open() as one, (tmp_path / "two" / "curve.csv").open() as two:
        rates = [[row["learning_rate"] for row in csv.DictReader(file)] for file in (one, two)]
    assert rates[0] == rates[1][-len(rates[0]) :]
    settings = json.loads((folder / "training.json").read_text())["settings"]
    assert (settings["accumulate"], settings["processes"], settings["recipe"]["batch_size"]) == (2, 1, 4)
    with pytest.raises(ValueError, match="accumulate was 1 and is now 3"):
        run(world, tmp_path / "two", replace(config, accumulate=3))


def last_weights(out: Path) -> dict[str, Tensor]:
    """Returns the fusion encoder's trained weights after the last step."""
    stored = load_file(out / checkpoint.CHECKPOINT_NAME)
    prefix = "model.fusion."
    return {name.removeprefix(prefix): tensor for name, tensor in stored.items() if name.startswith(prefix)}


def train_in_one_thread(world: TrainingWorld, out: Path, config: RerankerTrainingConfig) -> None:
    torch.set_num_threads(1)
    run(world, out, config)


def test_a_resumed_run_does_not_read_the_knowledge_base_again(
    world: TrainingWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(world, tmp_path)
    monkeypatch.setattr(training_set, "prepare", None)
    first = load_file(run(world, tmp_path) / "model.safetensors")  # already complete: nothing changes
    assert torch.equal(first["query_tokens"], load_file(tmp_path / "fusion" / "model.safetensors")["query_tokens"])
    monkeypatch.undo()
    fewer = replace(world.data, questions=world.questions[:-1])
    with pytest.raises(ValueError, match=r"questions: 1 question is gone"):
        train_reranker(world.folder / "fusion", fewer, tmp_path, CONFIG)


def test_too_little_memory_names_the_settings(
    world: TrainingWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(self: Reranker, batch: object) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Reranker, "forward", forward)
    with pytest.raises(MemoryError, match=r"--batch-size .* --tokens-per-forward"):
        run(world, tmp_path)
