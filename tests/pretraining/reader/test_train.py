"""A training of a few steps: what it learns from, that it resumes, and that its weights can be loaded."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from generators.reader.model import SpanModel
from generators.reader.reader import ExtractiveReader
from pretraining.reader import train, weights
from pretraining.reader.examples import write
from pretraining.reader.questions import SpanAnswer, SpanQuestion
from pretraining.reader.train import Encoded, batch_of, encode, loss_of, read_weights, start_from
from pretraining.reader.weights import Trial, best_threshold, fit, probabilities
from retriever.models.base_bert import load_bert
from retriever.types import Evidence

TOWER = SpanQuestion("When did it open?", "It opened in May 1931. It is red.", "Tower", (SpanAnswer("May 1931", 13),))
COLOR = SpanQuestion("What color is it?", TOWER.passage, "Tower", (SpanAnswer("red"),))
NONE = SpanQuestion("Who owns it?", TOWER.passage, "Tower", ())


def test_an_answer_becomes_the_positions_of_its_tokens() -> None:
    tokenizer = load_bert("all-MiniLM-L6-v2")[1]
    for question, answer in ((TOWER, "may 1931"), (COLOR, "red"), (NONE, "")):
        encoded = encode(tokenizer, question, 64, random.Random(0))
        assert encoded is not None
        assert tokenizer.decode(encoded.ids[encoded.first : encoded.last + 1]) == answer  # "" for [CLS]
    missing = COLOR._replace(answers=(SpanAnswer("blue"),))
    assert encode(tokenizer, missing, 64, random.Random(0)) is None
    long = TOWER._replace(passage=f"{'It is tall. ' * 80}{TOWER.passage}", answers=(SpanAnswer("May 1931", 973),))
    assert encode(tokenizer, long, 64, random.Random(0)) is not None


def test_the_loss_is_that_of_allowed_tokens() -> None:
    logits = torch.zeros(1, 4, 2)
    mask = torch.tensor([[True, False, True, True]])
    assert float(loss_of(logits, mask, torch.tensor([2]), torch.tensor([3]))) == pytest.approx(np.log(3))


def trained(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    arguments = ["--examples", str(folder.parent / "examples.jsonl"), "--out", str(folder), "--steps", "4"]
    monkeypatch.setattr(sys, "argv", ["train", *arguments])
    train.main()
    return read_weights(folder / "checkpoint.safetensors")


@pytest.mark.slow
def test_a_killed_training_resumes_and_its_weights_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write([TOWER, COLOR, NONE], tmp_path / "examples.jsonl")
    monkeypatch.setattr(train, "SAVED", 2)
    whole = trained(tmp_path / "whole", monkeypatch)
    steps = iter(range(4))

    def killed(*tensors: torch.Tensor) -> torch.Tensor:
        if next(steps) == 3:
            raise KeyboardInterrupt
        return loss_of(*tensors)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(train, "loss_of", killed)
        trained(tmp_path / "killed", monkeypatch)
    resumed = trained(tmp_path / "killed", monkeypatch)
    assert whole.keys() == resumed.keys() and all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert not any("layer.0." in name or "embeddings" in name for name in whole)

    out = tmp_path / "weights.safetensors"
    arguments = ["--run", str(tmp_path / "whole" / "checkpoint.safetensors"), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["weights", *arguments, "--validation", str(tmp_path / "examples.jsonl")])
    weights.main()
    answer = ExtractiveReader(threshold=0.0, weights=out).read(TOWER.question, Evidence("", "Tower", "", TOWER.passage))
    assert answer.span is not None and answer.answer == TOWER.passage[slice(*answer.span)]
    again = nn.ModuleDict({"encoder": load_bert("all-MiniLM-L6-v2")[0], "head": nn.Linear(384, 2)})
    for key, parameter in again.named_parameters():
        parameter.requires_grad_(key in whole)
    start_from(again, out)
    name = "encoder.encoder.layer.5.output.dense.weight"
    start = load_bert("all-MiniLM-L6-v2")[0].state_dict()[name.removeprefix("encoder.")]
    error = again.state_dict()[name] - whole[name]
    assert float(error.abs().max()) <= float((whole[name] - start).abs().max()) / 127
    [loaded] = SpanModel.load(out, torch.float32).encoder([[5, 6]])
    assert torch.allclose(loaded, again["encoder"](torch.tensor([[5, 6]])), atol=1e-4)
    assert torch.equal(again.state_dict()["head.weight"], whole["head.weight"])
    save_file({"head.bias": torch.zeros(2)}, tmp_path / "part.safetensors")
    with pytest.raises(ValueError, match="is missing; give a checkpoint"):
        start_from(again, tmp_path / "part.safetensors")


def test_batches_are_padded() -> None:
    ids, types, mask, first, last = batch_of([Encoded([1, 2, 3], [0, 1, 1], 2, 2), Encoded([1, 2], [0, 1], 0, 0)])
    assert ids.tolist() == [[1, 2, 3], [1, 2, 0]] and types.tolist() == [[0, 1, 1], [0, 1, 0]]
    assert mask.tolist() == [[1, 1, 1], [1, 1, 0]] and first.tolist() == [2, 0] and last.tolist() == [2, 0]


def test_confidence_and_threshold_tell_right_from_wrong() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        right = bool(rng.random() < 0.5)
        margin = float(rng.normal(3 if right else -3))
        found.append(Trial((margin, 0.0, 0.0), right, float(right), right))
    confidence = probabilities(fit(found), found)
    threshold = best_threshold(confidence, found)
    said = confidence >= threshold
    assert (
        0.1 < threshold < 0.9
        and np.mean([one == trial.answerable for one, trial in zip(said, found, strict=True)]) > 0.99
    )


def test_other_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="train the weights again on all-MiniLM-L6-v2"):
        wrong = {"embeddings.other": torch.zeros(2), "head.weight": torch.zeros(2, 384), "head.bias": torch.zeros(2)}
        save_file(wrong | {"confidence": torch.zeros(4), "threshold": torch.tensor(0.5)}, tmp_path / "w.safetensors")
        SpanModel.load(tmp_path / "w.safetensors")
