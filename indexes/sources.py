"""Sources of a knowledge base's images: a folder, or the ZIM file or data set that the articles come from."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Protocol

from PIL import Image

from indexes.formats import OWN_IMAGES
from indexes.formats.huggingface import open_dataset
from indexes.formats.zim import is_zim, open_zim
from indexes.images import IMAGE_SUFFIXES, find_image
from indexes.svg import load_any
from retriever.images import ImageError
from retriever.types import Entity


class ImageSource(Protocol):
    """Finds images by their URLs and reads them; thread-safe."""

    @property
    def missing(self) -> str:
        """The reason why `find` returns nothing, for the report of a build."""

    def find(self, url: str) -> str | None:
        """Returns the name of the image at a URL or path, or `None` if there is none."""

    def size(self, name: str) -> int:
        """Returns the size in bytes of an image that `find` named."""

    def load(self, name: str) -> Image.Image:
        """Returns an image that `find` named, in RGB.

        Raises:
            ImageError: The image is unreadable.
        """


class FolderImages:
    """Images in a folder, found by the longest suffix of their URL.

    Args:
        folder: The folder.
        by_name: Whether an entity that names no image gets the one whose file is named after its id or title, and one
            that names a file, with or without its extension, gets it from any folder inside this one, if no other file
            has this name.
    """

    missing = "no file, or only a link out of the folder, at any suffix of the URL's path"

    def __init__(self, folder: Path, by_name: bool = False) -> None:
        self._folder, self._by_name = folder, by_name

    def called(self, entity: Entity) -> str | None:
        """Returns the image that is named after an entity, if `by_name` is set."""
        if not self._by_name:
            return None
        keys = (_stem(entity.id.rsplit("/", 1)[-1]), _stem(entity.title))
        return next((self._stems[key] for key in keys if key and key in self._stems), None)

    @cached_property
    def _names(self) -> list[str]:
        """The images in the folder, those nearest to the top first; empty if there are too many."""
        files = (file for file in self._folder.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
        names = [file.relative_to(self._folder).as_posix() for file in islice(files, _MOST_FILES + 1)]
        return sorted(names, key=lambda name: (name.count("/"), name)) if len(names) <= _MOST_FILES else []

    @cached_property
    def _stems(self) -> dict[str, str]:
        """The images in the folder by normalized file name; of several, the one nearest to the top."""
        return {_stem(Path(name).stem): name for name in reversed(self._names)}

    @cached_property
    def _unique(self) -> dict[str, str]:
        """The images in the folder by file name, without names that occur more than once."""
        counts = Counter(name.rpartition("/")[2] for name in self._names)
        return {last: name for name in self._names if counts[last := name.rpartition("/")[2]] == 1}

    def find(self, url: str) -> str | None:
        """Returns the image's path relative to the folder."""
        found = find_image(self._folder, url)
        if found is not None:
            return found.relative_to(self._folder).as_posix()
        if not self._by_name or "//" in url:
            return None
        last = url.rpartition("/")[2]
        return self._unique.get(last) or (None if "." in last else self._stems.get(_stem(last)))

    def size(self, name: str) -> int:
        """Returns the file's size."""
        return (self._folder / name).stat().st_size

    def load(self, name: str) -> Image.Image:
        """Returns the image in RGB."""
        return load_any(self._folder / name)


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
        self._reading = Lock()  # libzim does not promise thread safety

    def __reduce__(self) -> tuple[type[ZimImages], tuple[Path]]:
        """Lets another process open the same file."""
        return ZimImages, (self._path,)

    def find(self, url: str) -> str | None:
        """Returns the path in the file; redirects are not resolved."""
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
        return load_any(content, called)


class DatasetImages:
    """Images in a Hugging Face data set, found by column and row.

    Args:
        path: The TOML file that names the data set.

    Raises:
        ValueError: datasets is not installed, or the data set cannot be loaded.
    """

    missing = "no image in that column and row of the data set"

    def __init__(self, path: Path) -> None:
        self._path, self._rows = path, open_dataset(path)
        self._reading = Lock()

    def __reduce__(self) -> tuple[type[DatasetImages], tuple[Path]]:
        """Lets another process open the same data set."""
        return DatasetImages, (self._path,)

    def find(self, url: str) -> str | None:
        """Returns the column and row, such as `image/12`."""
        return None if self._content(url) is None else url

    def size(self, name: str) -> int:
        """Returns the image's size."""
        return len(self._content(name) or b"")

    def load(self, name: str) -> Image.Image:
        """Returns the image in RGB."""
        return load_any(self._content(name) or b"", f"{self._path}: {name}")

    def _content(self, name: str) -> bytes | None:
        column, _, number = name.rpartition("/")
        if column not in self._rows.images or not number.isdecimal() or int(number) >= len(self._rows):
            return None
        with self._reading:
            try:
                return self._rows.image(column, int(number))
            except OSError:
                return None


