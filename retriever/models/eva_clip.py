"""EVA-CLIP with 8 and 18 billion parameters: the paper's step 1. `retriever.models.eva_weights` loads its weights.

Two plain transformers without dropout: the image tower has RMS norms and no bias in its query, key and value
projections, the text tower is CLIP's. All sizes come from the published configuration of EVA-CLIP-8B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class TowerConfig:
    """Sizes of one transformer.

    Attributes:
        width: Length of a token's vector.
        layers: Number of blocks.
        heads: Attention heads.
        mlp_width: Width of the hidden layer of a block's MLP.
        eps: Epsilon of the norms.
        rms_norm: Whether norms are RMS norms, without mean and bias, instead of layer norms.
        post_norm: Whether norms follow attention and MLP instead of preceding them.
        biases: Whether query, key and value have a bias.
    """

    width: int
    layers: int
    heads: int
    mlp_width: int
    eps: float
    rms_norm: bool = False
    post_norm: bool = False
    biases: tuple[bool, bool, bool] = (True, True, True)


@dataclass(frozen=True, slots=True)
class EvaCLIPConfig:
    """Sizes of an `EvaCLIP`.

    Attributes:
        vision: The image tower.
        text: The text tower.
        image_size: Height and width of an image in pixels.
        patch_size: Height and width of a patch, which becomes one token, in pixels.
        vocab_size: Number of text tokens.
        context_length: Longest text in tokens.
        projection_dim: Length of the shared vectors.
        image_bias: Whether the image projection has a bias.
    """

    model_type: ClassVar[str] = "evaclip"

    vision: TowerConfig
    text: TowerConfig
    image_size: int
    patch_size: int
    vocab_size: int
    context_length: int
    projection_dim: int
    image_bias: bool = False


EVA_CLIP_8B = EvaCLIPConfig(
    vision=TowerConfig(4096, 32, 32, 20480, 1e-6, rms_norm=True, biases=(False, False, False)),
    text=TowerConfig(1280, 32, 20, 5120, 1e-5),
    image_size=224,
    patch_size=14,
    vocab_size=49408,
    context_length=77,
    projection_dim=1280,
)
"""The published sizes: 7.5 billion parameters for images, 0.7 billion for texts."""


def _norm(config: TowerConfig) -> nn.Module:
    kind = nn.RMSNorm if config.rms_norm else nn.LayerNorm
    return kind(config.width, eps=config.eps)


class Block(nn.Module):
    """A transformer block: attention and an MLP, each with a residual connection."""

    def __init__(self, config: TowerConfig):
        super().__init__()
        self.heads, self.post_norm = config.heads, config.post_norm
        self.norm1 = _norm(config)
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=any(config.biases))
        self.out = nn.Linear(config.width, config.width)
        self.norm2 = _norm(config)
        self.fc1 = nn.Linear(config.width, config.mlp_width)
        self.fc2 = nn.Linear(config.mlp_width, config.width)

    def attend(self, x: Tensor, causal: bool) -> Tensor:
        """Applies self-attention to tokens [B, T, width]; if `causal`, a token sees only itself and those before it."""
        batch, tokens, width = x.shape
        query, key, value = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
        output: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return output

    def mlp(self, x: Tensor) -> Tensor:
        """Applies two layers to each token of [B, T, width]."""
        output: Tensor = self.fc2(functional.gelu(self.fc1(x)))
        return output

    def forward(self, x: Tensor, causal: bool) -> Tensor:
        """Returns the tokens for the next block, [B, T, width]."""
        if self.post_norm:
            x = x + self.norm1(self.attend(x, causal))
            x = x + self.norm2(self.mlp(x))
        else:
            x = x + self.attend(self.norm1(x), causal)
            x = x + self.mlp(self.norm2(x))
        return x


class VisionTower(nn.Module):
    """Encodes images: a transformer over patches and a class token, whose last state is projected."""

    def __init__(self, config: EvaCLIPConfig):
        super().__init__()
        tower = config.vision
        self.patches = nn.Conv2d(3, tower.width, config.patch_size, stride=config.patch_size)
        self.class_token = nn.Parameter(nn.init.normal_(torch.empty(tower.width), std=0.02))
        cells = (config.image_size // config.patch_size) ** 2
        self.positions = nn.Parameter(nn.init.normal_(torch.empty(1 + cells, tower.width), std=0.02))
        self.blocks = nn.ModuleList([Block(tower) for _ in range(tower.layers)])
        self.norm = _norm(tower)
        self.projection = nn.Linear(tower.width, config.projection_dim, bias=config.image_bias)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Encodes pixels [B, 3, image_size, image_size] as vectors [B, projection_dim]."""
        cells = self.patches(pixel_values).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(cells), 1, -1), cells], dim=1) + self.positions
        for block in self.blocks:
            x = block(x, causal=False)
        projected: Tensor = self.projection(self.norm(x[:, 0]))
        return projected


class TextTower(nn.Module):
    """Encodes texts: a causal transformer over tokens; the last state of the end-of-text token is projected."""

    def __init__(self, config: EvaCLIPConfig):
        super().__init__()
        tower = config.text
        self.tokens = nn.Embedding(config.vocab_size, tower.width)
        self.positions = nn.Parameter(nn.init.normal_(torch.empty(config.context_length, tower.width), std=0.01))
        self.blocks = nn.ModuleList([Block(tower) for _ in range(tower.layers)])
        self.norm = _norm(tower)
        self.projection = nn.Linear(tower.width, config.projection_dim, bias=False)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Encodes token ids [B, T] as vectors [B, projection_dim]."""
        x = self.tokens(input_ids) + self.positions[: input_ids.shape[1]]
        for block in self.blocks:
            x = block(x, causal=True)
        # The end-of-text token has the highest id. It may also be the padding; argmax takes the first.
        ends = input_ids.argmax(dim=-1)
        projected: Tensor = self.projection(self.norm(x[torch.arange(len(x), device=x.device), ends]))
        return projected


class EvaCLIP(nn.Module):
    """The dual encoder, with random weights until `retriever.models.eva_weights` loads the published ones.

    Args:
        config: Its sizes.
    """

    def __init__(self, config: EvaCLIPConfig):
        super().__init__()
        self.config = config
        self.vision = VisionTower(config)
        self.text = TextTower(config)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.text.positions.device

    @property
    def dtype(self) -> torch.dtype:
        """The data type of the weights."""
        return self.text.positions.dtype

    def get_image_features(self, pixel_values: Tensor) -> Tensor:
        """Encodes prepared pixels [B, 3, size, size] as vectors [B, projection_dim], not normalized."""
        features: Tensor = self.vision(pixel_values)
        return features

    def get_text_features(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Encodes token ids [B, T] as vectors [B, projection_dim], not normalized.

        The mask is not needed: attention is causal, and padding comes last.
        """
        features: Tensor = self.text(input_ids)
        return features
