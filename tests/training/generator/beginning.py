"""One of two processes that train the generator; a module of its own, which a new process can import."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from training.generator import train
from training.generator.config import GeneratorTrainingConfig
from training.generator.rendering import PromptSettings


def begin_slowly(out: Path) -> None:
    """Starts a run in a folder of another one, as one of two processes of torchrun, of which the first is slow."""
    arguments = train._arguments(out / train.CHECKPOINTS, GeneratorTrainingConfig())
    if arguments.should_save:
        time.sleep(1)
    assert not train._begun(out, {"samples": "new"}, arguments, overwrite=True)
    assert train._last_checkpoint(out / train.CHECKPOINTS) is None
    distributed.destroy_process_group()


def train_until_killed(base: Path, samples: Path, out: Path, config: GeneratorTrainingConfig, step: int) -> None:
    """Trains as one of two processes of torchrun, which both end at a step, as if they were killed."""
    torch.set_num_threads(1)
    ends = train.Watch.on_step_end

    def on_step_end(self: train.Watch, args: Any, state: Any, control: Any, **more: Any) -> None:
        ends(self, args, state, control, **more)
        if state.global_step == step:
            raise SystemExit(0)

    train.Watch.on_step_end = on_step_end  # type: ignore[method-assign]  # a process of its own
    train.train_generator(base, samples, out, PromptSettings(), config)
