"""The benchmarks of step 2's training, at sizes that take seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import train
from tests.oracles.published_loop import PublishedLoop


@pytest.mark.slow
def test_the_report_has_the_promised_keys(tmp_path: Path) -> None:
    options = ["--size", "tiny", "--few", "--batch", "2", "--rounds", "1", "--steps", "1", "--device", "cpu"]
    files = ["--out", tmp_path / "report.json", "--lines", tmp_path / "lines.jsonl"]
    train.main([*options, *map(str, files)])
    report = json.loads((tmp_path / "report.json").read_text())
    *earlier, last = (json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines())
    assert [line.get("samples_per_s", 0) > 0 for line in earlier] == [False, True]
    assert last | {"machine": report["machine"]} == report | {"benchmark": "train"}
    assert report["samples_per_s"] > 0
    assert report["hours_191k"] > report["hours_191k_preparation"] > 0


@pytest.mark.slow
def test_the_first_loss_is_that_of_the_published_loop(tmp_path: Path) -> None:
    data = train.write_data(tmp_path, train.FEW)
    device = torch.device("cpu")
    training_set = train.prepared(train.build("tiny", device), data, tmp_path, device)
    ours = train.Trainer(train.build("tiny", device), training_set, device, "float32", 2)
    published = PublishedLoop(train.build("tiny", device), data, training_set.samples, device, "float32", 0, 2)
    for loop in (ours, published):
        loop.model.eval()  # no dropout
    assert ours.step() == pytest.approx(published.step(), abs=0.01)  # features are kept in bfloat16
