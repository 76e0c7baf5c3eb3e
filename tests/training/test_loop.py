"""The training loop: resumed equals uninterrupted, and what a checkpoint must agree in."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from training.loop import train

TRUTH = torch.tensor([[1.0, -2.0, 0.5]])


def net() -> nn.Module:
    torch.manual_seed(3)
    # Batch norm and dropout: buffers and the global generator must survive an interruption too.
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 1))


def run(out: Path, model: nn.Module, stop_at: int | None = None, **changes: object) -> dict[str, float]:
    def loss_of(step: int) -> Tensor:
        if step == stop_at:
            raise KeyboardInterrupt
        x = torch.randn(16, 3, generator=torch.Generator().manual_seed(step))
        loss: Tensor = (model(x) - x @ TRUTH.T).square().mean()
        return loss

    def validate() -> dict[str, float]:
        x = torch.eye(3)
        return {"error": (model(x) - x @ TRUTH.T).square().mean().item()}

    options: dict[str, object] = {"steps": 30, "learning_rate": 0.02, "validate_every": 4, "save_every": 5}
    return train(model, loss_of, out=out, validate=validate, progress=False, **(options | changes))  # type: ignore[arg-type]


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "curve.csv").open() as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path: Path) -> None:
    whole = net()
    expected = run(tmp_path / "whole", whole)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", net(), stop_at=13)  # rows for 4, 8 and 12, but the checkpoint is of step 10
    resumed = net()
    found = run(tmp_path / "parts", resumed)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name
    assert found["error"] == expected["error"]
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")
    assert [row["step"] for row in rows(tmp_path / "parts")] == ["4", "8", "12", "16", "20", "24", "28", "30"]
    assert (tmp_path / "parts" / "curve.png").stat().st_size > 1000


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    first = run(tmp_path, net())
    assert run(tmp_path, net(), stop_at=30) == first


def test_it_learns(tmp_path: Path) -> None:
    result = run(tmp_path, net(), steps=120)
    assert result["steps"] == 120
    assert float(rows(tmp_path)[-1]["loss"]) < 0.5 * float(rows(tmp_path)[0]["loss"])


def test_other_settings_are_named(tmp_path: Path) -> None:
    run(tmp_path, net(), settings={"data": "a"})
    with pytest.raises(ValueError, match=r"data was 'a' and is 'b'; seed was 0 and is 1"):
        run(tmp_path, net(), settings={"data": "b"}, seed=1)


def test_another_model_is_refused(tmp_path: Path) -> None:
    run(tmp_path, net())
    with pytest.raises(ValueError, match="another model"):
        run(tmp_path, nn.Linear(3, 1))


def test_minutes_end_a_run(tmp_path: Path) -> None:
    result = run(tmp_path, net(), steps=10**6, minutes=0.005)
    assert 0.3 <= result["seconds"] < 3
    assert float(rows(tmp_path)[-1]["learning_rate"]) < 0.002


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(FloatingPointError, match="step 0"):
        train(
            model,
            lambda step: model(torch.full((1, 1), torch.inf)).mean(),
            out=tmp_path,
            steps=2,
            learning_rate=0.1,
            progress=False,
        )
