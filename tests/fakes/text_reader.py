"""A reader of text without a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from indexes.store.image_text import WIDTH
from retriever.types import TextLine


class LabelReader:
    """Reads what `write` hid in the last bits of an image; other images have no text."""

    dimension = WIDTH

    def __init__(self, fingerprint: str = "label-reader-1") -> None:
        self.fingerprint = fingerprint
        self.images = self.calls = 0
        self.side: int | None = 0  # of the last images

    @staticmethod
    def write(image: Image.Image, text: str) -> Image.Image:
        """Returns an image with a text, whose pixels hardly change; it must stay without losses."""
        pixels = np.array(image.convert("RGB"))
        bits = np.unpackbits(np.frombuffer(f"{text}\0".encode(), np.uint8))
        flat = pixels.reshape(-1)
        flat &= 0xFE
        flat[: len(bits)] |= bits
        return Image.fromarray(pixels)

    def read(self, images: Sequence[Image.Image], side: int | None = None) -> list[list[TextLine]]:
        self.images, self.calls = self.images + len(images), self.calls + 1
        self.side = side
        return [self._lines(image) for image in images]

    def _lines(self, image: Image.Image) -> list[TextLine]:
        content = np.packbits(np.asarray(image.convert("RGB")).reshape(-1) & 1).tobytes()
        lines = content.partition(b"\0")[0].decode("utf-8", "replace").splitlines()
        return [TextLine(line, 0.9, (0.25, 0.25, 0.75, 0.75)) for line in lines if line.isprintable()]
