"""The names of stored tensors, and the check that all loaders share: a model has all of its weights, and no others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

INDEX_NAME = "model.safetensors.index.json"
_SHOWN = 8
_WRAPPERS = ("module.", "_orig_mod.")  # of DistributedDataParallel and of torch.compile, before all names

HARMLESS = {
    r"(^|\.)position_ids$": "0, 1, 2, ..., which earlier releases of transformers stored",
    r"(^|\.)pooler\.": "of BERT's pretraining, stored with encoders that do not use it",
    "^logit_(scale|bias)$": "the temperature and bias of a training, stored with encoders that do not use them",
}
"""Patterns of the names of stored tensors that a model may do without, and why; one that needs them asks for them."""
FIX = "save the whole model again, or use the config.json that belongs to these weights"


def wrapper_of(names: Collection[str]) -> str:
    """Returns the prefix that wrappers of a model gave all of its tensors, such as `module.`, or an empty string."""
    prefix = ""
    while names and (more := [end for end in _WRAPPERS if all(name.startswith(prefix + end) for name in names)]):
        prefix += more[0]
    return prefix


def check_weights(
    where: Path, expected: Mapping[str, Sequence[int]], stored: Mapping[str, Sequence[int]], *, fix: str = FIX
) -> None:
    """Compares stored tensors with those that a model's settings ask for, by name and shape.

    Args:
        where: The folder or file with the tensors.
        expected: The shapes that the settings ask for, by name.
        stored: The stored shapes by name; more names are an error unless they are `HARMLESS`.
        fix: What to do about a difference.

    Raises:
        ValueError: A tensor is missing, unexpected or has another shape; the message names it.
    """
    problems = {
        "missing": expected.keys() - stored.keys(),
        "unexpected": {name for name in stored.keys() - expected.keys() if not is_harmless(name)},
        "of another shape": [
            f"{name}: expected {list(shape)}, got {list(stored[name])}"
            for name, shape in expected.items()
            if name in stored and list(stored[name]) != list(shape)
        ],
    }
    if said := [f"{what}: {some(names)}" for what, names in problems.items() if names]:
        raise ValueError(f"{where}: the weights do not match the settings; {'; '.join(said)}; {fix}")


def is_harmless(name: str) -> bool:
    """Tells whether any model may do without a stored tensor."""
    return re.search("|".join(HARMLESS), name) is not None


def some(names: Iterable[str]) -> str:
    """Lists the first few names and the number of those left out."""
    listed = sorted(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
