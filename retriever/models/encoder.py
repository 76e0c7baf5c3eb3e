"""Step 1's dual encoder: any CLIP-type model that transformers can load from a folder or by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from retriever.models import small_clip  # noqa: F401  registers the embedded profile's model type
from retriever.models.pixels import PixelPreparation

Item = TypeVar("Item")


def folder_fingerprint(folder: Path) -> str:
    """Returns a hash of a model folder's weights, tokenizer and settings (16 hex digits).

    Raises:
        ValueError: The folder holds no safetensors file.
    """
    files = sorted(p for pattern in ("*.safetensors", "*.json") for p in folder.glob(pattern))
    if not any(p.suffix == ".safetensors" for p in files):
        raise ValueError(f"{folder}: holds no .safetensors file; is it a model folder?")
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


class ClipEncoder:
    """Image and text vectors from a CLIP-type model (fulfils `retriever.protocols.DualEncoder`).

    Args:
        model: Has `get_image_features(pixel_values)` and `get_text_features(input_ids, attention_mask)`.
        tokenizer: The model's.
        pixels: How pictures are prepared.
        max_tokens: Longest text; the rest is cut.
        fingerprint: Hash of all of it.
        batch_size: Items a forward pass.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        pixels: PixelPreparation,
        max_tokens: int,
        fingerprint: str,
        batch_size: int = 64,
    ):
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.pixels = pixels
        self.max_tokens = max_tokens
        self.fingerprint = fingerprint
        self.batch_size = batch_size

    @classmethod
    def load(cls, folder: Path, device: str = "cpu", batch_size: int = 64) -> ClipEncoder:
        """Returns the encoder kept in `folder` (config, safetensors, tokenizer, preprocessor_config.json).

        Raises:
            ValueError: The folder or one of its files is missing.
        """
        fingerprint = folder_fingerprint(folder)
        model = AutoModel.from_pretrained(folder, dtype=torch.float32).to(device)
        text_config = getattr(model.config, "text_config", None)
        max_tokens = getattr(text_config, "max_position_embeddings", None) or model.config.max_text_tokens
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return cls(model, tokenizer, PixelPreparation.load(folder), max_tokens, fingerprint, batch_size)

    def save(self, folder: Path, dtype: torch.dtype = torch.float32) -> None:
        """Writes the folder that `load` reads, with weights of `dtype`."""
        state = self.model.state_dict()
        weights = {key: (v.to(dtype) if v.is_floating_point() else v).contiguous() for key, v in state.items()}
        self.model.save_pretrained(folder, state_dict=weights)
        self.tokenizer.save_pretrained(folder)
        self.pixels.save(folder)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.model.config.projection_dim)

    def tokenize(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """Returns `input_ids` and `attention_mask`, int64 [N, T], padded to the longest and cut at `max_tokens`."""
        encoded = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.max_tokens, return_tensors="pt"
        )
        device = self.model.device
        return {key: encoded[key].to(device) for key in ("input_ids", "attention_mask")}

    @torch.inference_mode()
    def encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        """Returns L2-normalized vectors, float32 [N, dimension], on the model's device."""
        device = self.model.device
        return self._batched(images, lambda part: self.model.get_image_features(self.pixels(part).to(device)))

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Returns L2-normalized vectors, float32 [N, dimension], on the model's device."""
        return self._batched(texts, lambda part: self.model.get_text_features(**self.tokenize(part)))

    def _batched(self, items: Sequence[Item], forward: Callable[[Sequence[Item]], Any]) -> Tensor:
        parts = [torch.empty(0, self.dimension, device=self.model.device)]
        for start in range(0, len(items), self.batch_size):
            features = forward(items[start : start + self.batch_size])
            # transformers 5 wraps the vectors of its own CLIP models in an output object.
            features = getattr(features, "pooler_output", features)
            parts.append(functional.normalize(features.float(), dim=-1))
        return torch.cat(parts)
