"""Checkpoints of a training: weights, optimizer and position in one safetensors file; the best weights in another."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from retriever.files import replace_with

logger = logging.getLogger(__name__)

CHECKPOINT_NAME = "checkpoint.safetensors"
BEST_NAME = "best.safetensors"
_RUN = "run"
_OPTIMIZER_STATE = ("step", "exp_avg", "exp_avg_sq", "momentum_buffer")  # per parameter, of AdamW and Muon


@dataclass
class RunState:
    """The position of a run, stored in the checkpoint's metadata.

    The learning rate, the order of the samples and all random numbers follow from the step and the seed, so only the
    step is stored.

    Attributes:
        step: Number of completed steps.
        seconds: Time that they took.
        loss_sum: Sum of the losses since the last validation.
        loss_count: Number of these losses.
        metrics: Metrics of the last validation.
        best: Metrics of the best validation.
        start: Metrics of the initial weights.
    """

    step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    start: dict[str, float] = field(default_factory=dict)


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, state: RunState, agreed: object) -> None:
    """Writes a checkpoint.

    Args:
        path: The file.
        model: The model; its trained parameters and its buffers are stored.
        optimizer: AdamW or `Muon`.
        state: The position of the run.
        agreed: Settings that a resumed run must share, as plain JSON.
    """
    tensors = {f"model.{name}": tensor for name, tensor in _trained(model).items()}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{key}.{name}"] = value
    # A single entry, because safetensors writes several in random order and equal runs should write equal files.
    _write(path, tensors, {_RUN: json.dumps({"state": asdict(state), "settings": agreed})})


def save_best(path: Path, model: nn.Module) -> None:
    """Writes only the trained weights."""
    _write(path, _trained(model), {})


def load_best(path: Path, model: nn.Module) -> None:
    """Loads the weights that `save_best` wrote into the model."""
    model.load_state_dict(_frozen(model) | load_file(path))


def resume(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, agreed: dict[str, object]) -> RunState:
    """Reads a checkpoint into model and optimizer; returns the position of the run, or its start if there is none.

    Raises:
        ValueError: The checkpoint has other settings or is of another model; the message names the difference.
    """
    if not path.is_file():
        return RunState()
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
    if _RUN not in metadata:
        raise ValueError(f"{path}: not a checkpoint of this release; delete it to start over")
    run = json.loads(metadata[_RUN])
    before, now = run["settings"], json.loads(json.dumps(agreed))
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
        keys = [key for key in _OPTIMIZER_STATE if f"optimizer.{key}.{name}" in tensors]
        if keys:
            optimizer.state[parameter] = {
                key: tensors[f"optimizer.{key}.{name}"].to("cpu" if key == "step" else parameter.device) for key in keys
            }
    state = RunState(**run["state"])
    logger.info("%s: resuming at step %d", path, state.step)
    return state


def _write(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    # Copies, because safetensors accepts neither tied tensors nor other memory layouts.
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    replace_with(path, lambda partial: save_file(copies, partial, metadata))


def _trained(model: nn.Module) -> dict[str, Tensor]:
    frozen = _frozen(model)
    return {name: tensor for name, tensor in model.state_dict().items() if name not in frozen}


def _frozen(model: nn.Module) -> dict[str, Tensor]:
    """Returns the parameters that are not trained; those of a published image tower take gigabytes."""
    return {name: parameter.detach() for name, parameter in model.named_parameters() if not parameter.requires_grad}
