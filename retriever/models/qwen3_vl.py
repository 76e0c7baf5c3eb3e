"""Step 1's encoder Qwen3-VL-Embedding: a multimodal language model whose last token stands for an image or a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from retriever.files import read_object
from retriever.gpu import to_device
from retriever.image_cache import ImageCache
from retriever.images import prepare_image
from retriever.models.folder import folder_fingerprint
from retriever.models.padding import known_padding
from retriever.models.pixels import CONFIG_NAME
from retriever.models.pretrained import check_words, load_pretrained
from retriever.models.text_tokenizer import padded
from retriever.texts import by_length

INSTRUCTION = "Represent the user's input."
BEFORE = f"<|im_start|>system\n{INSTRUCTION}<|im_end|>\n<|im_start|>user\n"
AFTER = "<|im_end|>\n<|im_start|>assistant\n"
MAX_TOKENS = 8192
"""Longest text in tokens, with what is before and after it; the rest is cut."""
MIN_PIXELS, MAX_PIXELS = 4 * 32 * 32, 1800 * 32 * 32
MAX_RATIO = 200
"""Highest aspect ratio that is kept; for higher ones, the publisher's class encodes the word NULL."""
BATCH_TOKENS = 8192
"""Most tokens in a forward pass, padding included."""


@dataclass(frozen=True, slots=True)
class Patches:
    """Turns images into patches of a Qwen3-VL.

    Attributes:
        size: Height and width of a patch in pixels.
        merged: How many patches in each direction become one token.
        frames: How often each patch is repeated, as if an image were a video.
        mean: Per-channel mean to subtract, of values in 0..1.
        std: Per-channel standard deviation to divide by.
    """

    size: int
    merged: int
    frames: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @classmethod
    def load(cls, folder: Path) -> Patches:
        """Reads `preprocessor_config.json`.

        Raises:
            ValueError: The file or one of its fields is missing.
        """
        path = folder / CONFIG_NAME
        if not path.is_file():
            raise ValueError(f"{path}: not found; a model folder needs its {CONFIG_NAME}")
        config = read_object(path)
        try:
            size, merged, frames = (int(config[name]) for name in ("patch_size", "merge_size", "temporal_patch_size"))
            return cls(size, merged, frames, tuple(config["image_mean"]), tuple(config["image_std"]))
        except KeyError as error:
            raise ValueError(f"{path}: has no {error}; is it the file of a Qwen3-VL?") from error

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """Returns the rows and columns of patches of an image: about its own size, within the budget of pixels."""
        cell = self.size * self.merged
        width, height = min(width, MAX_RATIO * height), min(height, MAX_RATIO * width)
        sides = [max(cell, round(side / cell) * cell) for side in (height, width)]
        for budget, rounded, is_outside in (
            (MAX_PIXELS, math.floor, math.prod(sides) > MAX_PIXELS),
            (MIN_PIXELS, math.ceil, math.prod(sides) < MIN_PIXELS),
        ):
            if is_outside:
                scale = math.sqrt(height * width / budget)
                sides = [max(cell, rounded(side / scale / cell) * cell) for side in (height, width)]
                break
        return sides[0] // self.size, sides[1] // self.size

    def __call__(self, image: Image.Image, device: torch.device) -> tuple[Tensor, tuple[int, int]]:
        """Returns patches, float32 [rows * columns, 3 * frames * size * size], and their rows and columns."""
        image = prepare_image(image)
        rows, columns = self.grid(*image.size)
        resized = image.resize((columns * self.size, rows * self.size), Image.Resampling.BICUBIC)
        pixels = to_device(torch.from_numpy(np.array(resized)), device).float() / 255
        mean, std = (torch.tensor(values, device=device) for values in (self.mean, self.std))
        blocks = ((pixels - mean) / std).view(
            rows // self.merged, self.merged, self.size, columns // self.merged, self.merged, self.size, 3
        )
        ordered = blocks.permute(0, 3, 1, 4, 6, 2, 5)[:, :, :, :, :, None]
        return ordered.expand(-1, -1, -1, -1, -1, self.frames, -1, -1).reshape(rows * columns, -1), (rows, columns)


