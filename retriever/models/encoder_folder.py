"""The folder of a dual encoder; its files determine the kind of model: transformers, EVA-CLIP or open_clip."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import normalizers

from retriever.files import read_object
from retriever.models.eva_weights import load_eva_clip
from retriever.models.fp8 import check_fp8, use_fp8
from retriever.models.pixels import CONFIG_NAME as PIXELS_NAME
from retriever.models.pixels import PixelPreparation
from retriever.models.pretrained import check_whole, check_words, load_pretrained
from retriever.models.small_clip import SmallCLIP, SmallCLIPConfig
from retriever.models.text_tokenizer import load_tokenizer

_FIXED_LENGTH = {"siglip"}
"""Model types trained on lower-case texts padded to full length, whose padding is read like any other token."""
_UNSUITABLE = {
    "siglip2": "it reads images of any shape in patches; use a SigLIP 2 with a fixed image size",
    "qwen3_vl": 'its prompt is known to another kind; set encoder.kind = "qwen3_vl"',
}


class EncoderParts(NamedTuple):
    """The parts of an encoder folder, as `retriever.models.encoder.ClipEncoder` takes them.

    Attributes:
        model: Encodes images and texts.
        tokenizer: Tokenizes texts.
        pixels: Prepares images.
        max_tokens: Longest text, in tokens.
        fixed_length: Whether texts are padded to `max_tokens`.
    """

    model: Any
    tokenizer: Any
    pixels: PixelPreparation
    max_tokens: int
    fixed_length: bool = False


def load_parts(folder: Path, device: str, dtype: torch.dtype, fused: bool, fp8: bool = False) -> EncoderParts:
    """Loads the parts of the encoder in `folder`; see `ClipEncoder.load`.

    Raises:
        ValueError: The folder or one of its files is missing, the kind of model is unknown, or it or the device cannot
            use FP8.
    """
    check_whole(folder)
    config = read_config(folder)
    if _is_eva_clip(config):
        return _load_eva(folder, device, dtype, fp8)
    if fp8:
        raise ValueError(f"{folder}: only EVA-CLIP can use FP8; set encoder.fp8 = false")
    kind = config.get("model_type")
    if kind == SmallCLIPConfig.model_type:
        return _load_small(folder, device, dtype, fused)
    if kind is not None:
        return _load_clip(folder, kind, device, dtype)
    if not (folder / "open_clip_config.json").is_file():
        raise ValueError(f"{folder}: has neither a config.json with a model_type nor an open_clip_config.json")
    from retriever.models.open_clip import load_open_clip

    return EncoderParts(*load_open_clip(folder, device, dtype), fixed_length=True)


def _load_eva(folder: Path, device: str, dtype: torch.dtype, fp8: bool) -> EncoderParts:
    from transformers import CLIPTokenizer  # only here, because the embedded profile does without

    if fp8:
        try:
            check_fp8(device, dtype)
        except ValueError as error:
            raise ValueError(f"{error}, or set encoder.fp8 = false") from error
        model = load_eva_clip(folder, "cpu", dtype)  # so that the device only ever holds the rounded weights
        use_fp8(model.vision.blocks, device)
        model.to(device)
    else:
        model = load_eva_clip(folder, device, dtype)
    # The published folder has no preprocessor_config.json; its documentation says to use CLIP's.
    given = (folder / PIXELS_NAME).is_file()
    pixels = PixelPreparation.load(folder) if given else PixelPreparation(model.config.image_size, crop=True)
    tokenizer = _tokenizer(folder, CLIPTokenizer.from_pretrained, model.config.vocab_size)
    return EncoderParts(model, tokenizer, pixels, model.config.context_length)


def _load_small(folder: Path, device: str, dtype: torch.dtype, fused: bool) -> EncoderParts:
    """Loads this project's own model."""
    model = SmallCLIP.load(folder)
    if fused:
        model.vision_model.fuse(device, dtype)
    _move(model, device, dtype)
    pixels = PixelPreparation.load(folder)
    return EncoderParts(
        model, _tokenizer(folder, load_tokenizer, model.config.vocab_size), pixels, model.config.max_text_tokens
    )


def _load_clip(folder: Path, kind: str, device: str, dtype: torch.dtype) -> EncoderParts:
    """Loads a transformers model."""
    from transformers import AutoModel, AutoTokenizer  # only here, because the embedded profile does without

    path = folder / "config.json"
    if kind in _UNSUITABLE:
        raise ValueError(f"{path}: model_type: {kind}: {_UNSUITABLE[kind]}")
    model = load_pretrained(AutoModel, folder, dtype)
    if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
        raise ValueError(f"{path}: model_type: {kind} does not embed images and texts in one space")
    text_config = model.config.get_text_config()
    max_tokens = text_config.max_position_embeddings
    _move(model, device, dtype)
    tokenizer = _tokenizer(folder, AutoTokenizer.from_pretrained, text_config.vocab_size)
    if kind in _FIXED_LENGTH and (backend := getattr(tokenizer, "backend_tokenizer", None)) is not None:
        # SigLIP 2's folders name Gemma's tokenizer, which leaves this to its caller.
        own = [] if backend.normalizer is None else [backend.normalizer]
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
    return EncoderParts(model, tokenizer, PixelPreparation.load(folder), max_tokens, kind in _FIXED_LENGTH)


def _move(model: Any, device: str, dtype: torch.dtype) -> None:
    """Moves a model; its convolutions would otherwise copy their weights in each call."""
    model.to(device=device, dtype=dtype, memory_format=torch.channels_last)


def read_config(folder: Path) -> dict[str, Any]:
    """Returns the `config.json` of a folder, or an empty dictionary if there is none.

    Raises:
        ValueError: The file is not a JSON object.
    """
    path = folder / "config.json"
    return read_object(path) if path.is_file() else {}


def _is_eva_clip(config: dict[str, Any]) -> bool:
    """Tells whether a `config.json` is EVA-CLIP's: from EVA's repository, or from the hub, where its type is CLIP."""
    named = [config.get("model_type"), *(config.get("architectures") or []), *(config.get("auto_map") or {}).values()]
    return "vision_cfg" in config or any("evaclip" in str(name).lower().replace("_", "") for name in named)


def _tokenizer(folder: Path, load: Callable[[Path], Any], rows: int) -> Any:
    """Loads a tokenizer whose tokens all have one of so many rows in the model's embedding."""
    if not any(
        (folder / name).is_file() for name in ("tokenizer.json", "vocab.json", "spiece.model", "tokenizer.model")
    ):
        raise ValueError(f"{folder}: has no tokenizer; copy the model's tokenizer files there (tokenizer.json)")
    try:
        tokenizer = load(folder)
    except ImportError as error:
        advice = "for sentencepiece or protobuf, pip install 'omgm[sentencepiece]'"
        raise ValueError(f"{folder}: its tokenizer needs a package that is not installed; {advice}: {error}") from error
    check_words(folder, tokenizer, rows)
    return tokenizer
