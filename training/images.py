"""Images to train on, kept in a file at training size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from indexes.ahead import map_ahead
from indexes.growing import GrowingArray, release
from indexes.progress import progress_bar
from retriever.models.pixels import PixelPreparation

BATCH = 256
"""Most images that a resumed run loads again."""


class ImageLoader(NamedTuple):
    """An image that has not been read yet.

    Attributes:
        name: The argument for `read`: its path, or its name in an image source.
        read: Returns an image in RGB; raises a `ValueError` that names the file if it cannot be read.
        content: Returns its file, or its bytes if it has no file of its own.
    """

    name: str
    read: Callable[[str], Image.Image]
    content: Callable[[str], Path | bytes] = Path

    def __call__(self) -> Image.Image:
        """Reads the image."""
        return self.read(self.name)


class StoredImages:
    """Images of one size in a file; only one batch at a time is in memory.

    Args:
        values: The memory-mapped file, uint8 [N, 3, side, side].
    """

    def __init__(self, values: np.ndarray[Any, np.dtype[np.uint8]]):
        self._values = values

    def __len__(self) -> int:
        """Returns the number of images."""
        return len(self._values)

    def __getitem__(self, rows: Sequence[int] | Tensor) -> Tensor:
        """Reads images, uint8 [len(rows), 3, side, side]."""
        images = torch.from_numpy(self._values[np.asarray(rows, np.int64)])
        release(self._values)
        return images


def load_images(
    loaders: Sequence[ImageLoader],
    side: int,
    path: Path,
) -> StoredImages:
    """Resizes images to a square, ignoring their aspect ratio, and stores them in a file.

    A killed run resumes; the caller removes a file of other images or of another size.

    Args:
        loaders: The images.
        side: Side of the square in pixels.
        path: The `.npy` file.

    Raises:
        ValueError: An image cannot be read; the message names it.
        OSError: There is not enough disk space for the file.
    """
    preparation = PixelPreparation(side)
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = GrowingArray(path, (len(loaders), 3, side, side), np.uint8)
    waiting = loaders[stored.done :]
    loaded = map_ahead(lambda load: preparation.to_uint8([load()])[0].numpy(), waiting, BATCH)
    bar = progress_bar(total=len(loaders), initial=stored.done, desc="loading images", unit="image")
    with closing(loaded), bar:
        for row, pixels in enumerate(loaded, stored.done):
            stored.values[row] = pixels
            bar.update()
            if row + 1 == stored.done + BATCH or row + 1 == len(loaders):
                stored.commit(row + 1)
    return StoredImages(stored.values)
