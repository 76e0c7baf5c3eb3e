"""`omgm train-encoder` trains on the profile's device, or reports that it is not available."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from omgm import parts
from omgm.__main__ import main
from tests.fakes.models import FakeEncoder
from tests.kept import own_cache
from training import train_encoder as module
from training.config import TrainingConfig
from training.encoder_data import EncoderData
from training.record import Provenance

Trained = list[tuple[EncoderData, TrainingConfig]]


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments of a minimal training run."""
    own_cache(tmp_path / "cache", monkeypatch)
    monkeypatch.setattr(parts, "build_encoder", lambda profile: FakeEncoder())
    (tmp_path / "images").mkdir()
    (tmp_path / "kb.jsonl").write_text('{"id": "a", "display_name": "A", "text": "It."}')
    files = ["--kb", str(tmp_path / "kb.jsonl"), "--images", str(tmp_path / "images")]
    return ["train-encoder", *files, "--steps", "1", "--out", str(tmp_path / "out")]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Trained:
    """The data and settings of trainings, which only create their folder."""
    runs: Trained = []

    def train_encoder(
        encoder: Path, data: EncoderData, out: Path, config: TrainingConfig, provenance: Provenance, overwrite: bool
    ) -> Path:
        runs.append((data, config))
        out.mkdir(exist_ok=True)
        return out / "encoder"

    monkeypatch.setattr(module, "train_encoder", train_encoder)
    return runs


@pytest.mark.parametrize(
    ("device", "gpu", "expected"), [("auto", True, "cuda"), ("auto", False, "cpu"), ("cpu", True, "cpu")]
)
def test_the_device_is_the_profiles(
    given: list[str], trained: Trained, device: str, gpu: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert main([*given, "--set", f"device={device}"]) == 0
    assert [config for _, config in trained] == [TrainingConfig(steps=1, device=expected)]


def test_a_gpu_that_is_not_there_is_an_error(
    given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([*given, "--set", "device=cuda"]) == 2
    assert "PyTorch sees no GPU" in capsys.readouterr().err


def test_the_fields_of_the_knowledge_base_may_have_other_names(given: list[str], trained: Trained) -> None:
    assert main([*given, "--map", "title=display_name", "--kb-format", "jsonl", "--set", "device=cpu"]) == 0
    assert [data.index.entity(0).title for data, _ in trained] == ["A"]
