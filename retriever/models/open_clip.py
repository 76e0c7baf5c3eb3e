"""Adapts open_clip models (EVA02-CLIP and hundreds more) to `retriever.models.encoder`.

Their folder layout is open_clip's own: `open_clip_config.json` and `open_clip_model.safetensors`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from retriever.images import prepare_image
from retriever.models.padding import prepare_transformers
from retriever.models.pixels import PixelPreparation
from retriever.models.pretrained import without_warnings
from retriever.models.tensor_names import check_weights, is_harmless
from retriever.models.weights import read_tensors, stored_tensors

CONFIG_NAME = "open_clip_config.json"
WEIGHTS_NAMES = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors")
_PRECISION = {torch.float32: "fp32", torch.bfloat16: "pure_bf16", torch.float16: "pure_fp16"}


class OpenClip(nn.Module):
    """An open_clip model with the method names of transformers.

    Args:
        model: Has `encode_image` and `encode_text`.
        dimension: Length of a vector.
    """

    def __init__(self, model: nn.Module, dimension: int):
        super().__init__()
        self.model: Any = model
        self.config = SimpleNamespace(model_type="open_clip", projection_dim=dimension)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The data type of the weights."""
        return next(self.parameters()).dtype

    def get_image_features(self, pixel_values: Tensor) -> Tensor:
        """Encodes prepared pixels [B, 3, size, size] as vectors [B, D], not normalized."""
        features: Tensor = self.model.encode_image(pixel_values)
        return features

    def get_text_features(self, input_ids: Tensor) -> Tensor:
        """Encodes token ids [B, context length], padded as open_clip does, as vectors [B, D], not normalized."""
        features: Tensor = self.model.encode_text(input_ids)
        return features


class OpenClipTokenizer:
    """An open_clip tokenizer with the call signature of transformers.

    Args:
        tokenizer: A `SimpleTokenizer` or `HFTokenizer` of open_clip.
    """

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self.pad_token_id = 0

    def __call__(self, texts: Sequence[str], truncation: bool, max_length: int) -> dict[str, list[list[int]]]:
        """Tokenizes texts to `input_ids`, [N][max_length], cut and padded as open_clip does."""
        return {"input_ids": self._tokenizer(list(texts), context_length=max_length).tolist()}

    def windows(self, text: str, max_length: int) -> list[list[int]]:
        """Cuts a text into pieces of at most `max_length` token ids each, at least one.

        Raises:
            ValueError: The tokenizer is from transformers or drops words, so it cannot cut pieces.
        """
        if getattr(self._tokenizer, "reduction_fn", True):
            raise ValueError('encoder.long_texts: this model\'s tokenizer does not support windows; set it to "cut"')
        first, last = self._tokenizer.sot_token_id, self._tokenizer.eot_token_id
        ids, room = self._tokenizer.encode(text), max_length - 2
        return [[first, *ids[start : start + room], last] for start in range(0, max(len(ids), 1), room)]


@dataclass(frozen=True, slots=True)
class OpenClipPixels(PixelPreparation):
    """Resizes images as open_clip does; `steps` are its image transforms."""

    steps: tuple[Callable[[Image.Image], Image.Image], ...] = ()

    def resize(self, image: Image.Image) -> Image.Image:
        """Resizes an image to RGB of `size` x `size`."""
        image = prepare_image(image)
        for step in self.steps:
            image = step(image)
        return image


def load_open_clip(
    folder: Path, device: str, dtype: torch.dtype
) -> tuple[OpenClip, OpenClipTokenizer, OpenClipPixels, int]:
    """Loads model, tokenizer, image preparation and the maximum text length in tokens.

    Raises:
        ValueError: open_clip is not installed, the weights are missing or do not match, or images are not square.
    """
    try:
        import open_clip
    except ImportError as error:
        raise ValueError(f"{folder}: an open_clip model, which needs: pip install 'omgm[openclip]'") from error
    prepare_transformers()  # text towers may be its models
    file = next((folder / name for name in WEIGHTS_NAMES if (folder / name).is_file()), None)
    if file is None:
        raise ValueError(
            f"{folder / WEIGHTS_NAMES[0]}: not found; convert another checkpoint (open_clip_pytorch_model.bin) with "
            "retriever.models.checkpoints.convert_checkpoint"
        )
    source = f"local-dir:{folder}"
    arguments: Any = {"device": device, "precision": _PRECISION[dtype], "load_weights": False, "pretrained_text": False}
    with without_warnings(None):  # that there are no weights yet
        model, _, transform = open_clip.create_model_and_transforms(source, **arguments)
    tensors = stored_tensors(file)
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    kept = (name for name in tensors if name in expected or not is_harmless(name))
    stored = {name: torch.Size(tensors[name].shape) for name in kept}
    if stored == expected:
        model.load_state_dict(dict(read_tensors(tensors, expected)))
    else:  # open_clip knows earlier names, but interpolates positions of another number
        both = {name for name in stored.keys() & expected.keys() if "logit" not in name}  # these it reshapes
        check_weights(file, {name: expected[name] for name in both}, {name: stored[name] for name in both})
        report = open_clip.load_checkpoint(model, str(file), strict=False)
        check_weights(file, dict.fromkeys(report.missing_keys, ()), dict.fromkeys(report.unexpected_keys, ()))
    tokenizer = open_clip.get_tokenizer(source)
    settings = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))["model_cfg"]
    prepared = model.visual.preprocess_cfg
    sides = {prepared["size"]} if isinstance(prepared["size"], int) else set(prepared["size"])
    if len(sides) != 1:
        raise ValueError(f"{folder / CONFIG_NAME}: size: expected square images, got {prepared['size']}")
    # Keep the transforms before the conversion to RGB and to a tensor, which `PixelPreparation` does.
    names = [type(step).__name__ for step in transform.transforms]
    steps = tuple(transform.transforms[: names.index("MaybeConvertMode")])
    mean, std = (tuple(prepared[name]) for name in ("mean", "std"))
    pixels = OpenClipPixels(sides.pop(), mean=mean, std=std, steps=steps)
    return OpenClip(model, settings["embed_dim"]), OpenClipTokenizer(tokenizer), pixels, tokenizer.context_length
