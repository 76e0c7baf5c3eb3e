"""The images of a training by row, which can be read in every process that decodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from PIL import Image

from indexes.knowledge.knowledge_base import image_source
from indexes.knowledge.sources import ImageSource
from retriever.borders import load_query_image
from retriever.identity import Items, files_as_items


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

    def contents(self) -> Items:
        """Returns what the images are, without the folder of query images, so that the data may be moved."""

        def files() -> Iterator[tuple[object, Path | bytes]]:
            for kind, name in self.names:
                if kind == "query":
                    yield (kind, Path(name).name), Path(name)
                else:
                    yield (kind, name), self._source.content(name)

        return files_as_items(files(), "image")

    @cached_property
    def _source(self) -> ImageSource:
        return image_source(self.images, self.kb, self.kb_format)

    def __reduce__(self) -> tuple[object, ...]:
        """Leaves out the opened source: each process opens it itself."""
        return ImageTable, (self.names, self.images, self.kb, self.kb_format, self.trim_borders)
