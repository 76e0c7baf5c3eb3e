"""Loads models of transformers with all of their weights; transformers would draw those that are missing."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from retriever.models.padding import prepare_transformers
from retriever.models.tensor_names import check_weights, is_harmless, some
from retriever.models.weights import stored_tensors

logger = logging.getLogger(__name__)

ADAPTER_CONFIG = "adapter_config.json"
_MOST_SPARE = 0.1
"""Largest share of rows without a token, beyond which a tokenizer is probably another model's; padding takes 2 %."""


def load_pretrained(kind: Any, folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    """Loads a model from safetensors, to the CPU; no code in its folder is run.

    Heads of other tasks, which published weights have beside the model, are left out with a warning.

    Args:
        kind: The class of transformers to load it with, such as `AutoModel`.
        folder: The model's folder.
        dtype: Type of the weights.

    Raises:
        ValueError: The folder has an adapter, no weights or quantized ones that need another library, or a tensor is
            missing, unexpected or has another shape.
    """
    check_whole(folder)
    prepare_transformers()
    prefix = next((tensor.name.removesuffix(name) for name, tensor in stored_tensors(folder).items()), "")
    with without_warnings("transformers.modeling_utils"):  # a table of what `check_weights` says in a sentence
        try:
            model, report = kind.from_pretrained(
                folder,
                dtype=dtype,
                use_safetensors=True,
                trust_remote_code=False,
                key_mapping={f"^{re.escape(prefix)}": ""} if prefix else None,
                ignore_mismatched_sizes=True,  # so that they are reported, too
                output_loading_info=True,
            )
        except (OSError, ImportError) as error:
            raise ValueError(f"{folder}: {error}") from error
    differing = report["mismatched_keys"]
    expected = dict.fromkeys(report["missing_keys"], ()) | {name: shape for name, _, shape in differing}
    # A part of the model itself must not be left out, such as a layer that its configuration does not count.
    paths = [name.split(".") for name in model.state_dict()]
    parts = {path[0] for path in paths} | {path[1] for path in paths if path[0] == model.base_model_prefix}
    parts.add(model.base_model_prefix)
    heads = {name for name in report["unexpected_keys"] if name.partition(".")[0] not in parts}
    if unused := {name for name in heads if not is_harmless(name)}:
        logger.warning("%s: not used, as the model has no such part: %s", folder, some(unused))
    stored = dict.fromkeys(report["unexpected_keys"] - heads, ()) | {name: shape for name, shape, _ in differing}
    check_weights(folder, expected, stored)
    return model


def check_whole(folder: Path) -> None:
    """Checks that a folder is not that of an adapter, which transformers would load with whatever base it names.

    Raises:
        ValueError: It is.
    """
    if (folder / ADAPTER_CONFIG).is_file():
        raise ValueError(
            f"{folder / ADAPTER_CONFIG}: this folder has an adapter, not a whole model; merge it into its base model "
            "(merge_and_unload of peft), and name the folder of the result"
        )


@contextmanager
def without_warnings(name: str | None) -> Iterator[None]:
    """Leaves out the warnings of a library's logger, `None` for the root, in this context."""
    reporter = logging.getLogger(name)

    def severe(record: logging.LogRecord) -> bool:
        return record.levelno > logging.WARNING

    reporter.addFilter(severe)  # not a level, which makes transformers check and report more
    try:
        yield
    finally:
        reporter.removeFilter(severe)


def check_words(folder: Path, tokenizer: Any, rows: int) -> None:
    """Checks that a model has an embedding for each token of its tokenizer.

    Args:
        folder: The model's folder.
        tokenizer: Any tokenizer with a `get_vocab` method.
        rows: Number of rows of the model's embedding of tokens.

    Raises:
        ValueError: A token has no row.
    """
    vocabulary = tokenizer.get_vocab()
    last = max(vocabulary, key=vocabulary.__getitem__)
    if vocabulary[last] >= rows:
        raise ValueError(
            f"{folder}: its tokenizer has {last!r} as token {vocabulary[last]}, but its embedding ends at {rows - 1}; "
            "copy the tokenizer that was saved with the weights, or resize the embedding (resize_token_embeddings), "
            "train it and save the model again"
        )
    if len(vocabulary) < (1 - _MOST_SPARE) * rows:
        logger.warning(
            "%s: its tokenizer has %d tokens, its embedding %d rows; is it another model's tokenizer?",
            folder,
            len(vocabulary),
            rows,
        )
