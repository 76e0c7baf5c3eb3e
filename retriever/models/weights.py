"""Reads stored tensors by name and reports tensors that are missing, unexpected or have the wrong shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from retriever.files import read_object

WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"
_SHOWN = 8


def weight_files(folder: Path) -> list[Path]:
    """Returns the safetensors files of a model folder: those of its index, else `model.safetensors`, else all.

    Raises:
        ValueError: There are none, or one that the index names is missing.
    """
    index = folder / INDEX_NAME
    if index.is_file():
        weight_map: dict[str, str] = read_object(index)["weight_map"]
        files = [folder / name for name in sorted(set(weight_map.values()))]
    else:
        single = folder / WEIGHTS_NAME
        files = [single] if single.is_file() else sorted(folder.glob("*.safetensors"))
    for file in files:
        if not file.is_file():
            raise ValueError(f"{file}: not found, but {INDEX_NAME} names it; download it again")
    if not files:
        raise ValueError(
            f"{folder}: has no .safetensors file; `omgm import encoder` and `omgm import reranker` convert PyTorch "
            "checkpoints"
        )
    return files


def stored_names(folder: Path) -> dict[str, Path]:
    """Returns the file of each tensor in a model folder, by name.

    Raises:
        ValueError: There are no weights, or a file that the index names is missing.
    """
    names: dict[str, Path] = {}
    for file in weight_files(folder):
        with safe_open(file, "pt") as weights:
            names |= dict.fromkeys(weights.keys(), file)
    return names


def read_weights(
    folder: Path,
    sources: Mapping[str, str],
    device: str = "cpu",
    dtype: torch.dtype | None = None,
    ignored: Callable[[str], bool] = lambda name: False,
) -> dict[str, Tensor]:
    """Reads the tensors of a model folder under our names, file by file and directly to their device.

    Args:
        folder: The folder with safetensors files.
        sources: The stored name for each of our names.
        device: The device to read to.
        dtype: The type for floating-point tensors; by default as stored.
        ignored: Tells whether a stored tensor that is not among `sources` may be ignored.

    Raises:
        ValueError: A name is missing or unexpected; the message names it.
    """
    stored = stored_names(folder)
    check_names(folder, set(sources.values()), {name for name in stored if not ignored(name)})
    ours = {source: name for name, source in sources.items()}
    tensors: dict[str, Tensor] = {}
    for file in sorted(set(stored.values())):
        with safe_open(file, "pt", device=device) as weights:
            for source in weights.keys():  # noqa: SIM118  it is not a mapping
                if source in ours:
                    tensor = weights.get_tensor(source)
                    cast = dtype if tensor.is_floating_point() else None
                    tensors[ours[source]] = tensor.to(cast or tensor.dtype)
    return tensors


@contextmanager
def without_memory() -> Iterator[None]:
    """Creates tensors on the meta device in this context: they have shapes but no values."""
    with torch.device("meta"), _Undrawn():
        yield


class _Undrawn(TorchFunctionMode):
    """Draws no values of a normal distribution, for which the meta device would import PyTorch's compiler (2 s)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Returns the tensor that `nn.init.normal_` would fill; calls everything else."""
        return kwargs["tensor"] if func is nn.init.normal_ else func(*args, **(kwargs or {}))


def check_names(where: Path, expected: set[str], found: set[str]) -> None:
    """Checks the names of stored tensors.

    Raises:
        ValueError: A name is missing or unexpected.
    """
    problems = {"missing": expected - found, "unexpected": found - expected}
    if said := [f"{what}: {some(names)}" for what, names in problems.items() if names]:
        raise ValueError(f"{where}: the weights do not match the settings; {'; '.join(said)}")


def check_shapes(where: Path, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Checks that tensors have the expected shapes.

    Raises:
        ValueError: A tensor has another shape; the message names it.
    """
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            shapes = f"expected {list(expected[name].shape)}, got {list(tensor.shape)}"
            raise ValueError(f"{where}: {name}: {shapes}; the weights do not match the settings")


def some(names: Iterable[str]) -> str:
    """Lists the first few names and the number of those left out."""
    listed = sorted(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
