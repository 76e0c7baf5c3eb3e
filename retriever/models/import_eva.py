"""Converts EVA's own checkpoints (`EVA_CLIP_8B_psz14_s9B.pt`) into a folder for `ClipEncoder.load`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch

from retriever.models.checkpoints import convert_checkpoint
from retriever.models.eva_weights import eva_config, load_eva_clip
from retriever.models.pixels import PixelPreparation


def import_eva(checkpoint: Path, config: Path, out: Path, tokenizer: Path | None = None) -> int:
    """Writes a checkpoint as a model folder, in the checkpoint's precision, and returns its number of parameters.

    Args:
        checkpoint: The file to read; only tensors are unpickled.
        config: The model's configuration in EVA's repository (`EVA-CLIP-8B.json`): `vision_cfg`, `text_cfg`.
        out: The folder to write; it appears once it is complete and checked.
        tokenizer: Folder of CLIP's tokenizer; without it, you must copy its files into `out` yourself.

    Raises:
        ValueError: `out` exists, the configuration is of another kind, or the weights do not match it.
    """
    if out.exists():
        raise ValueError(f"--out: {out} exists; name a new folder, or delete it")
    try:
        settings = json.loads(config.read_text(encoding="utf-8"))
        model = eva_config(settings)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{config}: not a configuration of EVA's repository: {error!r}") from error
    from transformers import CLIPTokenizer  # only here, because other commands do without

    words = None if tokenizer is None else CLIPTokenizer.from_pretrained(tokenizer)
    if words is not None and len(words) != model.vocab_size:
        raise ValueError(f"{tokenizer}: has {len(words)} words, the model {model.vocab_size}; is it CLIP's tokenizer?")
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        convert_checkpoint(checkpoint, partial)
        if words is not None:
            words.save_pretrained(partial)
        PixelPreparation(model.image_size, crop=True).save(partial)
        (partial / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        # Loading on the meta device checks names and shapes without using memory.
        parameters = sum(p.numel() for p in load_eva_clip(partial, "meta", torch.float32).parameters())
        partial.replace(out)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return parameters
