from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from training.checkpoint import RunState, resume, save


def parts() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_equal_runs_write_equal_checkpoints(tmp_path: Path) -> None:
    model, optimizer = parts()
    written = set()
    for _ in range(20):  # the order of two entries would differ in one of 2 ** 19 repetitions of this test
        save(tmp_path / "c.safetensors", model, optimizer, RunState(3, metrics={"loss": 1.0}), {"steps": 9})
        written.add((tmp_path / "c.safetensors").read_bytes())
    assert len(written) == 1
    assert resume(tmp_path / "c.safetensors", model, optimizer, {"steps": 9}) == RunState(3, metrics={"loss": 1.0})


def test_a_file_that_is_no_checkpoint_is_an_error(tmp_path: Path) -> None:
    model, optimizer = parts()
    save_file({"a": torch.zeros(1)}, tmp_path / "c.safetensors")
    with pytest.raises(ValueError, match=r"c\.safetensors: not a checkpoint of this release; delete it"):
        resume(tmp_path / "c.safetensors", model, optimizer, {})
