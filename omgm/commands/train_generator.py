"""Fine-tune the generator with LoRA on evidence that OMGM retrieves."""

from __future__ import annotations

import argparse
import gc
import hashlib
import logging
import os
import shlex
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from omgm.commands.common import (
    add_max_bad,
    add_overwrite,
    add_profile,
    add_questions,
    finder,
    load_questions,
    profile_of,
    query_images_of,
    training_notes,
)
from omgm.commands.numbers import natural, positive
from omgm.commands.training import (
    add_fields,
    add_training_index,
    training_index,
)
from training.generator.config import GeneratorTrainingConfig

if TYPE_CHECKING:
    from chat_models.prompts import Style
    from omgm.settings import Profile
    from retriever.asking import QueryRetriever

logger = logging.getLogger(__name__)

SERVED = "omgm-adapter"
"""The adapter's name on the server."""
_STEPS: tuple[Literal["encoder"], Literal["fusion"]] = ("encoder", "fusion")
PORT = 8001
"""The port of vLLM in our documentation; `omgm serve` uses 8000."""

_FIELDS = {
    "epochs": "passes over all samples",
    "steps": "stop after N steps instead",
    "learning_rate": "peak learning rate",
    "batch_size": "samples per GPU and forward pass",
    "accumulate": "gradient accumulation steps",
    "rank": "the adapter's rank",
    "lora_alpha": "its scale",
    "max_tokens": "longest sample; by default all it reads",
    "save_every": "steps between checkpoints",
    "workers": "processes that load images",
}
"""What the flags for fields of `GeneratorTrainingConfig` are for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_profile(parser)
    add_training_index(parser)
    add_max_bad(parser, listed="")
    add_questions(parser)
    parser.add_argument(
        "--base", required=True, metavar="MODEL", help="the chat model: a folder, org/name or org/name@revision"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the folder for samples, adapter and profile"
    )
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="seed of samples and training (%(default)s)"
    )
    add_overwrite(parser)
    samples = parser.add_argument_group("samples")
    samples.add_argument(
        "--most",
        type=positive,
        default=100_000,
        metavar="N",
        help="maximum number of samples, selected at random (%(default)s)",
    )
    samples.add_argument("--samples-only", action="store_true", help="stop before the training")
    training = parser.add_argument_group("training (by default with the paper's settings)")
    add_fields(training, GeneratorTrainingConfig, _FIELDS)
    training.add_argument(
        "--gradient-checkpointing",
        action=argparse.BooleanOptionalAction,
        help="much less memory, about a third more computation; by default on a GPU",
    )


def run(args: argparse.Namespace) -> None:
    """Creates the samples, trains the adapter, writes `profile.toml` and prints how to serve the adapter."""
    from chat_models.prompts import prompt_deviation, style_for

    profile = profile_of(args)
    style = style_for(profile.generator.style, args.dataset)
    for sentence in prompt_deviation(style, args.dataset).values():
        logger.warning("generator.style: %s", sentence)

    from evaluation.commit import commit
    from omgm.downloads.hub import hub_model
    from omgm.profile import is_folder
    from training.generator.lora import require_peft
    from training.generator.rendering import PromptSettings, Renderer
    from training.generator.train import ADAPTER, train_generator

    require_peft()
    base, config = _base_folder(args.base), _config(args, profile)
    asked = profile.generator
    prompt = PromptSettings(
        style=style,
        multimodal=asked.multimodal,
        system_role=asked.system_role,
        max_context_tokens=asked.max_context_tokens,
    )
    Renderer(base, prompt, config.max_tokens)  # fails early: retrieval may take hours
    samples = _samples(args, profile)
    if args.samples_only:
        print(samples)
        return
    if is_folder(args.base):
        name, revision = str(base.resolve()), None
    else:
        model = hub_model(args.base)
        name, revision = model.repo, model.revision
    report = train_generator(
        base,
        samples,
        args.out,
        prompt,
        config,
        name=name,
        revision=revision,
        commit=commit(),
        overwrite=args.overwrite,
    )
    if int(os.environ.get("RANK", "0")):
        return
    tokenizer = name if revision is None else f"{name}@{revision}"
    path = _write_profile(args, profile, style, tokenizer if (base / "tokenizer.json").is_file() else "")
    serve = ["vllm", "serve", name, *(["--revision", revision] if revision else []), "--port", str(PORT)]
    serve += ["--generation-config", "vllm", "--enable-lora", "--max-lora-rank", str(config.max_lora_rank)]
    serve += ["--lora-modules", f"{SERVED}={(args.out / ADAPTER).resolve()}"]
    print(f"trained, loss {report['metrics']['train_loss']:.3f}; serve it with\n  {shlex.join(serve)}")
    print(f"and use it with --profile {path}")


def _base_folder(base: str) -> Path:
    """Returns the folder of the chat model given as `--base`. Never uses the network.

    Raises:
        ValueError: The model is not on this machine; the message says how to get it.
    """
    from omgm.downloads.hub import hub_model, local_folder
    from omgm.profile import is_folder

    if is_folder(base):
        folder = Path(base).expanduser()
        if not (folder / "config.json").is_file():
            raise ValueError(f"--base: {folder} has no config.json; name the folder of a model of transformers")
        return folder
    model = hub_model(base, "--base")
    try:
        return local_folder(base)
    except ValueError as error:
        here = f"; or name the folder here ./{base}" if Path(base).is_dir() else ""
        words = ["hf", "download", model.repo, *(("--revision", model.revision) if model.revision else ())]
        raise ValueError(
            f"--base: {base} is not on this machine, or not all of it; run: {shlex.join(words)}{here}"
        ) from error


def _config(args: argparse.Namespace, profile: Profile) -> GeneratorTrainingConfig:
    from omgm.parts import placement

    device, dtype = placement(profile)
    given = {one.name: getattr(args, one.name) for one in fields(GeneratorTrainingConfig) if hasattr(args, one.name)}
    return GeneratorTrainingConfig(**given, device=device, dtype=str(dtype).removeprefix("torch."))


def _samples(args: argparse.Namespace, profile: Profile) -> Path:
    """Creates the samples and returns their file; frees the retriever's memory afterward."""
    import torch

    from evaluation.image_overlap import warn_of_labeled
    from indexes.store.generations import current_files
    from indexes.store.manifest import read_manifest
    from omgm.identity import sections_weights
    from omgm.opening import open_retriever
    from omgm.parts import model_folder, placement
    from retriever.models.folder import folder_fingerprint
    from training.generator.samples import SAMPLES, make_samples

    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
    if not alone and not (args.out / SAMPLES).is_file():
        raise ValueError(f"{args.out / SAMPLES} does not exist; make it in one process first, with --samples-only")
    if int(os.environ.get("RANK", "0")):
        return Path(args.out / SAMPLES)  # the first process compares its inputs
    # Only the settings of retrieval, so that trainings with other generator settings reuse the samples.
    retrieval = profile.model_dump(mode="json", include={"encoder", "search", "fusion", "sections"})
    for step in retrieval.values():  # the models are compared by their weights, wherever they are
        step.pop("model", None)

    index, find = training_index(args, profile, tokens=True), finder(args)
    questions = load_questions(args)
    warn_of_labeled({question.image_id: find(question.image_id) for question in questions}, index)
    manifest = read_manifest(current_files(index))

    def retriever() -> QueryRetriever:
        return open_retriever(profile, index, verify=True)

    path = make_samples(
        retriever,
        questions,
        find,
        args.out,
        multimodal=profile.generator.multimodal,
        most=args.most,
        seed=args.seed,
        made_with={
            "index": manifest.inputs.model_dump(mode="json"),
            "index content": hashlib.sha256(manifest.to_json()).hexdigest(),
            "profile": retrieval,
            "precision": str(placement(profile)[1]).removeprefix("torch."),
            **{f"{step}.model": folder_fingerprint(model_folder(profile, step)) for step in _STEPS},
            **sections_weights(profile),
        },
        overwrite=args.overwrite and alone,
        advice="" if alone else "make them again in one process first, with --samples-only --overwrite",
    )
    gc.collect()
    if placement(profile)[0] == "cuda":
        torch.cuda.empty_cache()
    return path


def _write_profile(args: argparse.Namespace, profile: Profile, style: Style, tokenizer: str) -> Path:
    from evaluation.image_overlap import note_images, read_images
    from omgm.profile import parse_overrides
    from omgm.written_profile import write_profile

    served = {
        "generator.kind": "openai",
        "generator.base_url": profile.generator.base_url or f"http://127.0.0.1:{PORT}",
        "generator.model": SERVED,
        "generator.tokenizer": tokenizer,
        "generator.style": style,
    }
    questions = load_questions(args)
    shown = read_images((question.image_id for question in questions), query_images_of(args))
    note_images(args.out, shown, training_notes(args, profile), questions)
    return write_profile(args.out, args.profile, parse_overrides(args.overrides) | served)
