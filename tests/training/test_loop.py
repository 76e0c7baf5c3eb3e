"""The training loop: a resumed run equals an uninterrupted one, limits, and settings that must agree."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from training import loop
from training.config import Optimization
from training.loop import train
from training.processes import Processes

TRUTH = torch.tensor([[1.0, -2.0, 0.5]])


def net() -> nn.Module:
    torch.manual_seed(3)
    # Batch norm and dropout: buffers and the global generator must survive an interruption too.
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 1))


def run(
    out: Path,
    model: nn.Module,
    stop_at: int | None = None,
    steps: int = 30,
    minutes: float | None = None,
    seed: int = 0,
    settings: dict[str, object] | None = None,
    optimizer: Literal["adamw", "muon"] = "adamw",
) -> dict[str, float]:
    def loss_of(step: int, part: int) -> Tensor:
        if step == stop_at:
            raise KeyboardInterrupt
        x = torch.randn(16, 3, generator=torch.Generator().manual_seed(step))
        loss: Tensor = (model(x) - x @ TRUTH.T).square().mean()
        return loss

    def validate() -> dict[str, float]:
        x = torch.eye(3)
        return {"error": (model(x) - x @ TRUTH.T).square().mean().item()}

    return train(
        model,
        loss_of,
        out=out,
        optimization=Optimization(steps=steps, minutes=minutes, learning_rate=0.02, seed=seed, optimizer=optimizer),
        validate=validate,
        validate_every=4,
        save_every=5,
        settings=settings,
    )


class Clock:
    """A clock that advances by a second on every call."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1
        return self.now


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "curve.csv").open() as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    tmp_path: Path, optimizer: Literal["adamw", "muon"]
) -> None:
    whole = net()
    expected = run(tmp_path / "whole", whole, optimizer=optimizer)
    with pytest.raises(KeyboardInterrupt):
        # Rows for 4, 8 and 12, but the checkpoint is of step 10.
        run(tmp_path / "parts", net(), stop_at=13, optimizer=optimizer)
    resumed = net()
    found = run(tmp_path / "parts", resumed, optimizer=optimizer)
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
    with pytest.raises(ValueError, match=r"data was 'a' and is now 'b'; seed was 0 and is now 1"):
        run(tmp_path, net(), settings={"data": "b"}, seed=1)


def test_another_model_is_refused(tmp_path: Path) -> None:
    run(tmp_path, net())
    with pytest.raises(ValueError, match="another model"):
        run(tmp_path, nn.Linear(3, 1))


def test_minutes_only_end_a_run_which_goes_on_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = net()
    run(tmp_path / "whole", whole, steps=40)
    monkeypatch.setattr(loop, "time", Clock())
    result = run(tmp_path / "cut", net(), steps=40, minutes=0.5)
    # A second per step and one per validation: 6 validations in 24 steps make 30 s.
    assert (result["steps"], result["seconds"]) == (24, 30)
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")[:6]  # the clock has no part in the learning rate
    assert run(tmp_path / "cut", net(), steps=40, minutes=0.5) == result
    more = net()
    assert run(tmp_path / "cut", more, steps=40)["steps"] == 40
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, more.state_dict()[name]), name


@pytest.mark.slow
def test_a_run_says_how_long_its_steps_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop, "time", Clock())
    run(tmp_path / "long", net(), steps=300)
    # 7 s for 6 steps and a validation; then 294 steps at 6 / 5 s, since a validation was among the five
    assert "long: 300 steps, about 6 min\n" in capsys.readouterr().err
    run(tmp_path / "cut", net(), steps=300, minutes=0.5)
    said = "cut: 300 steps, about 6 min; the limit of 0.5 minutes will end them near step 25: --steps 25 would"
    assert said in capsys.readouterr().err
    run(tmp_path / "short", net(), steps=5)
    assert "about" not in capsys.readouterr().err


def test_a_log_shows_the_time_limit_in_few_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop, "time", Clock())
    run(tmp_path / "name", net(), steps=1000, minutes=2)
    lines = [line for line in capsys.readouterr().err.split("\n") if line]
    assert "\r" not in "".join(lines) and len(lines) <= 4
    assert lines[0].startswith("name:   0%") and lines[0].endswith("| 00:00<?")
    assert lines[-1].startswith("name: 100%")
    assert "step 96 of 1000, 2.0 of 2 min, loss " in lines[-1]  # 120 s, of which 24 are validations


def test_a_log_shows_the_step_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, net(), steps=4)
    last = capsys.readouterr().err.rstrip().split("\n")[-1]
    assert "100%" in last and "step 4 of 4, loss " in last and " min" not in last


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(FloatingPointError, match="step 0"):
        train(
            model,
            lambda step, part: model(torch.full((1, 1), torch.inf)).mean(),
            out=tmp_path,
            optimization=Optimization(steps=2, learning_rate=0.1),
        )


