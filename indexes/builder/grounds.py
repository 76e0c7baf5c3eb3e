"""Further views of an image: on several backgrounds if it has none, such as a logo, and within its border.

An image without a background is encoded on several backgrounds and the outputs are averaged: they share the image and
differ in the background. The mean vector is one more key of its entity (step 1); the mean tokens are merged with those
of the image itself (step 2). What is within a uniform border is a key with tokens of its own: query images are seen
without theirs, but a photograph may show all of the image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from indexes.article_images import GROUNDS, WITHIN
from indexes.builder.stages import finite
from retriever.borders import edges_of, trim
from retriever.codecs import pool_tokens
from retriever.images import ALPHA, GROUND, load_image
from retriever.protocols import DualEncoder, FusionEncoder, KeyEncoder

COLORS = ("white", "black", "gray", "red", "blue", "green", "yellow", "#404040", "#c0c0c0")

_LEAST = 0.05  # lowest share of transparent pixels, and of visible ones
_MARGIN = 0.06  # kept on each side, as a share of the longer side, if the image has as much
_SIDE = 256  # longest side in pixels: more than the embedded encoders read


def has_no_ground(image: Image.Image) -> bool:
    """Returns whether an image from `load_image` was partly transparent, so that its background is not real."""
    alpha = image.info.get(ALPHA)
    if alpha is None:
        return False
    seen = float((np.asarray(alpha) > 127).mean())
    return _LEAST <= seen <= 1 - _LEAST


def border_finder(images: dict[str, Image.Image], main: str, small: bytes) -> Callable[[str], bool]:
    """Returns a function that says whether the image of a name has a border, and adds what is within it to `images`.

    Of the `main` image, its thumbnail decides (`small`), so that an index, which has no other image, says the same.
    """

    def has_border(name: str) -> bool:
        within = trim(images[name])
        if not (is_bordered(small) if name == main else within is not images[name]):
            return False
        images[f"{WITHIN}{name}"] = within
        return True

    return has_border


def is_bordered(thumbnail: bytes) -> bool:
    """Returns whether a main image with this thumbnail has a border."""
    return edges_of(load_image(thumbnail)) is not None


def on_grounds(image: Image.Image) -> list[Image.Image]:
    """Returns an image without a background, cropped to its visible part, on each of `COLORS`.

    Args:
        image: An image from `load_image`, with its alpha channel in `info` (see `has_no_ground`).
    """
    alpha, behind = image.info[ALPHA], image.info.get(GROUND, 255)
    left, top, right, bottom = alpha.point(lambda level: 255 if level > 16 else 0).getbbox()
    margin = _MARGIN * max(right - left, bottom - top)
    box = (
        max(0, round(left - margin)),
        max(0, round(top - margin)),
        min(image.width, round(right + margin)),
        min(image.height, round(bottom + margin)),
    )
    image, alpha = image.crop(box), alpha.crop(box)
    image.thumbnail((_SIDE, _SIDE))
    alpha.thumbnail((_SIDE, _SIDE))
    grounds = [Image.new("RGB", image.size, color) for color in COLORS]
    # A pixel is alpha * color + (1 - alpha) * ground; only the second term changes.
    shown, rest = np.asarray(image, np.float32), 1 - np.asarray(alpha, np.float32)[..., None] / 255
    changed = [shown + rest * (np.asarray(ground, np.float32) - behind) for ground in grounds]
    return [Image.fromarray(pixels.round().clip(0, 255).astype(np.uint8)) for pixels in changed]


def key_vectors(
    encoder: DualEncoder, names: Sequence[Sequence[str]], images: Sequence[Mapping[str, Image.Image]]
) -> NDArray[Any]:
    """Encodes keys in order, as normalized vectors, float32 [keys, dimension].

    Args:
        encoder: Step 1's model.
        names: The names of each entity's keys.
        images: The images of each entity by name.
    """
    shown = dict[tuple[int, bool], list[Image.Image]]()  # an image that several entities share is encoded once
    keys = list[tuple[int, bool]]()
    for own_names, own in zip(names, images, strict=True):
        for name in own_names:
            bare, grounded = name.removeprefix(GROUNDS), name.startswith(GROUNDS)
            image = own[bare]
            keys.append((id(image), grounded))
            if keys[-1] not in shown:
                shown[keys[-1]] = on_grounds(own.get(f"{WITHIN}{bare}", image)) if grounded else [image]
    if not shown:
        return np.empty((0, encoder.dimension), np.float32)
    encode = encoder.encode_keys if isinstance(encoder, KeyEncoder) else encoder.encode_images
    vectors = encode([image for one in shown.values() for image in one])
    parts = vectors.split([len(one) for one in shown.values()])
    means = [part if len(part) == 1 else functional.normalize(part.mean(dim=0, keepdim=True), dim=-1) for part in parts]
    rows = dict(zip(shown, finite(torch.cat(means)), strict=True))
    return np.stack([rows[key] for key in keys])


def section_tokens(
    fusion: FusionEncoder, views: Sequence[Sequence[Image.Image]], texts: Sequence[Sequence[str]]
) -> torch.Tensor:
    """Fuses images with each text of their sections into normalized tokens in order, float32 [N, M, H].

    Args:
        fusion: Step 2's model.
        views: For each image, the image alone or followed by its copies on several backgrounds. The copies' mean tokens
            are merged with the image's own, to the same number of tokens.
        texts: The texts of each image's sections.
    """
    repeated = [own for own, shown in zip(texts, views, strict=True) for _ in shown]
    tokens = fusion.encode_sections([image for shown in views for image in shown], repeated)
    unit = functional.normalize(tokens.detach().float(), dim=-1)
    sizes = [(len(shown), len(own)) for shown, own in zip(views, texts, strict=True)]
    parts = unit.split([shown * sections for shown, sections in sizes])
    by_view = [part.unflatten(0, size) for part, size in zip(parts, sizes, strict=True)]
    return torch.cat([unit[:0], *(part[0] if len(part) == 1 else _merged(part) for part in by_view)])


def _merged(tokens: torch.Tensor) -> torch.Tensor:
    """Merges the tokens of an image with their mean over all backgrounds: [1 + backgrounds, N, M, H] to [N, M, H]."""
    mean = functional.normalize(tokens[1:].mean(dim=0), dim=-1)
    return pool_tokens(torch.cat([tokens[0], mean], dim=1), tokens.shape[2])
