"""A CLIP-type dual encoder that two CPU cores can train: a small residual network and a small text transformer.

It follows the interface of transformers' CLIP models (`get_image_features`, `get_text_features`, `vision_model`,
`save_pretrained`), so that `retriever.models.encoder` runs it and a full-size CLIP with the same code. It is a plain
module because importing transformers takes longer than importing PyTorch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from retriever.files import read_object, replace_with
from retriever.models.fused_convolutions import FusedConvolution
from retriever.models.weights import WEIGHTS_NAME, read_weights, without_memory

FEATURES = 1280
"""Length of a vector of the base model (`retriever.models.efficientnet_lite`)."""


@dataclass
class SmallCLIPConfig:
    """Sizes of a `SmallCLIP`.

    Attributes:
        image_size: Height and width of the input image in pixels; a multiple of 16.
        channels: Width of each stage; every stage halves height and width.
        vision_heads: Attention heads over the last feature map.
        vocab_size: Size of the tokenizer's vocabulary.
        text_width: Width of the text transformer.
        text_layers: Number of its layers.
        text_heads: Number of its attention heads.
        max_text_tokens: Longest text; the rest is cut.
        projection_dim: Length of the shared vectors.
        pad_token_id: Id of the padding token.
        base_model: The base model that also looks at images (`retriever.models.photo_tower`), if any.
        photo_size: Height and width of its input in pixels.
        photo_dim: Length of its part of a vector.
        photo_share: Its share of the similarity of two images.
    """

    model_type: ClassVar[str] = "small_clip"

    image_size: int = 112
    channels: Sequence[int] = (32, 48, 96, 192)
    vision_heads: int = 4
    vocab_size: int = 4096
    text_width: int = 128
    text_layers: int = 2
    text_heads: int = 4
    max_text_tokens: int = 72
    projection_dim: int = 128
    pad_token_id: int = 0
    base_model: str | None = None
    photo_size: int = 160
    photo_dim: int = 64
    photo_share: float = 0.3

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """Takes the sizes from a config.json."""
        return cls(**{field.name: settings[field.name] for field in fields(cls) if field.name in settings})

    @property
    def vision_width(self) -> int:
        """Length of a vector in the vision tower's feature map."""
        return self.channels[-1]


@dataclass
class VisionOutput:
    """Output of `SmallVision`.

    Attributes:
        last_hidden_state: A pooling token, then the feature map, [B, 1 + cells, width].
    """

    last_hidden_state: Tensor

    @property
    def pooler_output(self) -> Tensor:
        """One vector per image, [B, width]: the mean of the cells plus the token.

        From scratch, this learns faster than either alone.
        """
        return self.last_hidden_state[:, 0] + self.last_hidden_state[:, 1:].mean(1)


class _Block(nn.Module):
    """Two 3 x 3 convolutions with a residual connection."""

    def __init__(self, width: int):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.norm1(self.conv1(x)), inplace=True)
        return functional.relu(x + self.norm2(self.conv2(hidden)), inplace=True)

    def fused(self, device: str, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
        """Returns the block as a function for inference; see `SmallVision.fuse`."""
        first = FusedConvolution(self.conv1, self.norm1, device, dtype)
        second = FusedConvolution(self.conv2, self.norm2, device, dtype)
        return lambda x: second(first(x), x)


def _transformer(width: int, heads: int, layers: int) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)


class SmallVision(nn.Module):
    """The image tower: convolutions, then one attention layer over the cells and a pooling token."""

    def __init__(self, config: SmallCLIPConfig):
        super().__init__()
        stages: list[nn.Module] = []
        previous = 3
        for number, width in enumerate(config.channels):
            stages += [nn.Conv2d(previous, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width)]
            stages.append(nn.ReLU(inplace=True))
            if number:
                stages.append(_Block(width))
            previous = width
        self.stages = nn.Sequential(*stages)
        side = config.image_size // 2 ** len(config.channels)
        self.pool_token = nn.Parameter(nn.init.normal_(torch.empty(1, 1, previous), std=0.02))
        self.positions = nn.Parameter(nn.init.normal_(torch.empty(1, 1 + side * side, previous), std=0.02))
        self.mixer = _transformer(previous, config.vision_heads, 1)
        self._fused: list[Callable[[Tensor], Tensor]] | None = None

    def fuse(self, device: str, dtype: torch.dtype) -> None:
        """Fuses each convolution with its batch norm and ReLU into one operation for inference.

        The fused operations copy the current weights; `state_dict` does not change.

        Args:
            device: The device that the tower will run on.
            dtype: The type that the tower will run in; convert the tower only after this call.
        """
        fused: list[Callable[[Tensor], Tensor]] = []
        stages = iter(self.stages)
        for stage in stages:
            if isinstance(stage, _Block):
                fused.append(stage.fused(device, dtype))
            elif isinstance(stage, nn.Conv2d):  # followed by its norm and a ReLU
                fused.append(FusedConvolution(stage, cast(nn.BatchNorm2d, next(stages)), device, dtype))
        self._fused = fused

    def local_features(self, pixel_values: Tensor, side: int) -> Tensor:
        """Returns the last grid of convolutions with at least `side` x `side` cells, [B, width, H, W].

        Deeper grids and the attention layer mix in what is far away.
        """
        grid = pixel_values.contiguous(memory_format=torch.channels_last)
        for stage in self._current_stages():
            if isinstance(stage, nn.Conv2d | FusedConvolution) and (grid.shape[-1] + 1) // 2 < side:
                break
            grid = stage(grid)
        return grid

    def _current_stages(self) -> Iterable[Callable[[Tensor], Tensor]]:
        return self.stages if self.training or self._fused is None else self._fused

    def forward(self, pixel_values: Tensor) -> VisionOutput:
        """Encodes square images as feature maps and vectors.

        Args:
            pixel_values: Float [B, 3, side, side]; positions are interpolated if `side` is not `image_size`.
        """
        return self.mixed(self.grid(pixel_values))

    def grid(self, pixel_values: Tensor) -> Tensor:
        """Returns the convolutions' last grid of square images, [B, width, cells, cells]."""
        grid = pixel_values.contiguous(memory_format=torch.channels_last)
        for stage in self._current_stages():
            grid = stage(grid)
        return grid

    def mixed(self, grid: Tensor) -> VisionOutput:
        """Lets the cells of square grids [B, width, cells, cells], or of square parts of them, attend to each other."""
        cells = grid.flatten(2).transpose(1, 2)
        positions: Tensor = self.positions
        if positions.shape[1] != 1 + cells.shape[1]:
            positions = resized_positions(positions.float(), grid.shape[-1]).to(cells.dtype)
        tokens = torch.cat([self.pool_token.expand(len(cells), -1, -1), cells], dim=1) + positions
        return VisionOutput(self.mixer(tokens))


