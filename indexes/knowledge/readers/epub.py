"""E-books in EPUB: each chapter is a document, with the pictures inside the archive."""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

from indexes.html_source import decode_html
from indexes.knowledge.document import Heading, Part
from indexes.knowledge.embedded import PREFIX, embedded_name, is_embedded_image
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.html import document_of_page

_CONTAINER, _LOCKS = "META-INF/container.xml", "META-INF/encryption.xml"
_DAMAGE = (KeyError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error)
_LARGEST = 1 << 26  # most bytes of a chapter


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the chapters of a book in reading order; their ids are `PATH_OF_BOOK/path/of/chapter`.

    Raises:
        ValueError: The file is not an EPUB, or damaged.
    """
    path = file.relative_to(folder.root).as_posix()
    try:
        with zipfile.ZipFile(file) as archive:
            # the fonts of free books often are encrypted, too
            locks = _elements(archive, _LOCKS, "CipherReference") if _LOCKS in archive.namelist() else []
            encrypted = {unquote(lock.get("URI", "")) for lock in locks}
            for chapter in _chapters(archive):
                place = f"{file}: {chapter}"
                try:
                    if chapter in encrypted:
                        raise ValueError("encrypted; save the book without copy protection")
                    document = document_of_page(decode_html(_content(archive, chapter)), chapter)
                except _DAMAGE as error:
                    yield place, ValueError(f"{place}: {error}; save the book again")
                    continue
                document.id = f"{path}/{chapter}"
                document.parts = [_within(part, chapter, path) for part in document.parts]
                yield place, document
    except (*_DAMAGE, ElementTree.ParseError) as error:
        raise ValueError(f"{file}: not an EPUB, or damaged ({error}); save the book again") from error


def _chapters(archive: zipfile.ZipFile) -> list[str]:
    """Returns the paths of the chapters in order."""
    package = next((root.get("full-path", "") for root in _elements(archive, _CONTAINER, "rootfile")), "")
    files = {item.get("id", ""): item for item in _elements(archive, package, "item")}
    items = (files.get(reference.get("idref", "")) for reference in _elements(archive, package, "itemref"))
    pages = (item for item in items if item is not None and "html" in item.get("media-type", ""))
    return list(dict.fromkeys(_joined(package, page.get("href", "")) for page in pages))


def _elements(archive: zipfile.ZipFile, name: str, tag: str) -> list[ElementTree.Element]:
    """Returns the elements with a name, in any namespace.

    Raises:
        ValueError: The file declares entities, which could be as large as they like.
    """
    content = _content(archive, name)
    if b"<!ENTITY" in content:
        raise ValueError(f"{name} declares entities, which are not read")
    return [node for node in ElementTree.fromstring(content).iter() if str(node.tag).rpartition("}")[2] == tag]


def _content(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _LARGEST:
        raise ValueError(f"{name} is larger than {_LARGEST >> 20} MiB")
    return archive.read(name)


def _within(part: Part, chapter: str, book: str) -> Part:
    """Returns a part of a chapter with the pictures named as files inside the book."""
    if isinstance(part, Heading) or not part.pictures:
        return part
    return replace(
        part, pictures=tuple(replace(image, url=_embedded(image.url, chapter, book)) for image in part.pictures)
    )


def _embedded(url: str, chapter: str, book: str) -> str:
    if is_embedded_image(url):
        return embedded_name(f"{book}#{chapter}", url)
    return url if urlsplit(url).scheme or url.startswith("//") else f"{PREFIX}{book}#{_joined(chapter, url)}"


def _joined(file: str, url: str) -> str:
    """Returns the path in the archive of what a file in it names."""
    path = unquote(urlsplit(url).path)
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(file), path)).lstrip("/")


EPUB = Reader("epub", (".epub",), lambda path, beginning: beginning.startswith(b"PK"), _read)
"""E-books."""
