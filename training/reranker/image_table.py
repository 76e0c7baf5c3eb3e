"""The images of a training by row, which can be read in every process that decodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from PIL import Image

from indexes.sources import ImageSource
from retriever.borders import load_query_image
from training.knowledge_base import image_source


class ImageName(NamedTuple):
    """Names an image: the file of a query image, or the name of a knowledge base image in its source."""

    kind: Literal["query", "article"]
    name: str


@dataclass(frozen=True)
class ImageTable:
    """Images by row.

    Attributes:
        names: The name of each image.
        images: The folder or ZIM file with the knowledge base's images.
        kb: The knowledge base.
        kb_format: The format of the knowledge base; guessed if `None`.
        trim_borders: Whether to cut uniform borders off query images.
    """

    names: Sequence[ImageName]
    images: Path | None
    kb: Path
    kb_format: str | None
    trim_borders: bool = False

    def load(self, row: int) -> Image.Image:
        """Reads an image.

        Raises:
            ImageError: The image is missing or unreadable.
        """
        name = self.names[row]
        if name.kind == "query":
            return load_query_image(name.name, self.trim_borders)
        return self._source.load(name.name)

    @cached_property
    def _source(self) -> ImageSource:
        return image_source(self.images, self.kb, self.kb_format)

    def __reduce__(self) -> tuple[object, ...]:
        """Leaves out the opened source: each process opens it itself."""
        return ImageTable, (self.names, self.images, self.kb, self.kb_format, self.trim_borders)
