"""One of two processes that begin a training of the generator; a module of its own, which a new process can import."""

from __future__ import annotations

import time
from pathlib import Path

from torch import distributed

from training.generator import train
from training.generator.config import GeneratorTrainingConfig


def begin_slowly(out: Path) -> None:
    """Starts a run in a folder of another one, as one of two processes of torchrun, of which the first is slow."""
    arguments = train._arguments(out / train.CHECKPOINTS, GeneratorTrainingConfig())
    if arguments.should_save:
        time.sleep(1)
    assert not train._begun(out, {"samples": "new"}, arguments, overwrite=True)
    assert train._last_checkpoint(out / train.CHECKPOINTS) is None
    distributed.destroy_process_group()
