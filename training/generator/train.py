"""Fine-tunes the generator: trains a LoRA adapter on samples from our own retrieval."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from indexes.progress import progress_bar
from retriever.files import sha256_of, write_json
from retriever.identity import agree
from retriever.models.folder import RECORD_NAME, folder_fingerprint
from training.batch import read_later
from training.curve import Curve
from training.generator.config import GeneratorTrainingConfig
from training.generator.lora import add_adapter, check_adapter, load_base, require_peft, save_adapter
from training.generator.rendering import Collator, PromptSettings, Renderer
from training.generator.samples import count_left_out, read_samples
from training.memory import naming_memory_settings
from training.processes import process_count, same_steps
from training.record import environment

logger = logging.getLogger(__name__)

ADAPTER = "adapter"
CHECKPOINTS = "checkpoints"
"""The Trainer's files, including pickles, which are only read as weights; removed once the adapter is written."""
NOTE = "run.json"
"""What a run depends on, in the folder of its checkpoints."""

_MAY_CHANGE = ("device", "workers", "save_every")


def train_generator(
    base: Path,
    samples: Path,
    out: Path,
    prompt: PromptSettings,
    config: GeneratorTrainingConfig = GeneratorTrainingConfig(),  # noqa: B008  frozen
    *,
    name: str | None = None,
    revision: str | None = None,
    commit: str | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Trains an adapter, writes it to `out/adapter` and returns the content of `out/training.json`.

    A killed run resumes from its last checkpoint, and a finished one is not repeated. With several GPUs, start one
    process per GPU (`torchrun`); the first one writes the files.

    Args:
        base: Folder of the model to fine-tune.
        samples: The file that `make_samples` wrote.
        out: Folder for `adapter/`, `checkpoints/`, `training.json`, `curve.csv` and `curve.png`.
        prompt: How the generator will be prompted.
        config: The settings of the training.
        name: The base's name in the adapter, `org/name` on the hub; by default its folder.
        revision: The base's revision on the hub.
        commit: The commit of the code, for the report.
        overwrite: Whether to replace a run with other inputs.

    Raises:
        ValueError: peft is not installed, the base is unsuitable, a sample cannot be rendered, or `out` has a run with
            other settings.
        FloatingPointError: The loss is not finite.
        MemoryError: The device runs out of memory; the message names the settings to reduce.
    """
    require_peft()
    name = name or str(base.resolve())
    processes = process_count()
    accumulate, begun = same_steps(out / CHECKPOINTS / NOTE, config.accumulate, processes)
    config = replace(config, accumulate=accumulate)
    settings = asdict(config) | {"gradient_checkpointing": config.checkpointing}
    identity = {
        "base's weights": folder_fingerprint(base),
        "samples": sha256_of(samples),
        **asdict(prompt),
        **{key: value for key, value in settings.items() if key not in _MAY_CHANGE},
        **begun,
    }
    arguments = _arguments(out / CHECKPOINTS, config)
    if not _begun(out, identity, arguments, overwrite) or not (out / RECORD_NAME).is_file():
        given = read_samples(samples)
        renderer = Renderer(base, prompt, config.max_tokens)
        renderer(given[0])  # fails before the weights are loaded if the base is unsuitable
        with naming_memory_settings(_less_memory(config), "--workers"):
            model = add_adapter(load_base(base, getattr(torch, config.dtype)), config)
            trainer = LossTrainer(model=model, args=arguments, train_dataset=given, data_collator=Collator(renderer))
            trainer.add_callback(Watch(out, trainer.take_loss))
            trainer.remove_callback(PrinterCallback)  # the bar and the curve show what it would print
            if checkpoint := _last_checkpoint(out / CHECKPOINTS):
                check_adapter(model, Path(checkpoint))
            trainer.train(resume_from_checkpoint=checkpoint)
        losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
        report = {
            "kind": "generator",
            "base": {"model": name, "revision": revision},
            "settings": {**asdict(prompt), **settings, "processes": processes},
            "data": {"samples": len(given), "left_out": count_left_out(samples), "sha256": identity["samples"]},
            "metrics": {
                "steps": trainer.state.global_step,
                "epochs": trainer.state.epoch,
                "train_loss": sum(losses) / len(losses),
                "last_loss": losses[-1],
                "trained_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
            },
            "commit": commit,
            "environment": environment("peft", "accelerate"),
        }
        if not trainer.is_world_process_zero():
            return report
        partial = out / f"{ADAPTER}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        save_adapter(model, partial, name, revision)
        shutil.rmtree(out / ADAPTER, ignore_errors=True)
        os.replace(partial, out / ADAPTER)
        write_json(out / RECORD_NAME, report)
    if arguments.should_save:
        for folder in _checkpoints(out / CHECKPOINTS):
            shutil.rmtree(folder)
    content: dict[str, Any] = json.loads((out / RECORD_NAME).read_text(encoding="utf-8"))
    return content


def _less_memory(config: GeneratorTrainingConfig) -> str:
    """Names the settings that make a training need less memory."""
    checkpointing = "" if config.checkpointing else "--gradient-checkpointing, "
    return (
        f"use {checkpointing}a smaller --batch-size (with a proportionally larger --accumulate for the same step), a "
        "smaller --max-tokens, or a smaller --rank"
    )


def _arguments(folder: Path, config: GeneratorTrainingConfig) -> TrainingArguments:
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=config.epochs,
        max_steps=-1 if config.steps is None else config.steps,
        per_device_train_batch_size=config.batch_size,
        gradient_accumulation_steps=config.accumulate,
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=config.warmup,  # below 1: a share of all steps
        weight_decay=0.0,
        optim="adamw_torch",
        seed=config.seed,
        bf16=config.dtype == "bfloat16",
        use_cpu=config.device == "cpu",
        dataloader_num_workers=config.workers,
        ddp_find_unused_parameters=False,  # every batch uses the whole adapter
        remove_unused_columns=False,  # the collator takes the samples themselves
        save_steps=config.save_every,
        save_total_limit=1,
        logging_strategy="no",  # `Watch` logs every step without waiting for it
        logging_nan_inf_filter=False,  # waits after every pass
        accelerator_config={"non_blocking": True},  # batches are pinned, which is the default
        disable_tqdm=True,  # `Watch` has a bar that also suits logs
        report_to="none",
    )
    if arguments.n_gpu > 1:
        raise ValueError(
            f"one process sees {arguments.n_gpu} GPUs; start one process per GPU (torchrun --nproc-per-node "
            f"{arguments.n_gpu} -m omgm train-generator ...), or choose one with CUDA_VISIBLE_DEVICES"
        )
    return arguments


def _begun(out: Path, identity: dict[str, Any], arguments: TrainingArguments, overwrite: bool) -> bool:
    """Returns whether this run was started before; if not, the first process prepares its folder."""
    note = out / CHECKPOINTS / NOTE
    adapt = {"gradient_checkpointing": lambda: None}
    with arguments.main_process_first(local=False):  # the others look once it has removed what it replaces
        work = [*_checkpoints(note.parent), out / RECORD_NAME]
        return agree(note, identity, write=arguments.should_save, adapt=adapt, work=work, overwrite=overwrite)


def _checkpoints(folder: Path) -> list[Path]:
    """Returns the folders of a run's checkpoints, complete or not, oldest first."""
    return sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))


def _last_checkpoint(folder: Path) -> str | None:
    """Returns the last complete checkpoint: the Trainer writes its state last, so a kill leaves none or part of it."""
    for path in reversed(_checkpoints(folder)):
        try:
            json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            logger.warning("%s: incomplete, since the run was killed while writing it; using the one before", path)
        else:
            logger.info("%s: resuming", path)
            return str(path)
    return None


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
