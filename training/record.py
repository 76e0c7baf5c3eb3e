"""The record of a training, stored next to the weights; the model card is generated from it."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import torch

from retriever.files import write_json
from retriever.models.folder import RECORD_NAME
from training.config import Optimization


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """What a model was trained on, how, and with what result.

    Attributes:
        kind: The kind of model.
        base: The model that the training started from: a name on the hub, or `./folder`.
        recipe: Name of the recipe, if there are several.
        data: Sizes of the training data.
        settings: All settings that affect the result.
        metrics: Metrics on held-out images.
        remarks: What a reader of the metrics should know; see `remarks_on`.
        commit: The commit of the code.
    """

    kind: Literal["encoder", "reranker", "sections"]
    base: str
    recipe: str | None = None
    data: Mapping[str, object]
    settings: Mapping[str, object]
    metrics: Mapping[str, float]
    remarks: Sequence[str] = ()
    commit: str | None = None

    def save(self, folder: Path) -> None:
        """Writes `folder/training.json`, with the `environment` of this process."""
        write_json(folder / RECORD_NAME, asdict(self) | {"environment": environment()})


def environment(*packages: str) -> dict[str, object]:
    """Returns the software and hardware that must match, beside the settings, for a training to repeat bit for bit.

    These are versions, the processor's instruction set, the GPU, and the threads that sums are divided among.
    """
    names = ("torch", "transformers", "tokenizers", "numpy", "pillow", *packages)
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in names},
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": torch.get_num_threads(),
    }


def remarks_on(
    metrics: Mapping[str, float], optimization: Optimization, better_by: tuple[str, str], held_out: str = "image"
) -> list[str]:
    """Returns sentences about a training that a time limit cut, that was not validated, or that found nothing better.

    Args:
        metrics: What `training.loop.train` returned.
        optimization: The settings of the training.
        better_by: The metric that was maximized, and the one that was minimized among equals.
        held_out: What is held out for validation.
    """
    said = []
    if metrics["steps"] < optimization.steps:
        said.append(
            f"the limit of {optimization.minutes:g} minutes cut the training after step {metrics['steps']:,.0f} of "
            f"{optimization.steps:,}; the same command with a higher --minutes goes on"
        )
    highest, lowest = better_by
    if highest not in metrics:
        said.append(f"not validated, since no {held_out} is held out: whether the weights are better now is not known")
    elif (metrics[highest], -metrics[lowest]) <= (metrics[f"start_{highest}"], -metrics[f"start_{lowest}"]):
        first, last = (
            f"{highest} {metrics[f'{when}_{highest}']:.4f}, {lowest} {metrics[f'{when}_{lowest}']:.4f}"
            for when in ("start", "last")
        )
        said.append(
            f"no better than it began on held-out {held_out}s: {first} before, {last} at the end; the weights are "
            "those it began with"
        )
    return said


def recorded_seed(folder: Path) -> int | None:
    """Returns the seed that a model was trained with, or `None` if the model has no training record.

    Raises:
        ValueError: The record has no seed.
    """
    path = folder / RECORD_NAME
    if not path.is_file():
        return None
    try:
        return int(json.loads(path.read_bytes())["settings"]["seed"])
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{path}: has no seed of the training ({error}); pass it as --seed") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Entries of a record that the training itself does not know.

    Attributes:
        base: Name of the model that the training starts from.
        commit: The commit of the code.
    """

    base: str = "./start"
    commit: str | None = None
