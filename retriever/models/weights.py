"""Reads the stored tensors of a model folder by name, once they are known to fit the model."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from retriever.files import read_object
from retriever.models.tensor_names import INDEX_NAME, check_weights, wrapper_of

WEIGHTS_NAME = "model.safetensors"


class StoredTensor(NamedTuple):
    """A tensor of a file: its name there, its shape, and its type as safetensors call it."""

    file: Path
    name: str
    shape: list[int]
    dtype: str


def weight_files(folder: Path) -> list[Path]:
    """Returns the safetensors files of a model folder: `model.safetensors`, else those of its index, else all.

    A file itself is all there is. An index beside `model.safetensors` is left from earlier weights, as in transformers.

    Raises:
        ValueError: There are none, or one that the index names is missing.
    """
    index = folder / INDEX_NAME
    single = folder if folder.is_file() else folder / WEIGHTS_NAME
    if single.is_file():
        files = [single]
    elif index.is_file():
        weight_map: dict[str, str] = read_object(index)["weight_map"]
        files = [folder / name for name in sorted(set(weight_map.values()))]
    else:
        files = sorted(folder.glob("*.safetensors"))
    for file in files:
        if not file.is_file():
            raise ValueError(f"{file}: not found, but {INDEX_NAME} names it; download it again")
    if not files:
        raise ValueError(
            f"{folder}: has no .safetensors file; `omgm import encoder` and `omgm import reranker` convert PyTorch "
            "checkpoints"
        )
    return files


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Returns the tensors in a model folder by name, without the prefix of a wrapper, file by file.

    Raises:
        ValueError: There are no weights, or a file is damaged or, though the index names it, missing.
    """
    tensors: dict[str, StoredTensor] = {}
    for file in weight_files(folder):
        try:
            with safe_open(file, "pt") as weights:
                for name in weights.keys():  # noqa: SIM118  it is not a mapping
                    part = weights.get_slice(name)
                    tensors[name] = StoredTensor(file, name, part.get_shape(), part.get_dtype())
        except SafetensorError as error:
            raise ValueError(f"{file}: a file is damaged ({error}); fetch or train it again") from error
    prefix = wrapper_of(tensors)
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}


def read_tensors(
    stored: Mapping[str, StoredTensor], names: Container[str], device: str = "cpu"
) -> Iterator[tuple[str, Tensor]]:
    """Yields those stored tensors that are among `names`, file by file and directly to their device."""
    for file, tensors in groupby(stored.items(), lambda entry: entry[1].file):
        with safe_open(file, "pt", device=device) as weights:
            for name, tensor in tensors:
                if name in names:
                    yield name, weights.get_tensor(tensor.name)


def read_weights(
    folder: Path,
    expected: Mapping[str, Tensor],
    source_of: Callable[[str], str] = str,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
    ignored: Callable[[str], bool] = lambda name: False,
) -> dict[str, Tensor]:
    """Reads the tensors of a model folder under our names.

    Args:
        folder: The folder with safetensors files.
        expected: Tensors of the expected shapes by our names.
        source_of: Returns the stored name for one of our names.
        device: The device to read to.
        dtype: The type for floating-point tensors; by default as stored.
        ignored: Tells whether a stored tensor that is not expected may be ignored.

    Raises:
        ValueError: A tensor is missing, unexpected or has the wrong shape; the message names it.
    """
    stored = stored_tensors(folder)
    ours = {source_of(name): name for name in expected}
    shapes = {name: tensor.shape for name, tensor in stored.items() if name in ours or not ignored(name)}
    check_weights(folder, {source: expected[name].shape for source, name in ours.items()}, shapes)
    return {
        ours[source]: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for source, tensor in read_tensors(stored, ours, device)
    }


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
