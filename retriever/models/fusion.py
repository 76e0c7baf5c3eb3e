"""Step 2's fusion encoder: BLIP-2's Q-Former reads a picture and a text into 32 token vectors (equation 3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoTokenizer, Blip2QFormerConfig, Blip2QFormerModel, PreTrainedTokenizerBase
from transformers.models.blip_2.modeling_blip_2 import Blip2TextEmbeddings

from retriever.models.encoder import folder_fingerprint
from retriever.models.pixels import PixelPreparation
from retriever.models.small_clip import SmallCLIPConfig, SmallVision

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.safetensors"
UNSAVED = "unsaved"

VISION_KINDS: dict[str, Callable[[dict[str, Any]], nn.Module]] = {
    "small_clip": lambda config: SmallVision(SmallCLIPConfig(**config)),
}
"""How the image tower of each kind is built from its settings; it gives `last_hidden_state` [B, cells, width]."""

_VISION_SETTINGS = ("image_size", "channels", "vision_heads")


class QFormerFusion(nn.Module):
    """Fused tokens of picture and text (fulfils `retriever.protocols.FusionEncoder`).

    Args:
        vision: The image tower; gives `last_hidden_state` [B, cells, width] of pixel values [B, 3, H, W].
        vision_settings: `{"kind", "config"}`, a key of `VISION_KINDS` and what it is built from.
        config: Sizes of the Q-Former.
        queries: Number of query tokens, and of fused tokens.
        tokenizer: Of the texts.
        pixels: How pictures are prepared.
        max_text_tokens: Longest text; the rest is cut.
        fingerprint: Hash of all of it.
        batch_size: Pairs a forward pass.
    """

    def __init__(
        self,
        vision: nn.Module,
        vision_settings: dict[str, Any],
        config: Blip2QFormerConfig,
        queries: int,
        tokenizer: PreTrainedTokenizerBase,
        pixels: PixelPreparation,
        max_text_tokens: int,
        fingerprint: str = UNSAVED,
        batch_size: int = 64,
    ):
        super().__init__()
        self.vision = vision
        self.vision_settings = vision_settings
        self.config = config
        self.tokenizer = tokenizer
        self.pixels = pixels
        self.max_text_tokens = max_text_tokens
        self.fingerprint = fingerprint
        self.batch_size = batch_size
        self.vision_norm = nn.LayerNorm(config.encoder_hidden_size)
        self.query_tokens = nn.Parameter(torch.randn(1, queries, config.hidden_size) * config.initializer_range)
        self.embeddings = Blip2TextEmbeddings(config)
        for table in (self.embeddings.word_embeddings, self.embeddings.position_embeddings):
            nn.init.normal_(table.weight, std=config.initializer_range)
        self.qformer = Blip2QFormerModel(config)
        self.eval()

    @classmethod
    def create(
        cls,
        vision: SmallVision,
        vision_config: SmallCLIPConfig,
        tokenizer: PreTrainedTokenizerBase,
        pixels: PixelPreparation,
        *,
        hidden_size: int = 128,
        layers: int = 3,
        heads: int = 4,
        queries: int = 32,
        max_text_tokens: int = 128,
    ) -> QFormerFusion:
        """Returns an untrained fusion encoder around `vision`, seeded by PyTorch's global generator."""
        config = Blip2QFormerConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden_size,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * hidden_size,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            max_position_embeddings=max_text_tokens,
            pad_token_id=tokenizer.pad_token_id,
            cross_attention_frequency=2,
            # BLIP-2 has 0.02 at width 768; at this width that would let hardly anything through to the tokens.
            initializer_range=0.6 * hidden_size**-0.5,
            encoder_hidden_size=vision_config.vision_width,
            use_qformer_text_input=True,
        )
        return cls(vision, _small_settings(vision_config), config, queries, tokenizer, pixels, max_text_tokens)

    @classmethod
    def load(cls, folder: Path, device: str = "cpu", batch_size: int = 64) -> QFormerFusion:
        """Returns the encoder kept in `folder`, in float32.

        Raises:
            ValueError: The folder or one of its files is missing, or they do not belong together.
        """
        fingerprint = folder_fingerprint(folder)
        path = folder / CONFIG_NAME
        if not path.is_file():
            raise ValueError(f"{path}: not found; a fusion model's folder needs it")
        settings = json.loads(path.read_text(encoding="utf-8"))
        kind = settings.get("vision", {}).get("kind")
        if kind not in VISION_KINDS:
            raise ValueError(f"{path}: vision.kind: {kind!r} is not known; known are {', '.join(VISION_KINDS)}")
        model = cls(
            VISION_KINDS[kind](settings["vision"]["config"]),
            settings["vision"],
            Blip2QFormerConfig(**settings["qformer"]),
            settings["queries"],
            AutoTokenizer.from_pretrained(folder),
            PixelPreparation.load(folder),
            settings["max_text_tokens"],
            fingerprint,
            batch_size,
        )
        try:
            model.load_state_dict(load_file(folder / WEIGHTS_NAME))
        except RuntimeError as error:
            raise ValueError(f"{folder / WEIGHTS_NAME}: does not fit {CONFIG_NAME}: {error}") from error
        return model.to(device)

    def save(self, folder: Path, dtype: torch.dtype = torch.float32) -> None:
        """Writes the folder that `load` reads; matrices are stored as `dtype`, vectors always as float32."""
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer.save_pretrained(folder)
        self.pixels.save(folder)
        config = {
            "qformer": self.config.to_diff_dict(),
            "vision": self.vision_settings,
            "queries": self.query_tokens.shape[1],
            "max_text_tokens": self.max_text_tokens,
        }
        (folder / CONFIG_NAME).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        tensors = {
            # Variances of batch norm may lie below float16's range.
            name: (tensor.to(dtype) if tensor.ndim > 1 else tensor).detach().cpu().contiguous().clone()
            for name, tensor in self.state_dict().items()
        }
        temporary = folder / (WEIGHTS_NAME + ".tmp")
        save_file(tensors, temporary)
        temporary.replace(folder / WEIGHTS_NAME)

    def use_vision(self, vision: SmallVision, vision_config: SmallCLIPConfig, pixels: PixelPreparation) -> None:
        """Replaces the image tower and its preparation; the Q-Former must then be trained for it.

        Raises:
            ValueError: The tower's vectors have another length.
        """
        if vision_config.vision_width != self.config.encoder_hidden_size:
            raise ValueError(
                f"image tower: the Q-Former reads vectors of length {self.config.encoder_hidden_size}, "
                f"this one gives {vision_config.vision_width}"
            )
        self.vision = vision.to(self.query_tokens.device).eval()
        self.vision_settings = _small_settings(vision_config)
        self.pixels = pixels

    @property
    def token_shape(self) -> tuple[int, int]:
        """Number of fused tokens and their length."""
        return self.query_tokens.shape[1], self.query_tokens.shape[2]

    def tokenize(self, texts: Sequence[str], max_tokens: int | None = None) -> tuple[Tensor, Tensor]:
        """Returns token ids and their mask, int64 [N, T], padded to the longest and cut at `max_tokens`."""
        limit = min(max_tokens or self.max_text_tokens, self.max_text_tokens)
        encoded = self.tokenizer(list(texts), padding=True, truncation=True, max_length=limit, return_tensors="pt")
        device = self.query_tokens.device
        return encoded["input_ids"].to(device), encoded["attention_mask"].to(device)

    def vision_features(self, pixels: Tensor) -> Tensor:
        """Returns the image tower's output, float [B, cells, width], of pixel values [B, 3, H, W]."""
        features: Tensor = self.vision(pixels).last_hidden_state
        return features

    def fuse_tokens(self, features: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Returns fused tokens [B, 32, H] of `vision_features` and texts (ids and mask [B, T])."""
        count = len(input_ids)
        queries = self.query_tokens.expand(count, -1, -1)
        joint = self.embeddings(input_ids=input_ids, query_embeds=queries)
        mask = torch.cat([attention_mask.new_ones(count, queries.shape[1]), attention_mask], dim=1)
        output = self.qformer(
            query_embeds=joint,
            query_length=queries.shape[1],
            attention_mask=mask,
            encoder_hidden_states=self.vision_norm(features),
        )
        fused: Tensor = output.last_hidden_state[:, : queries.shape[1]]
        return fused

    @torch.inference_mode()
    def encode(self, images: Sequence[Image.Image], texts: Sequence[str]) -> Tensor:
        """Returns fused tokens of (images[i], texts[i]), float32 [N, 32, H] on the model's device, not normalized.

        Raises:
            ValueError: There are not as many texts as images.
        """
        if len(images) != len(texts):
            raise ValueError(f"images and texts: expected as many of each, got {len(images)} and {len(texts)}")
        parts = [torch.empty(0, *self.token_shape, device=self.query_tokens.device)]
        for start in range(0, len(texts), self.batch_size):
            part = slice(start, start + self.batch_size)
            features = self.vision_features(self.pixels(images[part]).to(self.query_tokens.device))
            parts.append(self.fuse_tokens(features, *self.tokenize(texts[part])).float())
        return torch.cat(parts)

    @torch.inference_mode()
    def encode_sections(self, image: Image.Image, texts: Sequence[str]) -> Tensor:
        """Returns fused tokens of one image with each text, float32 [N, 32, H]; the image is encoded once.

        Texts of like length share a batch, so that little is spent on padding.
        """
        fused = torch.empty(len(texts), *self.token_shape, device=self.query_tokens.device)
        if not texts:
            return fused
        features = self.vision_features(self.pixels([image]).to(self.query_tokens.device))
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(order), self.batch_size):
            part = order[start : start + self.batch_size]
            ids, mask = self.tokenize([texts[i] for i in part])
            fused[part] = self.fuse_tokens(features.expand(len(part), -1, -1), ids, mask).float()
        return fused


def _small_settings(config: SmallCLIPConfig) -> dict[str, Any]:
    return {"kind": "small_clip", "config": {key: getattr(config, key) for key in _VISION_SETTINGS}}
