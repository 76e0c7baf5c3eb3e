"""PyTorch checkpoints into safetensors, which load without unpickling and without a second copy in memory."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

INDEX_NAME = "model.safetensors.index.json"
SHARD_BYTES = 4 << 30


def convert_checkpoint(checkpoint: Path, folder: Path) -> None:
    """Writes a PyTorch checkpoint (`.pt`, `.bin`) as safetensors into `folder`; nothing but tensors is unpickled.

    The names stay as they are; a wrapping (`module.`, `model`, `state_dict`) comes off. The index is written last.

    Raises:
        ValueError: The file holds no tensors by name.
    """
    state = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)
    for key in ("model", "module", "state_dict"):
        state = state[key] if isinstance(state, dict) and isinstance(state.get(key), dict) else state
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()) or not state:
        raise ValueError(f"{checkpoint}: expected a state dict, names with a tensor each")
    shards: list[dict[str, Tensor]] = [{}]
    for name, tensor in state.items():
        if shards[-1] and sum(t.nbytes for t in shards[-1].values()) + tensor.nbytes > SHARD_BYTES:
            shards.append({})
        shards[-1][name.removeprefix("module.")] = tensor
    folder.mkdir(parents=True, exist_ok=True)
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = folder / f"model-{number:05}-of-{len(shards):05}.safetensors"
        temporary = file.with_suffix(".tmp")
        save_file({name: tensor.contiguous().clone() for name, tensor in shard.items()}, temporary)
        temporary.replace(file)
        weight_map |= dict.fromkeys(shard, file.name)
    temporary = folder / (INDEX_NAME + ".tmp")
    temporary.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}, indent=2) + "\n", encoding="utf-8")
    temporary.replace(folder / INDEX_NAME)