def resized_positions(positions: Tensor, side: int) -> Tensor:
    """Interpolates the position embeddings of a square of cells to side x side, [1, 1 + side * side, width].

    The first position, the pooling token's, is kept. `positions` is [1, 1 + cells, width].
    """
    old = math.isqrt(positions.shape[1] - 1)
    pool, cells = positions.split([1, old * old], dim=1)
    grid = cells.transpose(1, 2).unflatten(2, (old, old))
    grid = functional.interpolate(grid, (side, side), mode="bicubic", align_corners=False)
    return torch.cat([pool, grid.flatten(2).transpose(1, 2)], dim=1)


class SmallText(nn.Module):
    """The text tower: token and position embeddings, a transformer, and the mean over the text's tokens."""

    def __init__(self, config: SmallCLIPConfig):
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.text_width, padding_idx=config.pad_token_id)
        self.positions = nn.Parameter(
            nn.init.normal_(torch.empty(1, config.max_text_tokens, config.text_width), std=0.02)
        )
        self.transformer = _transformer(config.text_width, config.text_heads, config.text_layers)
        nn.init.normal_(self.tokens.weight, std=0.05)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encodes token ids [B, T] with their mask [B, T] as vectors [B, text_width]."""
        hidden = self.tokens(input_ids) + self.positions[:, : input_ids.shape[1]]
        hidden = self.transformer(hidden, src_key_padding_mask=attention_mask == 0)
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        pooled: Tensor = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)
        return pooled


class SmallCLIP(nn.Module):
    """The dual encoder: two towers, two projections, and the logarithm of a learned temperature (`logit_scale`)."""

    photo_mean: Tensor
    photo_projection: Tensor

    def __init__(self, config: SmallCLIPConfig):
        super().__init__()
        self.config = config
        self.vision_model = SmallVision(config)
        self.text_model = SmallText(config)
        self.visual_projection = nn.Linear(config.vision_width, config.projection_dim, bias=False)
        self.text_projection = nn.Linear(config.text_width, config.projection_dim, bias=False)
        self.logit_scale = nn.Parameter(torch.tensor(2.66))  # log(1 / 0.07), CLIP's start
        if config.base_model is not None:  # buffers, since no gradient reaches them
            self.register_buffer("photo_mean", torch.zeros(FEATURES))
            self.register_buffer("photo_projection", torch.zeros(config.photo_dim, FEATURES))

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype = torch.float32) -> Self:
        """Loads the model in `folder` with weights of `dtype`.

        Raises:
            ValueError: A file is missing, or a weight is missing, unexpected or has the wrong shape.
        """
        with without_memory():
            model = cls(SmallCLIPConfig.read(read_object(folder / "config.json")))
        model.load_state_dict(read_weights(folder, model.state_dict(), dtype=dtype), assign=True)
        return model.eval()

    def save_pretrained(self, folder: Path, state_dict: Mapping[str, Tensor]) -> None:
        """Writes the folder that `load` reads; the weights come last."""
        folder.mkdir(parents=True, exist_ok=True)
        dtype = str(next(t.dtype for t in state_dict.values() if t.is_floating_point())).removeprefix("torch.")
        kind = {"architectures": [type(self).__name__], "model_type": self.config.model_type, "dtype": dtype}
        (folder / "config.json").write_text(json.dumps(kind | asdict(self.config), indent=2) + "\n", encoding="utf-8")
        replace_with(folder / WEIGHTS_NAME, lambda partial: save_file(dict(state_dict), partial, {"format": "pt"}))

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return self.logit_scale.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of its weights."""
        return self.logit_scale.dtype

    def resize_images(self, size: int) -> None:
        """Makes the image tower read images of `size` x `size` pixels, interpolating the positions of cells.

        Raises:
            ValueError: `size` is not a positive multiple of a cell's side.
        """
        cell = 2 ** len(self.config.channels)
        if size < cell or size % cell:
            raise ValueError(f"size must be a positive multiple of {cell}, got {size}")
        positions = resized_positions(self.vision_model.positions.data, size // cell)
        self.vision_model.positions = nn.Parameter(positions.contiguous())
        self.config.image_size = size

    def get_image_features(self, pixel_values: Tensor) -> Tensor:
        """Encodes images as vectors [B, projection_dim], not normalized."""
        projected: Tensor = self.visual_projection(self.vision_model(pixel_values).pooler_output)
        return projected

    def get_text_features(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encodes texts as vectors [B, projection_dim], not normalized."""
        projected: Tensor = self.text_projection(self.text_model(input_ids, attention_mask))
        return projected
