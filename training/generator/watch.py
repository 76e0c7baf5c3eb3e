"""Watches the generator's fine-tuning: the losses of its steps, which a GPU is not waited for, and its progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor
from tqdm import tqdm
from transformers import Trainer, TrainerCallback

from indexes.progress import progress_bar
from training.batch import read_later
from training.curve import Curve


class LossTrainer(Trainer):
    """A Trainer that keeps the loss of a step on the device, where it does not have to be waited for."""

    _loss: Tensor | None = None

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """Runs a forward and a backward pass; returns the loss, as a share of that of the step."""
        loss: Tensor = super().training_step(*args, **kwargs)
        self._loss = loss if self._loss is None else self._loss + loss
        return loss

    def take_loss(self) -> Tensor:
        """Returns the loss of the step that has just ended, a scalar, averaged over all processes."""
        loss, self._loss = self._loss, None
        mean: Tensor = self.accelerator.gather(loss).mean()
        return mean


class Watch(TrainerCallback):
    """Shows a progress bar, writes the curve step by step, and stops if a loss is not finite.

    A loss is read while a GPU already computes the next step, but before a checkpoint is written.

    Args:
        out: Folder of the curve.
        take_loss: Returns the loss of the step that has just ended, a scalar.
    """

    def __init__(self, out: Path, take_loss: Callable[[], Tensor]) -> None:
        self._out, self._take_loss = out, take_loss
        self._curve: Curve | None = None
        self._bar: tqdm[Any] | None = None
        self._started = self._rate = 0.0
        self._waiting: tuple[dict[str, float], Callable[[], float]] | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Opens the curve, keeping its rows up to the step that the run resumes from."""
        self._started = time.monotonic()
        if state.is_world_process_zero:
            self._curve = Curve(self._out, state.global_step)
            self._started -= float(self._curve.rows[-1]["seconds"]) if self._curve.rows else 0.0
            self._bar = progress_bar(
                total=state.max_steps,
                initial=state.global_step,
                desc="generator",
                unit="step",
            )

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Notes the learning rate before the schedule changes it."""
        self._rate = float(kwargs["optimizer"].param_groups[0]["lr"])

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Reads the loss of the step before; before a checkpoint and at the end, this step's, too.

        Raises:
            FloatingPointError: The loss is not finite.
        """
        row = {"step": state.global_step, "epoch": state.epoch, "learning_rate": self._rate}
        following = row, read_later(self._take_loss())
        self._read(state)
        self._waiting = following
        if control.should_save or control.should_training_stop:
            self._read(state)

    def _read(self, state: Any) -> None:
        if self._waiting is None:
            return
        (row, value_of), self._waiting = self._waiting, None
        step, loss = int(row["step"]), value_of()
        if not math.isfinite(loss):
            raise FloatingPointError(f"loss is {loss} at step {step}; a lower learning_rate may help")
        state.log_history.append({"loss": loss, **row})
        if self._curve is not None:
            self._curve.add(step, loss, row["learning_rate"], time.monotonic() - self._started, {})
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss {loss:.3f}", refresh=False)
            self._bar.update(step - self._bar.n)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Draws the curve."""
        self._read(state)
        if self._curve is not None:
            self._curve.close()
        if self._bar is not None:
            self._bar.close()
