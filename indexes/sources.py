"""Where a knowledge base's images are: in a folder, or in the ZIM file that the articles come from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Protocol

from PIL import Image

from indexes.formats import OWN_IMAGES
from indexes.formats.zim import is_zim, open_zim
from indexes.images import find_image
from retriever.images import ImageError, load_image
from retriever.types import Entity


class ImageSource(Protocol):
    """Finds images by their URLs and reads them, for any number of threads at once."""

    @property
    def missing(self) -> str:
        """Why `find` returns nothing, for the report of a build."""

    def find(self, url: str) -> str | None:
        """Returns the name of the image at a URL or path, or `None` if it is not there."""

    def size(self, name: str) -> int:
        """Returns the size in bytes of an image that `find` named."""

    def load(self, name: str) -> Image.Image:
        """Returns an image that `find` named, in RGB.

        Raises:
            ImageError: It is unreadable.
        """


class FolderImages:
    """Images in a folder, found by the longest suffix of their URL.

    Args:
        folder: The folder.
    """

    missing = "no file in the folder at any suffix of the URL's path"

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
        """Returns the image in RGB."""
        return load_image(self._folder / name)


class ZimImages:
    """Images in a ZIM file, found by their path there.

    Args:
        path: The file.

    Raises:
        ValueError: libzim is not installed, or the file is not a ZIM file.
    """

    missing = "no entry in the ZIM file at that path"

    def __init__(self, path: Path) -> None:
        self._path, self._archive = path, open_zim(path)
        self._reading = Lock()  # libzim promises no safety between threads

    def __reduce__(self) -> tuple[type[ZimImages], tuple[Path]]:
        """Lets another process open the same file."""
        return ZimImages, (self._path,)

    def find(self, url: str) -> str | None:
        """Returns the path in the file, that of a redirect unresolved."""
        with self._reading:
            return url if url and self._archive.has_entry_by_path(url) else None

    def size(self, name: str) -> int:
        """Returns the image's size."""
        with self._reading:
            return int(self._archive.get_entry_by_path(name).get_item().size)

    def load(self, name: str) -> Image.Image:
        """Returns the image in RGB."""
        called = f"{self._path}: entry {name!r}"
        try:
            with self._reading:
                content = bytes(self._archive.get_entry_by_path(name).get_item().content)
        except (RuntimeError, KeyError) as error:
            raise ImageError("unreadable", f"damaged in the ZIM file ({error})", called) from error
        return load_image(content, called)


def open_images(images: Path | None, kb: Path, kb_format: str) -> ImageSource | None:
    """Returns where a knowledge base's images are, or `None` if it has none.

    Args:
        images: A folder or a ZIM file. `None`: what the knowledge base itself holds.
        kb: The knowledge base.
        kb_format: Its format.

    Raises:
        ValueError: `images` is neither a folder nor a ZIM file.
    """
    if images is None:
        if kb_format not in OWN_IMAGES:
            return None
        images = kb
    if images.is_dir():
        return FolderImages(images)
    if is_zim(images):
        return ZimImages(images)
    raise ValueError(f"images: {images} is neither a folder nor a ZIM file")


def images_beside(kb: Path, kb_format: str) -> Path | None:
    """Returns the folder that a knowledge base is in, where its images may be; `None` if it holds them itself."""
    return None if kb_format in OWN_IMAGES else kb.resolve().parent


def find_main(source: ImageSource, entity: Entity) -> str | None:
    """Returns the name of an entity's main image: `Entity.image`, or else the first of `Entity.images` found."""
    for url in main_candidates(entity):
        if (name := source.find(url)) is not None:
            return name
    return None


def main_candidates(entity: Entity) -> Iterable[str]:
    """Returns the URLs that an entity's main image may have, in order of preference, without duplicates."""
    first = () if entity.image is None else (entity.image,)
    return dict.fromkeys((*first, *(image.url for image in entity.images)))
