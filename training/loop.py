"""The training loop of every model here: AdamW, warm-up and cosine, a checkpoint to go on from, a curve to look at."""

from __future__ import annotations

import csv
import json
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from tqdm import tqdm

from retriever.files import replace_with

logger = logging.getLogger(__name__)

CHECKPOINT_NAME = "checkpoint.safetensors"
CURVE_NAME = "curve.csv"
_FIXED_COLUMNS = ("step", "loss", "learning_rate", "seconds")


@dataclass
class _State:
    """Where a run stands; kept in the checkpoint's metadata."""

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    metrics: dict[str, float] = field(default_factory=dict)


def train(
    model: nn.Module,
    loss_of: Callable[[int], Tensor],
    *,
    out: Path,
    steps: int,
    learning_rate: float,
    validate: Callable[[], dict[str, float]] | None = None,
    validate_every: int = 200,
    save_every: int = 200,
    weight_decay: float = 0.05,
    warmup: float = 0.05,
    minutes: float | None = None,
    seed: int = 0,
    settings: dict[str, object] | None = None,
    progress: bool = True,
    betas: tuple[float, float] = (0.9, 0.98),
    clip: float = 1.0,
) -> dict[str, float]:
    """Returns the last validation's metrics with "steps" and "seconds"; `model` is trained in place.

    Goes on from `out/checkpoint.safetensors` where one lies; frozen parameters are not kept in it. PyTorch's global
    generator is seeded from (seed, step) before every step, so a resumed run equals an uninterrupted one bit for bit
    when `loss_of` takes all its other randomness from its argument too (and `minutes` is not given).

    Args:
        model: Its parameters with `requires_grad` are trained.
        loss_of: Step number to scalar loss. Autocast is its own business.
        out: Gets `checkpoint.safetensors`, `curve.csv` and `curve.png`.
        steps: Most steps.
        learning_rate: Highest rate: linear warm-up, then a cosine to zero.
        validate: Metrics of the model as it is (in eval mode, without gradients).
        validate_every: Steps between two validations, and two rows of the curve.
        save_every: Steps between two checkpoints.
        weight_decay: Of parameters with two or more dimensions.
        warmup: Share of the run.
        minutes: Most wall time, interrupted runs added up; the schedule then follows whichever limit is nearer.
        seed: Of the run.
        settings: What else a run that goes on must agree in; plain JSON values.
        progress: Shows a progress bar.
        betas: AdamW's.
        clip: Largest norm of the gradient.

    Raises:
        ValueError: The checkpoint was made with other settings or for another model; the message says what differs.
        FloatingPointError: The loss is not finite.
    """
    agreed: dict[str, object] = {
        "steps": steps,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "warmup": warmup,
        "minutes": minutes,
        "seed": seed,
        "betas": betas,
        "clip": clip,
        **(settings or {}),
    }
    out.mkdir(parents=True, exist_ok=True)
    optimizer = torch.optim.AdamW(_groups(model, weight_decay), lr=learning_rate, betas=betas)
    state = _resume(out / CHECKPOINT_NAME, model, optimizer, agreed)
    curve = _Curve(out, state.step)
    started = time.monotonic() - state.seconds

    def done() -> bool:
        return state.step >= steps or (minutes is not None and state.seconds >= 60 * minutes)

    bar = tqdm(total=steps, initial=state.step, desc=out.name, disable=not progress)
    model.train()
    while not done():
        share = (state.step + 0.5) / steps
        if minutes is not None:
            share = min(1.0, max(share, state.seconds / (60 * minutes)))
        rate = learning_rate * _schedule(share, warmup)
        for group in optimizer.param_groups:
            group["lr"] = rate
        torch.manual_seed(seed * 1_000_003 + state.step)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(state.step)
        value = loss.item()
        if not math.isfinite(value):
            raise FloatingPointError(f"loss is {value} at step {state.step}; a lower learning_rate may help")
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        state.step += 1
        state.loss_sum += value
        state.loss_count += 1
        state.seconds = time.monotonic() - started
        bar.update()
        if state.step % validate_every == 0 or done():
            if validate is not None:
                model.eval()
                with torch.no_grad():
                    state.metrics = validate()
                model.train()
            mean = state.loss_sum / state.loss_count
            state.loss_sum, state.loss_count = 0.0, 0
            state.seconds = time.monotonic() - started
            curve.add(state.step, mean, rate, state.seconds, state.metrics)
            bar.set_postfix({"loss": f"{mean:.3f}"} | {k: f"{v:.3f}" for k, v in state.metrics.items()})
        if state.step % save_every == 0 or done():
            _save(out / CHECKPOINT_NAME, model, optimizer, state, agreed)
    bar.close()
    model.eval()
    curve.draw()
    return {**state.metrics, "steps": float(state.step), "seconds": state.seconds}


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    trained = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _schedule(share: float, warmup: float) -> float:
    if share < warmup:
        return share / warmup
    return 0.5 * (1 + math.cos(math.pi * (share - warmup) / (1 - warmup)))