class Qwen3VLEncoder:
    """Encodes images and texts with the prompt of the publisher (implements `retriever.protocols.DualEncoder`).

    Args:
        model: A `Qwen3VLModel`.
        tokenizer: Its tokenizer.
        patches: Prepares images.
        fingerprint: Hash of its folder.

    Attributes:
        cache: Caches the vectors of images, if set.
    """

    def __init__(self, model: Any, tokenizer: Any, patches: Patches, fingerprint: str) -> None:
        self.model, self.tokenizer, self.patches = model.eval(), tokenizer, patches
        self.fingerprint = qwen3_vl_fingerprint(fingerprint)
        self.dimension: int = model.config.text_config.hidden_size
        self.cache: ImageCache | None = None
        self._before, self._after = (
            tokenizer(text, add_special_tokens=False)["input_ids"]
            for text in (f"{BEFORE}<|vision_start|>", f"<|vision_end|>{AFTER}")
        )

    @classmethod
    def load(cls, folder: Path, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Qwen3VLEncoder:
        """Loads the model in a folder.

        Raises:
            ValueError: A file is missing, the weights do not match, or it is another kind of model.
        """
        from transformers import AutoModel, AutoTokenizer  # only for profiles that name one

        kind = read_object(folder / "config.json").get("model_type")
        if kind != "qwen3_vl":
            raise ValueError(f'{folder}: config.json: model_type: must be "qwen3_vl", got {kind!r}')
        patches = Patches.load(folder)
        model = load_pretrained(AutoModel, folder, dtype)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        check_words(folder, tokenizer, model.config.text_config.vocab_size)
        return cls(model.to(device), tokenizer, patches, folder_fingerprint(folder))

    def encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        """Encodes images as L2-normalized vectors, float32 [N, dimension], on the model's device."""
        return self.cache.rows("step1", images, self._images) if self.cache and images else self._images(images)

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Encodes texts as L2-normalized vectors, float32 [N, dimension], on the model's device."""
        prompts = [f"{BEFORE}{text}{AFTER}" for text in texts]
        cut = {"truncation": True, "max_length": MAX_TOKENS, "add_special_tokens": False}
        ids = self.tokenizer(prompts, **cut)["input_ids"] if prompts else []
        return self._encode(ids, lambda rows, length: {})

    def _images(self, images: Sequence[Image.Image]) -> Tensor:
        grids = [self.patches.grid(*prepare_image(image).size) for image in images]
        counts = [rows * columns // self.patches.merged**2 for rows, columns in grids]
        token = self.model.config.image_token_id
        ids = [[*self._before, *[token] * count, *self._after] for count in counts]

        def more(rows: Sequence[int], length: int) -> dict[str, Tensor]:
            found = [self.patches(images[row], self.model.device) for row in rows]
            start = torch.arange(length) - len(self._before)
            kinds = (start >= 0) & (start < torch.tensor([[counts[row]] for row in rows]))
            return {
                "pixel_values": torch.cat([patches for patches, _ in found]).to(self.model.dtype),
                "image_grid_thw": to_device(torch.tensor([(1, *grid) for _, grid in found]), self.model.device),
                "mm_token_type_ids": to_device(kinds.int(), self.model.device),
            }

        return self._encode(ids, more)

    @torch.inference_mode()
    def _encode(
        self, texts: Sequence[Sequence[int]], more: Callable[[Sequence[int], int], dict[str, Tensor]]
    ) -> Tensor:
        """Encodes token ids, with what the model needs beside those in a batch: of which texts, and of what length."""
        device = self.model.device
        vectors = torch.empty(len(texts), self.dimension, device=device)
        for rows in by_length([len(text) for text in texts], BATCH_TOKENS):
            ids, mask = padded([texts[row] for row in rows], self.tokenizer.pad_token_id)
            shown = {"input_ids": to_device(ids, device), "attention_mask": to_device(mask, device)}
            with known_padding(len(texts[rows[0]]) < len(texts[rows[-1]])):
                hidden = self.model(**shown, **more(rows, ids.shape[1]), use_cache=False).last_hidden_state
            last = hidden[torch.arange(len(rows), device=device), shown["attention_mask"].sum(1) - 1]
            vectors[torch.tensor(rows, device=device)] = functional.normalize(last.float(), dim=-1)
        return vectors


def qwen3_vl_fingerprint(folder: str) -> str:
    """Returns the fingerprint of an encoder, whose vectors depend on a prompt and a budget of pixels, too."""
    return f"{folder}-chat{MAX_PIXELS}"