def test_parts_add_up_to_a_step(tmp_path: Path) -> None:
    def trained(parts: int) -> nn.Module:
        torch.manual_seed(1)
        model = nn.Linear(3, 1)

        def loss_of(step: int, part: int) -> Tensor:
            x = torch.randn(12, 3, generator=torch.Generator().manual_seed(step)).chunk(parts)[part]
            loss: Tensor = (model(x) - x @ TRUTH.T).square().mean() / parts
            return loss

        optimization = Optimization(steps=5, learning_rate=0.02, accumulate=parts)
        train(model, loss_of, out=tmp_path / str(parts), optimization=optimization)
        return model

    whole, added = trained(1), trained(3)
    for one, other in zip(whole.parameters(), added.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


def test_the_best_weights_are_kept(tmp_path: Path) -> None:
    model = nn.Linear(1, 1, bias=False)
    weights: list[float] = []

    def validate() -> dict[str, float]:
        weights.append(model.weight.item())
        # The third is best: as many hits as the first two, and a lower loss.
        return [
            {"hits": 2.0, "loss": 4.0},  # before the first step
            {"hits": 2.0, "loss": 3.0},
            {"hits": 2.0, "loss": 1.0},
            {"hits": 1.0, "loss": 0.0},
        ][len(weights) - 1]

    result = train(
        model,
        lambda step, part: model(torch.ones(1, 1)).mean(),
        out=tmp_path,
        optimization=Optimization(steps=6, learning_rate=0.1),
        validate=validate,
        validate_every=2,
        better_by=("hits", "loss"),
    )
    assert model.weight.item() == weights[2] != weights[3]
    assert (result["hits"], result["loss"], result["steps"]) == (2, 1, 6)


def test_a_training_that_helps_nothing_keeps_the_weights_that_it_started_with(tmp_path: Path) -> None:
    model = nn.Linear(1, 1, bias=False)
    start = model.weight.item()
    result = train(
        model,
        lambda step, part: model(torch.ones(1, 1)).mean(),
        out=tmp_path,
        optimization=Optimization(steps=4, learning_rate=0.1),
        validate=lambda: {"hits": float(model.weight.item() == start), "loss": 0.0},
        validate_every=2,
        better_by=("hits", "loss"),
    )
    assert model.weight.item() == start
    assert (result["hits"], result["steps"]) == (1, 4)


def test_tensorboard_gets_the_curve(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run(tmp_path, net(), steps=8)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    written = rows(tmp_path)
    found = events.Scalars("loss")
    assert [event.step for event in found] == [int(row["step"]) for row in written]
    assert [event.value for event in found] == pytest.approx([float(row["loss"]) for row in written], rel=1e-4)


@pytest.mark.parametrize("save_every", [1, 2, 3])
@pytest.mark.parametrize("bad", [0, 1, 2, 4])
def test_a_loss_that_is_not_finite_names_its_step_and_is_never_saved(tmp_path: Path, bad: int, save_every: int) -> None:
    model = nn.Linear(2, 1)
    validated: list[bool] = []

    def loss_of(step: int, part: int) -> Tensor:
        loss: Tensor = model(torch.full((1, 2), 1.0 if step != bad else torch.nan)).mean()
        return loss

    def validate() -> dict[str, float]:
        validated.append(all(bool(weight.isfinite().all()) for weight in model.parameters()))
        return {"hits": float(len(validated)), "loss": 0.0}

    with pytest.raises(FloatingPointError, match=rf"loss is nan at step {bad};"):
        train(
            model,
            loss_of,
            out=tmp_path,
            optimization=Optimization(steps=5, learning_rate=0.1),
            validate=validate,
            validate_every=2,
            save_every=save_every,
            better_by=("hits", "loss"),
        )
    assert len(validated) == 1 + bad // 2 and all(validated)  # before the first step, and every other one
    written = [load_file(path) for path in tmp_path.glob("*.safetensors")]
    assert len(written) == (2 if bad >= save_every else 1)
    assert all(tensor.isfinite().all() for tensors in written for tensor in tensors.values())
    assert [row["step"] for row in rows(tmp_path)] == [str(step) for step in range(2, bad + 1, 2)]


def test_a_loss_is_read_while_the_next_step_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(1, 1)
    events: list[str] = []

    def loss_of(step: int, part: int) -> Tensor:
        events.append(f"compute {step}")
        loss: Tensor = model(torch.full((1, 1), float(step))).mean()
        return loss

    def noted(value: Tensor) -> Callable[[], float]:
        step = events[-1].split()[1]

        def read() -> float:
            events.append(f"read {step}")
            return value.item()

        return read

    monkeypatch.setattr(loop, "read_later", noted)
    train(
        model,
        loss_of,
        out=tmp_path,
        optimization=Optimization(steps=5, learning_rate=0.1),
        validate_every=100,
        save_every=3,
    )
    assert events == [
        *("compute 0", "compute 1", "read 0", "compute 2", "read 1", "read 2"),  # all of them before step 3 is saved
        *("compute 3", "compute 4", "read 3", "read 4"),
    ]


class SecondOfTwo(Processes):
    """The second of two processes, whose first one does the same; counts how often it waits for the other."""

    waits: ClassVar[int] = 0

    def wait(self) -> None:
        SecondOfTwo.waits += 1

    def gather(self, value: Any) -> list[Any]:
        return [value, value]


@pytest.mark.parametrize(("bad", "waits"), [(1, 0), (2, 1), (None, 3)])
def test_no_process_saves_before_every_process_has_read_its_loss(tmp_path: Path, bad: int | None, waits: int) -> None:
    model = nn.Linear(1, 1)
    SecondOfTwo.waits = 0
    optimization = Optimization(steps=4, minutes=10, learning_rate=0.1)
    context = nullcontext() if bad is None else pytest.raises(FloatingPointError, match=f"step {bad}")
    with context:
        train(
            model,
            lambda step, part: model(torch.full((1, 1), torch.inf if step == bad else 1.0)).mean(),
            out=tmp_path,
            optimization=optimization,
            save_every=2,
            processes=SecondOfTwo(rank=1, count=2),
        )
    assert SecondOfTwo.waits == waits  # after steps 2 and 4, and at the end
    assert not list(tmp_path.glob("*.safetensors"))  # the first one's part


def test_without_matplotlib_the_curve_is_only_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    run(tmp_path, net(), steps=8)
    assert rows(tmp_path) and not (tmp_path / "curve.png").exists()
    assert "curve.csv is not drawn: matplotlib is not installed" in caplog.text
