"""The training loop of every model here: AdamW with warm-up and a cosine, checkpoints to resume from, a curve."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from tqdm import tqdm

from indexes.progress import progress_bar
from retriever.files import replace_with
from training.config import Optimization
from training.curve import Curve

logger = logging.getLogger(__name__)

CHECKPOINT_NAME = "checkpoint.safetensors"


@dataclass
class _RunState:
    """The position of a run, stored in the checkpoint's metadata."""

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
    optimization: Optimization,
    validate: Callable[[], dict[str, float]] | None = None,
    validate_every: int = 200,
    save_every: int = 200,
    settings: dict[str, object] | None = None,
    progress: bool = True,
) -> dict[str, float]:
    """Trains `model` in place; returns the last validation's metrics with "steps" and "seconds".

    Resumes from `out/checkpoint.safetensors`, which holds no frozen parameters. PyTorch's global generator is seeded
    from (seed, step) before every step, so a resumed run equals an uninterrupted one bit for bit if `loss_of` takes
    all its other randomness from its argument too and there is no time limit.

    Args:
        model: Its parameters with `requires_grad` are trained.
        loss_of: Maps a step number to a scalar loss; it may use autocast.
        out: Folder for `checkpoint.safetensors`, `curve.csv` and `curve.png`.
        optimization: Limits, learning rate and seed.
        validate: Returns metrics of the model, which is in eval mode and without gradients meanwhile.
        validate_every: Steps between two validations, and between two rows of the curve.
        save_every: Steps between two checkpoints.
        settings: Other values that a resumed run must agree in, as plain JSON.
        progress: Shows a progress bar.

    Raises:
        ValueError: The checkpoint is from other settings or another model; the message names the difference.
        FloatingPointError: The loss is not finite.
    """
    agreed: dict[str, object] = {**asdict(optimization), **(settings or {})}
    out.mkdir(parents=True, exist_ok=True)
    groups = _groups(model, optimization.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=optimization.learning_rate, betas=optimization.betas)
    state = _resume(out / CHECKPOINT_NAME, model, optimizer, agreed)
    curve = Curve(out, state.step)
    bar = _Progress(out.name, optimization, state, progress)
    started = time.monotonic() - state.seconds

    def over() -> bool:
        return optimization.over(state.step, state.seconds)

    model.train()
    while not over():
        rate = optimization.rate(optimization.share(state.step + 0.5, state.seconds))
        for group in optimizer.param_groups:
            group["lr"] = rate
        torch.manual_seed(optimization.seed * 1_000_003 + state.step)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(state.step)
        value = loss.item()
        if not math.isfinite(value):
            raise FloatingPointError(f"loss is {value} at step {state.step}; a lower learning_rate may help")
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), optimization.clip)
        optimizer.step()
        state.step += 1
        state.loss_sum += value
        state.loss_count += 1
        state.seconds = time.monotonic() - started
        if state.step % validate_every == 0 or over():
            if validate is not None:
                model.eval()
                with torch.no_grad():
                    state.metrics = validate()
                model.train()
            mean = state.loss_sum / state.loss_count
            state.loss_sum, state.loss_count = 0.0, 0
            state.seconds = time.monotonic() - started
            curve.add(state.step, mean, rate, state.seconds, state.metrics)
            bar.measured = {"loss": mean, **state.metrics}
        bar.update(state)
        if state.step % save_every == 0 or over():
            _save(out / CHECKPOINT_NAME, model, optimizer, state, agreed)
    bar.close()
    model.eval()
    curve.draw()
    return {**state.metrics, "steps": float(state.step), "seconds": state.seconds}


class _Progress:
    """A bar over the run's share: its remaining time holds for either limit, and both limits stand beside it."""

    def __init__(self, name: str, optimization: Optimization, state: _RunState, shown: bool):
        self.optimization = optimization
        self.measured = dict(state.metrics)
        share = optimization.share(state.step, state.seconds)
        line = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
        self._bar: tqdm[object] = progress_bar(total=1.0, initial=share, desc=name, bar_format=line, shown=shown)

    def update(self, state: _RunState) -> None:
        """Moves the bar to `state`."""
        steps, minutes = self.optimization.steps, self.optimization.minutes
        parts = [f"step {state.step}" + ("" if steps is None else f" of {steps}")]
        if minutes is not None:
            parts.append(f"{state.seconds / 60:.1f} of {minutes:g} min")
        parts += [f"{name} {value:.3f}" for name, value in self.measured.items()]
        self._bar.set_postfix_str(", ".join(parts), refresh=False)
        self._bar.update(self.optimization.share(state.step, state.seconds) - self._bar.n)

    def close(self) -> None:
        """Ends the bar."""
        self._bar.close()


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    trained = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, state: _RunState, agreed: object) -> None:
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
    """Returns the parameters that are not trained; a published image tower's are gigabytes."""
    return {name: parameter.detach() for name, parameter in model.named_parameters() if not parameter.requires_grad}


def _resume(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, agreed: dict[str, object]) -> _RunState:
    if not path.is_file():
        return _RunState()
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
    before, now = json.loads(metadata["settings"]), json.loads(json.dumps(agreed))
    differing = [
        f"{key} was {before.get(key)!r} and is now {now.get(key)!r}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]
    if differing:
        raise ValueError(f"{path}: from a run with other settings: {'; '.join(differing)}; delete it to start over")
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    try:
        model.load_state_dict(_frozen(model) | weights)
    except RuntimeError as error:
        raise ValueError(f"{path}: from another model: {error}; delete it to start over") from error
    for name, parameter in model.named_parameters():
        keys = [key for key in ("step", "exp_avg", "exp_avg_sq") if f"adam.{key}.{name}" in tensors]
        if keys:
            optimizer.state[parameter] = {
                key: tensors[f"adam.{key}.{name}"].to("cpu" if key == "step" else parameter.device) for key in keys
            }
    state = _RunState(**json.loads(metadata["state"]))
    logger.info("%s: resuming at step %d", path, state.step)
    return state
