"""Images as bytes and files."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from retriever.images import encoded


def image_bytes(
    color: str | tuple[int, ...], size: tuple[int, int] = (60, 40), format: str = "PNG", **options: Any
) -> bytes:
    """Returns an encoded image of one color; four channels mean RGBA."""
    return encoded(Image.new("RGBA" if len(color) == 4 else "RGB", size, color), format, **options)


def write_image(path: Path, color: str, side: int = 12) -> None:
    """Writes a square image of one color, creating its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (side, side), color).save(path)


def data_uri(data: bytes) -> str:
    """Returns `data` as a data URI of a PNG."""
    return "data:image/png;base64," + base64.b64encode(data).decode()


def noise(seed: int, width: int = 40, height: int = 30) -> Image.Image:
    """Returns an image of random pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def bomb_png() -> bytes:
    """Returns a PNG whose header declares 60 000 x 60 000 pixels."""
    content = bytearray(encoded(noise(0)))
    content[16:24] = (60_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(bytes(content[12:29])).to_bytes(4, "big")
    return bytes(content)