def _save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, state: _State, agreed: object) -> None:
    frozen = _frozen(model)
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items() if name not in frozen}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"adam.{key}.{name}"] = value
    # Copies: safetensors takes neither tied tensors nor other memory layouts.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    metadata = {"state": json.dumps(asdict(state)), "settings": json.dumps(agreed)}
    replace_with(path, lambda partial: save_file(tensors, partial, metadata))


def _frozen(model: nn.Module) -> dict[str, Tensor]:
    """Returns the parameters that are not trained: a published image tower's weigh gigabytes."""
    return {name: parameter.detach() for name, parameter in model.named_parameters() if not parameter.requires_grad}


def _resume(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, agreed: dict[str, object]) -> _State:
    if not path.is_file():
        return _State()
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
    before, now = json.loads(metadata["settings"]), json.loads(json.dumps(agreed))
    differing = [
        f"{key} was {before.get(key)!r} and is {now.get(key)!r}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]
    if differing:
        raise ValueError(f"{path}: made with other settings: {'; '.join(differing)}; delete it to start again")
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    try:
        model.load_state_dict(_frozen(model) | weights)
    except RuntimeError as error:
        raise ValueError(f"{path}: made for another model: {error}; delete it to start again") from error
    for name, parameter in model.named_parameters():
        keys = [key for key in ("step", "exp_avg", "exp_avg_sq") if f"adam.{key}.{name}" in tensors]
        if keys:
            optimizer.state[parameter] = {
                key: tensors[f"adam.{key}.{name}"].to("cpu" if key == "step" else parameter.device) for key in keys
            }
    state = _State(**json.loads(metadata["state"]))
    logger.info("%s: going on at step %d", path, state.step)
    return state


class _Curve:
    """The rows of `curve.csv`: those up to the step a run goes on from are kept."""

    def __init__(self, out: Path, step: int):
        self.path = out / CURVE_NAME
        self.rows: list[dict[str, str]] = []
        if self.path.is_file() and step:
            with self.path.open(encoding="utf-8", newline="") as file:
                self.rows = [row for row in csv.DictReader(file) if int(row["step"]) <= step]
        self._write()

    def add(self, step: int, loss: float, rate: float, seconds: float, metrics: dict[str, float]) -> None:
        """Appends a row."""
        values = {"loss": loss, "learning_rate": rate, "seconds": round(seconds, 1), **metrics}
        self.rows.append({"step": str(step)} | {key: f"{value:.6g}" for key, value in values.items()})
        self._write()

    def draw(self) -> None:
        """Draws `curve.png`: the loss on the left, validation metrics on the right."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        if not self.rows:
            return
        columns = self._columns()
        figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
        for axis, names in zip(axes, (["loss"], columns[len(_FIXED_COLUMNS) :]), strict=True):
            for name in names:
                points = [(int(row["step"]), float(row[name])) for row in self.rows if row.get(name)]
                axis.plot(*zip(*points, strict=True), label=name, marker=".")
            axis.set_xlabel("step")
            axis.grid(alpha=0.3)
            if names:
                axis.legend()
        temporary = self.path.with_suffix(".tmp.png")
        figure.savefig(temporary, dpi=110)
        pyplot.close(figure)
        temporary.replace(self.path.with_suffix(".png"))

    def _columns(self) -> list[str]:
        seen: Iterable[str] = (key for row in self.rows for key in row)
        return list(dict.fromkeys([*_FIXED_COLUMNS, *seen]))

    def _write(self) -> None:
        temporary = self.path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self._columns(), restval="")
            writer.writeheader()
            writer.writerows(self.rows)
        temporary.replace(self.path)
