"""The benchmarks of step 2's training, at sizes that take seconds."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch

from benchmarks import train, training_scale
from benchmarks.published_loop import PublishedLoop
from benchmarks.training_data import DataSizes, write_data

SMALL = DataSizes(questions=24, entities=30, query_images=12, side=48, image_files=3)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "SIZES", SMALL)
    monkeypatch.setattr(train, "BATCH", 2)
    monkeypatch.setattr(training_scale, "PAPER", SMALL)


def arguments(**given: object) -> argparse.Namespace:
    known = {"device": "cpu", "size": "tiny", "precision": "float32", "rounds": 1, "steps": 1, "workers": 0}
    return argparse.Namespace(**known | given)


def test_the_report_has_the_promised_keys(tmp_path: Path) -> None:
    report = train.run(arguments(), tmp_path)
    assert {"samples_per_s", "reference_samples_per_s", "ratio", "hours_191k"} < report.keys()
    assert report["samples_per_s"] > 0 and report["reference_samples_per_s"] > 0
    assert report["hours_191k"] > report["hours_191k_preparation"] > 0


def test_both_loops_have_the_same_loss_at_the_start(tmp_path: Path) -> None:
    data = write_data(tmp_path, SMALL)
    device = torch.device("cpu")
    samples, texts, store, _ = train.prepared(train.build("tiny"), data, tmp_path, device)
    ours = train.Trainer(train.build("tiny"), samples, texts, store, device, "float32")
    published = PublishedLoop(train.build("tiny"), data, samples, device, "float32", 0, 2)
    for loop in (ours, published):
        loop.model.eval()  # no dropout
    assert ours.step() == pytest.approx(published.step(), abs=0.01)  # features are kept in bfloat16


def test_memory_is_sampled_over_an_epoch(tmp_path: Path) -> None:
    report = training_scale.memory(argparse.Namespace(folder=tmp_path, questions=None, epochs=1.0))
    assert report["steps"] == 3 and report["peak_rss_mb"] > 0
