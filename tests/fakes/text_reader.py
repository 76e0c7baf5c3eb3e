"""A reader of text that finds what was written into an image, without a model."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from indexes.store.image_text import WIDTH
from retriever.types import TextLine


class FakeReader:
    """Reads the number of distinct colors of an image, as words; an image of one color has no text."""

    dimension = WIDTH

    def __init__(self, fingerprint: str = "fake-reader-1") -> None:
        self.fingerprint = fingerprint
        self.images = 0

    def read(self, images: Sequence[Image.Image]) -> list[list[TextLine]]:
        self.images += len(images)
        return [self._lines(image.convert("RGB")) for image in images]

    def _lines(self, image: Image.Image) -> list[TextLine]:
        colors = sorted(image.getcolors(1 << 24) or [], reverse=True)
        if len(colors) < 2:
            return []
        names = ["".join(chr(ord("a") + value % 26) for value in (count, *color)) for count, color in colors[:9]]
        return [TextLine(" ".join(names[start : start + 3]), 0.9, (0.1, 0.1, 0.9, 0.4)) for start in range(0, 9, 3)]
