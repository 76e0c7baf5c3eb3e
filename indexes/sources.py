"""Where a knowledge base's pictures are: in a folder, or in the ZIM file that the articles come from."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from PIL import Image

from indexes.formats import OWN_PICTURES
from indexes.formats.zim import open_zim
from indexes.images import find_image
from retriever.images import load_image
from retriever.types import Entity


class ImageSource(Protocol):
    """Finds pictures by their URLs and reads them."""

    def find(self, url: str) -> str | None:
        """Returns the name of the picture that a URL or path means, or `None` when it is not there."""

    def size(self, name: str) -> int:
        """Returns the bytes of a picture that `find` named."""

    def load(self, name: str) -> Image.Image:
        """Returns a picture that `find` named, in RGB.

        Raises:
            ValueError: It is unreadable.
        """


class FolderImages:
    """Pictures in a folder, found by the longest suffix of their URL.

    Args:
        folder: Where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, url: str) -> str | None:
        """Returns the path under the folder."""
        found = find_image(self._folder, url)
        return None if found is None else found.relative_to(self._folder).as_posix()

    def size(self, name: str) -> int:
        """Returns the file's size."""
        return (self._folder / name).stat().st_size

    def load(self, name: str) -> Image.Image:
        """Returns the picture in RGB."""
        return load_image(self._folder / name)


class ZimImages:
    """Pictures in a ZIM file, found by their path there.

    Args:
        path: The file.

    Raises:
        ValueError: libzim is not installed, or this is no ZIM file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._archive = path, open_zim(path)

    def find(self, url: str) -> str | None:
        """Returns the path in the file; a redirect's own where it leads to a picture."""
        return url if url and self._archive.has_entry_by_path(url) else None

    def size(self, name: str) -> int:
        """Returns the picture's size."""
        return int(self._archive.get_entry_by_path(name).get_item().size)

    def load(self, name: str) -> Image.Image:
        """Returns the picture in RGB."""
        try:
            content = bytes(self._archive.get_entry_by_path(name).get_item().content)
        except (RuntimeError, KeyError) as error:
            raise ValueError(f"{self._path}: entry {name!r}: damaged ({error})") from error
        return load_image(io.BytesIO(content), f"{self._path}: entry {name!r}")


def open_images(images: Path | None, kb: Path, kb_format: str) -> ImageSource | None:
    """Returns where a knowledge base's pictures are, `None` where there are none.

    Args:
        images: A folder or a ZIM file. `None`: what the knowledge base itself holds.
        kb: The knowledge base.
        kb_format: Its format.

    Raises:
        ValueError: `images` is neither a folder nor a ZIM file.
    """
    if images is None:
        if kb_format not in OWN_PICTURES:
            return None
        images = kb
    if images.is_dir():
        return FolderImages(images)
    if images.is_file() and images.suffix.lower() == ".zim":
        return ZimImages(images)
    raise ValueError(f"images: {images} is not a folder, nor a ZIM file")


def find_main(source: ImageSource, entity: Entity) -> str | None:
    """Returns the name of an entity's main image: `Entity.image`, else the first of `Entity.images` that is there."""
    for url in main_candidates(entity):
        if (name := source.find(url)) is not None:
            return name
    return None


def main_candidates(entity: Entity) -> Iterable[str]:
    """Returns what may be an entity's main image, in the order of preference, each once."""
    first = () if entity.image is None else (entity.image,)
    return dict.fromkeys((*first, *(picture.url for picture in entity.images)))
