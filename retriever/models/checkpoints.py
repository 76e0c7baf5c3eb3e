"""Converts PyTorch checkpoints to safetensors, which load without unpickling and without a second copy in memory."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from retriever.files import replace_with, write_whole

INDEX_NAME = "model.safetensors.index.json"
SHARD_BYTES = 4 << 30


def convert_checkpoint(checkpoint: Path, target: Path) -> None:
    """Writes a PyTorch checkpoint (`.pt`, `.bin`) as safetensors; only tensors are unpickled.

    Names are kept, except that wrappers (`module.`, `model`, `state_dict`) are removed.

    Args:
        checkpoint: The file to read; it is memory-mapped.
        target: One file if its name ends in `.safetensors`, else a folder for shards of a few GB and their index, which
            is written last.

    Raises:
        ValueError: The file has no named tensors.
    """
    state = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)
    for key in ("model", "module", "state_dict"):
        state = state[key] if isinstance(state, dict) and isinstance(state.get(key), dict) else state
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()) or not state:
        raise ValueError(f"{checkpoint}: expected a state dict (tensors by name)")
    state = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    if target.suffix == ".safetensors":
        target.parent.mkdir(parents=True, exist_ok=True)
        _write(state, target)
        return
    shards: list[dict[str, Tensor]] = [{}]
    for name, tensor in state.items():
        if shards[-1] and sum(t.nbytes for t in shards[-1].values()) + tensor.nbytes > SHARD_BYTES:
            shards.append({})
        shards[-1][name] = tensor
    target.mkdir(parents=True, exist_ok=True)
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = target / f"model-{number:05}-of-{len(shards):05}.safetensors"
        _write(shard, file)
        weight_map |= dict.fromkeys(shard, file.name)
    index = json.dumps({"metadata": {}, "weight_map": weight_map}, indent=2) + "\n"
    write_whole(target / INDEX_NAME, index.encode())


def _write(state: dict[str, Tensor], file: Path) -> None:
    copies = {name: tensor.contiguous().clone() for name, tensor in state.items()}
    replace_with(file, lambda partial: save_file(copies, partial))
