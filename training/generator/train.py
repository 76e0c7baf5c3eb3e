"""Fine-tunes the generator: trains a LoRA adapter on samples from our own retrieval."""

from __future__ import annotations

import json
import logging
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, TrainingArguments

from retriever.files import sha256_of, write_json
from retriever.identity import agree
from retriever.models.folder import RECORD_NAME, folder_fingerprint
from training.generator.config import GeneratorTrainingConfig
from training.generator.lora import add_adapter, load_base, require_peft, save_adapter
from training.generator.rendering import Collator, PromptSettings, Renderer
from training.generator.samples import count_left_out, read_samples
from training.generator.watch import LossTrainer, Watch
from training.memory import naming_memory_settings

logger = logging.getLogger(__name__)

ADAPTER = "adapter"
CHECKPOINTS = "checkpoints"
"""The Trainer's files, including pickles, which are only read as weights; removed once the adapter is written."""

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
    settings = asdict(config) | {"gradient_checkpointing": config.checkpointing}
    identity = {
        "base's weights": folder_fingerprint(base),
        "samples": sha256_of(samples),
        **asdict(prompt),
        **{key: value for key, value in settings.items() if key not in _MAY_CHANGE},
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
            trainer.train(resume_from_checkpoint=_last_checkpoint(out / CHECKPOINTS))
        losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
        report = {
            "kind": "generator",
            "base": {"model": name, "revision": revision},
            "settings": {**asdict(prompt), **settings},
            "data": {"samples": len(given), "left_out": count_left_out(samples), "sha256": identity["samples"]},
            "metrics": {
                "steps": trainer.state.global_step,
                "epochs": trainer.state.epoch,
                "train_loss": sum(losses) / len(losses),
                "last_loss": losses[-1],
                "trained_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
            },
            "commit": commit,
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
    """Returns what reduces the memory of a training."""
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
    note = out / CHECKPOINTS / "run.json"
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
