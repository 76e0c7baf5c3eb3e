"""The part of the embedded encoder's vectors that knows photographs: a published network with a projection of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from retriever.base_models import base_model
from retriever.gpu import to_device
from retriever.models.efficientnet_lite import MEAN, STD, EfficientNetLite
from retriever.models.graphs import Forward, graphed
from retriever.models.pixels import PixelPreparation
from retriever.models.small_clip import SmallCLIP


class PhotoTower:
    """Appends what a frozen network sees to the vectors of a `SmallCLIP`.

    Args:
        model: The model whose configuration names the network, and which holds the projection of its features.
        device: The device to run on.
        dtype: Type of the network's weights; the projection is computed in float32.

    Attributes:
        device: The device that it runs on.

    Raises:
        ValueError: The network is not on this machine; the message says how to get it.
    """

    def __init__(self, model: SmallCLIP, device: str, dtype: torch.dtype) -> None:
        assert model.config.base_model is not None
        weights = load_file(base_model(model.config.base_model) / "model.safetensors")
        self._network = EfficientNetLite(weights, device, dtype)
        self._pixels = PixelPreparation(model.config.photo_size, mean=MEAN, std=STD)
        self.device, self._dtype = torch.device(device), dtype
        self._mean = model.photo_mean.float().to(device)
        self._projection = model.photo_projection.float().to(device)
        self._share = model.config.photo_share
        self._features: Forward = self._network

    @property
    def dimension(self) -> int:
        """The number of values that are appended."""
        return len(self._projection)

    @property
    def projection(self) -> tuple[Tensor, Tensor]:
        """What features are shifted by, float32 [FEATURES], and multiplied with, [dimension, FEATURES], on the CPU."""
        return self._mean.cpu(), self._projection.cpu()

    @property
    def size(self) -> int:
        """Height and width of the network's input in pixels."""
        return self._pixels.size

    def features(self, pixels: Tensor) -> Tensor:
        """Returns the network's features, float32 [N, FEATURES], not projected.

        Args:
            pixels: Pixels in 0..1, float32 [N, 3, size, size], on the network's device.
        """
        return self._features(self._pixels.normalize(pixels).to(self._dtype)).float()

    def with_images(self, vectors: Tensor, images: Sequence[Image.Image]) -> Tensor:
        """Returns L2-normalized vectors [N, D + dimension] whose cosine is a weighted mean of both parts' cosines.

        Args:
            vectors: L2-normalized vectors of the images, float32 [N, D].
            images: The images.
        """
        pixels = to_device(self._pixels.to_uint8(images), self.device).float() / 255
        return self.joined(vectors, self.features(pixels))

    def cells(self, image: Image.Image, side: int) -> Tensor:
        """Returns the network's last feature map of an image of `side` pixels, float32 [FEATURES, cells, cells]."""
        pixels = replace(self._pixels, size=side).to_device([image], self.device, self._dtype)
        return self._network.cells(pixels)[0].float()

    def joined(self, vectors: Tensor, features: Tensor) -> Tensor:
        """Joins the first network's vectors [N, D] with this one's features of the same images or parts of images.

        Args:
            vectors: Unit vectors, float [N, D].
            features: Pooled features, float [N, FEATURES].

        Returns:
            Unit vectors [N, D + dimension], in which this network has its share of the similarity.
        """
        seen = functional.normalize((features - self._mean) @ self._projection.T, dim=-1)
        return torch.cat([(1 - self._share) ** 0.5 * vectors, self._share**0.5 * seen], dim=-1)

    def without_images(self, vectors: Tensor) -> Tensor:
        """Returns vectors of texts [N, D] with zeros appended: the network reads no texts."""
        return functional.pad(vectors, (0, self.dimension))

    def use_cuda_graphs(self) -> None:
        """Runs the network as CUDA graphs, captured at the first batch of each size."""
        self._features = graphed(self._features)
