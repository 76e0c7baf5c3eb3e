"""Reads only the tensors of PyTorch checkpoints, and converts them to safetensors, which load without unpickling."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from retriever.files import replace_with, write_whole
from retriever.models.tensor_names import INDEX_NAME, wrapper_of

SHARD_BYTES = 4 << 30
_WRAPPERS = ("model", "module", "state_dict")


def read_checkpoint(file: Path) -> tuple[dict[str, Tensor], list[str]]:
    """Reads the tensors of a checkpoint by name, memory-mapped if possible; nothing but tensors is unpickled.

    Names stay as they are, except that the prefix of a wrapper that all have, such as `module.`, is removed.

    Returns:
        The tensors, and the keys that they were under, such as "model" or "state_dict", the outermost first.

    Raises:
        ValueError: The file cannot be read, contains objects other than tensors and plain values, or has no named
            tensors.
    """
    try:
        state: Any = torch.load(file, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(file))
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        # PyTorch's own message recommends loading arbitrary objects, which could run code.
        unpickled = isinstance(error, pickle.UnpicklingError)
        reason = "it contains other objects, or is damaged" if unpickled else str(error).partition("\n")[0]
        raise ValueError(f"{file}: not readable as a checkpoint with only tensors: {reason}") from error
    wrappers = []
    for key in _WRAPPERS:
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
            wrappers.append(key)
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(
            f"{file}: expected a state dict: a dictionary of tensors by name, or one under "
            f"{' or '.join(map(repr, _WRAPPERS))}; is it an optimizer's checkpoint?"
        )
    prefix = wrapper_of(state)
    return {name.removeprefix(prefix): tensor for name, tensor in state.items()}, wrappers


def convert_checkpoint(checkpoint: Path, target: Path) -> None:
    """Writes a PyTorch checkpoint (`.pt`, `.bin`) as safetensors.

    Args:
        checkpoint: The file; see `read_checkpoint`.
        target: A file if the name ends in `.safetensors`, otherwise a folder for shards of up to 4 GiB and their index,
            which is written last.

    Raises:
        ValueError: As for `read_checkpoint`.
    """
    state, _ = read_checkpoint(checkpoint)
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
