"""The files of a model folder: which of them make up the model, which are published, and their fingerprint."""

from __future__ import annotations

import hashlib
import math
import re
from pathlib import Path
from typing import Literal

import torch

from retriever.files import read_object
from retriever.models import blip2
from retriever.models.small_clip import SmallCLIPConfig
from retriever.models.weights import read_tensors, stored_tensors

RECORD_NAME = "training.json"
"""The record of a model's training. It is not part of the model, so no fingerprint covers it."""

Kind = Literal["encoder", "reranker", "sections"]
"""Step 1's dual encoder, step 2's fusion encoder, or what changes step 3's encoder of questions."""

_PUBLISHED = re.compile(
    r"config\.json|open_clip_config\.json|(pre)?processor_config\.json|generation_config\.json"
    r"|tokenizer(_config)?\.json|special_tokens_map\.json|added_tokens\.json|vocab\.(json|txt)|merges\.txt"
    r"|(spiece|tokenizer)\.model|chat_template\.jinja"
    r"|(open_clip_)?model(-\d{5}-of-\d{5})?\.safetensors|(open_clip_)?model\.safetensors\.index\.json"
    rf"|{re.escape(RECORD_NAME)}|LICENSE(\.txt|\.md)?"
)
_BLOB = re.compile("[0-9a-f]{64}")
_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def folder_fingerprint(folder: Path) -> str:
    """Hashes a model folder's weights, tokenizer and settings to 16 hexadecimal digits.

    Raises:
        ValueError: The folder has no safetensors file.
    """
    files = [path for path in _decisive(folder) if path.name != RECORD_NAME]
    if not any(p.suffix == ".safetensors" for p in files):
        raise ValueError(f"{folder}: has no .safetensors file; is it a model folder?")
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode())
        digest.update(_sha256(path))
    return digest.hexdigest()[:16]


def is_published(name: str) -> bool:
    """Tells whether a file with this name is published with a model; the card is handled separately."""
    return _PUBLISHED.fullmatch(name) is not None


def published_files(folder: Path) -> list[Path]:
    """Returns the files of a model folder that are published; curves, pickles and subfolders are not.

    Raises:
        ValueError: The folder has no weights, or its fingerprint covers a file that is not part of a model.
    """
    folder_fingerprint(folder)
    strange = [path.name for path in _decisive(folder) if not is_published(path.name)]
    if strange:
        raise ValueError(
            f"{folder}: {', '.join(strange)}: not part of a model, but included in the folder's fingerprint; move it "
            "to another folder"
        )
    return sorted(path for path in folder.iterdir() if path.is_file() and is_published(path.name))


def kind_of(folder: Path) -> Kind:
    """Returns the kind of model in a folder.

    Raises:
        ValueError: The folder has no configuration of any kind.
    """
    path = folder / "config.json"
    if not path.is_file():
        if (folder / "open_clip_config.json").is_file():
            return "encoder"
        raise ValueError(f"{folder}: has no config.json; is it a model folder?")
    config = read_object(path)
    kind = config.get("model_type")
    if "base_model" in config and kind is None:  # an encoder may name one, too, beside its own type
        return "sections"
    if "qformer" in config or kind == blip2.MODEL_TYPE:
        return "reranker"
    if kind == SmallCLIPConfig.model_type or {"vision_config", "vision_cfg"} & config.keys():
        return "encoder"
    raise ValueError(
        f"{path}: model_type: {kind!r} is neither a dual encoder nor a Q-Former, and there is no base_model; name "
        "another folder"
    )


def stored_dtype(folder: Path) -> torch.dtype:
    """Returns the dtype of the matrices in a model folder, float32 if there are none."""
    dtypes = [part.dtype for part in stored_tensors(folder).values() if len(part.shape) > 1]
    return next((_DTYPES[dtype] for dtype in dtypes if dtype in _DTYPES), torch.float32)


def count_parameters(folder: Path) -> int:
    """Returns the number of weights in a model folder, from the headers of its files."""
    return sum(math.prod(part.shape) for part in stored_tensors(folder).values())


def same_weights(folder: Path, other: Path) -> bool:
    """Tells whether every tensor of `folder` is also in `other`, with the same dtype and values."""
    tensors, others = stored_tensors(folder), stored_tensors(other)
    if not others.keys() >= tensors.keys():
        return False
    for name, tensor in read_tensors(tensors, tensors):
        [(_, other_tensor)] = read_tensors({name: others[name]}, {name})
        if tensor.dtype != other_tensor.dtype or not torch.equal(tensor, other_tensor):
            return False
    return True


def _decisive(folder: Path) -> list[Path]:
    """Returns the files that a fingerprint covers, and the training record; of a tokenizer, those that are read."""
    words = () if (folder / "tokenizer.json").is_file() else ("vocab.txt", "merges.txt", "*.model")
    patterns = ("*.safetensors", "*.json", "*.jinja", *words)
    return sorted(path for pattern in patterns for path in folder.glob(pattern))


def _sha256(path: Path) -> bytes:
    if path.is_symlink() and _BLOB.fullmatch(path.resolve().name):
        return bytes.fromhex(path.resolve().name)  # the hub cache names large files by their hash
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