class OwnAndOtherImages:
    """The images in a knowledge base itself, then those in a folder, such as downloaded remote images.

    Args:
        own: The images in the knowledge base.
        other: The images in the folder; their names begin with `images:`.
    """

    def __init__(self, own: ImageSource, other: ImageSource) -> None:
        self._own, self._other = own, other
        self.missing = " and ".join(dict.fromkeys((own.missing, other.missing)))

    def find(self, url: str) -> str | None:
        """Returns the name of the image in the knowledge base, or else of that in the folder."""
        if (name := self._own.find(url)) is not None:
            return name
        other = self._other.find(url)
        return None if other is None else f"{_OTHER}{other}"

    def size(self, name: str) -> int:
        """Returns the image's size."""
        source, name = self._of(name)
        return source.size(name)

    def load(self, name: str) -> Image.Image:
        """Returns the image in RGB."""
        source, name = self._of(name)
        return source.load(name)

    def _of(self, name: str) -> tuple[ImageSource, str]:
        return (self._other, name.removeprefix(_OTHER)) if name.startswith(_OTHER) else (self._own, name)


_OTHER = "images:"
_ROWS = frozenset({"csv", "jsonl", "parquet", "sql", "xml"})
"""Formats whose images may be named after their rows, or be in any subfolder."""
_MOST_FILES = 200_000
_ACCENTS = re.compile("[\u0300-\u036f]")
"""Accents of Latin, Greek and Cyrillic letters; combining marks of other scripts distinguish words."""


def open_images(images: Path | None, kb: Path, kb_format: str) -> ImageSource | None:
    """Returns the image source of a knowledge base, or `None` if it has none.

    Args:
        images: A folder or a ZIM file, used in addition to the images in the knowledge base itself.
        kb: The knowledge base.
        kb_format: Its format.

    Raises:
        ValueError: `images` is neither a folder nor a ZIM file.
    """
    other = None if images is None else _source(images, by_name=kb_format in _ROWS)
    packed = kb_format == "parquet" and kb.is_file() and bool(open_dataset(kb).images)
    if kb_format not in OWN_IMAGES and not packed:
        return other
    if kb_format == "zim" and not is_zim(kb):
        raise ValueError(f"{kb}: not a ZIM file; is it damaged, or is its download incomplete?")
    own = DatasetImages(kb) if packed or kb_format == "huggingface" else _source(kb)
    if other is None or (images is not None and images.resolve() == kb.resolve()):
        return own
    return OwnAndOtherImages(own, other)


def _source(images: Path, by_name: bool = False) -> ImageSource:
    if images.is_dir():
        return FolderImages(images, by_name)
    if is_zim(images):
        return ZimImages(images)
    raise ValueError(f"images: {images} is neither a folder nor a ZIM file")


def images_beside(kb: Path, kb_format: str) -> Path | None:
    """Returns the knowledge base's folder, where its images may be, or `None` if its format contains the images."""
    if kb_format in OWN_IMAGES:
        return None
    kb = kb.resolve()
    return kb if kb.is_dir() else kb.parent


def find_main(source: ImageSource, entity: Entity) -> str | None:
    """Returns the name of an entity's main image: `Entity.image`, or else the first of `Entity.images` that is found.

    If none is found, this is the image named after the entity, if the source supports that. That image also takes
    precedence if only the last part of a URL matches, since many images are called `icon.svg`.
    """
    called = partial(source.called, entity) if isinstance(source, FolderImages) else lambda: None
    for url in main_candidates(entity):
        if (name := source.find(url)) is not None:
            by_last_part = "://" in url and "/" not in name
            return (called() if by_last_part else None) or name
    return called()


def with_images_called(entities: Iterable[Entity], source: ImageSource | None) -> Iterator[Entity]:
    """Yields entities; an entity without an image gets the one that is named after it, if there is one."""
    for entity in entities:
        name = find_main(source, entity) if source is not None and not any(main_candidates(entity)) else None
        yield entity if name is None else replace(entity, image=name)


def _stem(name: str) -> str:
    """Normalizes the name of an image or an entity: case, accents, punctuation and leading zeros.

    "Red Fox" is "red-fox", "Citroën" is "citroen", and "007" is "7", but "1-10" is not "11-0".
    """
    name = _ACCENTS.sub("", unicodedata.normalize("NFD", name.casefold()))
    words = re.sub(r"(?<!\d)[\W_]+|[\W_]+(?!\d)", "", re.sub(r"(?<=\d)[\W_]+(?=\d)", "-", name))
    return (words.lstrip("0") or "0") if words.isdecimal() else words


def main_candidates(entity: Entity) -> Iterable[str]:
    """Returns the possible URLs of an entity's main image, in order of preference, without duplicates."""
    first = () if entity.image is None else (entity.image,)
    return dict.fromkeys((*first, *(image.url for image in entity.images)))
