"""Sources of a knowledge base's images: a folder with image files and files that contain some, or a ZIM file."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock

from PIL import Image

from indexes.image_source import ImageSource
from indexes.knowledge.embedded import PREFIX, EmbeddedImages
from indexes.knowledge.file_names import is_inside
from indexes.knowledge.image_files import ImageFiles
from indexes.knowledge.readers.zim import is_zim, open_zim
from indexes.svg import load_any
from retriever.images import ImageError

_OTHER = "images:"
_PUBLISHED = frozenset({"evqa", "infoseek", "wiki6m", "mediawiki"})
"""Formats of encyclopedias with millions of images, which are at the paths of their URLs."""


class FolderImages:
    """Images in a folder: files, and those inside other files (`indexes.knowledge.embedded`).

    The files that contain images are under `root`, by default the same folder. If not `listed`, only the paths that an
    address may mean are tried.
    """

    def __init__(self, folder: Path, listed: bool = True, root: Path | None = None) -> None:
        self.files, self._embedded = ImageFiles(folder, listed), EmbeddedImages(folder if root is None else root)

    def find(self, url: str) -> str | None:
        """Returns the image's path relative to the folder, or the name of an embedded one."""
        if url.startswith(PREFIX):
            return None if self._embedded.read(url) is None else url
        return self.files.find(url).name

    def why_missing(self, url: str) -> str:
        """Returns why there is no image, and which names are similar."""
        return "no such image in the file" if url.startswith(PREFIX) else self.files.find(url).note

    def content(self, name: str) -> Path | bytes:
        """Returns the image's file, or the bytes of an embedded one, none if they are not there any more."""
        return self._embedded.read(name) or b"" if name.startswith(PREFIX) else self.files.folder / name

    def load(self, name: str) -> Image.Image:
        """Returns the image in RGB."""
        return load_any(self.content(name), name if name.startswith(PREFIX) else "")


class ZimImages:
    """Images in a ZIM file, found by their path there.

    Raises:
        ValueError: libzim is not installed, or the file is not a ZIM file.
    """

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

    def why_missing(self, url: str) -> str:
        """Returns why there is no image."""
        return "no entry in the ZIM file at that path"

    def content(self, name: str) -> bytes:
        """Returns the image's bytes, none if they are damaged."""
        try:
            return self._read(name)
        except ImageError:
            return b""

    def load(self, name: str) -> Image.Image:
        """Returns the image in RGB."""
        return load_any(self._read(name), f"{self._path}: entry {name!r}")

    def _read(self, name: str) -> bytes:
        try:
            with self._reading:
                return bytes(self._archive.get_entry_by_path(name).get_item().content)
        except (RuntimeError, KeyError) as error:
            called = f"{self._path}: entry {name!r}"
            raise ImageError("unreadable", f"damaged in the ZIM file ({error})", called) from error


class OwnAndOtherImages:
    """The images in a knowledge base itself, then those in a folder, such as downloaded remote images.

    The names of the others begin with `images:`.
    """

    def __init__(self, own: ImageSource, other: ImageSource) -> None:
        self.own, self.other = own, other

    def find(self, url: str) -> str | None:
        """Returns the name of the image in the knowledge base, or else of that in the folder."""
        if not url.startswith(_OTHER) and (name := self.own.find(url)) is not None:
            return name
        other = self.other.find(url.removeprefix(_OTHER))
        return None if other is None else f"{_OTHER}{other}"

    def why_missing(self, url: str) -> str:
        """Returns why neither has the image."""
        return " and ".join(dict.fromkeys((self.own.why_missing(url), self.other.why_missing(url))))

    def content(self, name: str) -> Path | bytes:
        """Returns the image's file or bytes."""
        return self._source_of(name).content(name.removeprefix(_OTHER))

    def load(self, name: str) -> Image.Image:
        """Returns the image in RGB."""
        return self._source_of(name).load(name.removeprefix(_OTHER))

    def _source_of(self, name: str) -> ImageSource:
        return self.other if name.startswith(_OTHER) else self.own


def open_images(images: Path | None, kb: Path, kb_format: str | None = None) -> ImageSource | None:
    """Returns the image source of a knowledge base, or `None` if it has none.

    A folder has its own images; those of a file are in the folder `images`, by default the one that the file is in. The
    folder or ZIM file `images` is used in addition to the images in the knowledge base itself.

    Args:
        images: Where the images are; `None` for the knowledge base, or the folder that it is in.
        kb: The knowledge base, a file or a folder.
        kb_format: The name of the only reader of the knowledge base, or `None`. For an encyclopedia, `images` must be
            given, and is not listed.

    Raises:
        ValueError: `images` is neither a folder nor a ZIM file, or the knowledge base is no ZIM file though it should.
    """
    listed = kb_format not in _PUBLISHED
    other = None if images is None else _source(images, listed)
    if kb_format == "zim" and not is_zim(kb):
        raise ValueError(f"{kb}: not a ZIM file; is it damaged, or is its download incomplete?")
    if not kb.is_dir() and not is_zim(kb):
        if isinstance(other, FolderImages):
            return FolderImages(other.files.folder, listed, root=kb.parent)
        return other if other is not None or not listed else FolderImages(kb.parent)
    own = _source(kb, listed)
    if other is None or (images is not None and images.resolve() == kb.resolve()):
        return own
    return OwnAndOtherImages(own, other)


def _source(images: Path, listed: bool) -> ImageSource:
    if images.is_dir():
        return FolderImages(images, listed)
    if is_zim(images):
        return ZimImages(images)
    raise ValueError(f"images: {images} is neither a folder nor a ZIM file")


def images_beside(kb: Path, kb_format: str | None = None) -> Path | None:
    """Returns the knowledge base's folder, where its images are, or `None` if it is a file that contains them."""
    if kb_format in ("zim", "huggingface") or is_zim(kb):
        return None
    kb = kb.resolve()
    return kb if kb.is_dir() else kb.parent


def given_images(images: Path | None, kb: Path, kb_format: str | None = None) -> Path | None:
    """Returns `images`, or where else a build looks for them: see `images_beside`.

    Raises:
        ValueError: None are given for an encyclopedia, which would be built without images if they are elsewhere.
    """
    if images is None and kb_format in _PUBLISHED:
        raise ValueError(
            f"images: name the folder with the images ({kb.parent}, if they are beside the knowledge base); "
            f"a knowledge base of format {kb_format} contains none"
        )
    return images or images_beside(kb, kb_format)


def listings(source: ImageSource) -> list[tuple[str, ImageFiles]]:
    """Returns the folders of a source whose files may belong to entities that do not name them.

    Each comes with the prefix that the names of its images have in the source.
    """
    if isinstance(source, OwnAndOtherImages):
        own = listings(source.own)
        inside = [os.path.realpath(files.folder) for _, files in own]
        others = ((f"{_OTHER}{prefix}", files) for prefix, files in listings(source.other))
        return [*own, *(pair for pair in others if not any(is_inside(str(pair[1].folder), root) for root in inside))]
    return [("", source.files)] if isinstance(source, FolderImages) and source.files.listed else []


def find_image(folder: Path, url: str) -> Path | None:
    """Returns the file under `folder` at the longest suffix of the URL's path, or `None`; see `ImageFiles.find`."""
    name = ImageFiles(folder, listed=False).find(url).name
    return None if name is None else folder / name
