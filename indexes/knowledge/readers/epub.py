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

from indexes.knowledge.document import Block, Part, Picture, Table
from indexes.knowledge.embedded import PREFIX, embedded_name, is_embedded_image
from indexes.knowledge.readers import Entry, Folder, Reader
from indexes.knowledge.readers.html import document_of_page
from indexes.knowledge.readers.html_source import decode_html

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_DAMAGE = (KeyError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error)
_LARGEST = 1 << 26  # most bytes of a chapter


def _read(file: Path, folder: Folder) -> Iterator[Entry]:
    """Yields the chapters of a book in reading order; their ids are `PATH_OF_BOOK/path/of/chapter`.

    The book's title, authors and the like are settings (`dc:title`).

    Raises:
        ValueError: The file is not an EPUB, or damaged.
    """
    path = file.relative_to(folder.root).as_posix()
    try:
        with zipfile.ZipFile(file) as archive:
            chapters, settings = _contents(archive)
            encrypted = _encrypted(archive)
            for chapter in chapters:
                place = f"{file}: {chapter}"
                if chapter in encrypted:
                    yield place, ValueError(f"{place}: encrypted; save the book without copy protection")
                    continue
                try:
                    document = document_of_page(decode_html(_content(archive, chapter)), chapter)
                except _DAMAGE as error:
                    yield place, ValueError(f"{place}: {error}; save the book again")
                    continue
                document.id, document.settings = f"{path}/{chapter}", {**settings, **document.settings}
                document.parts = [_within(part, chapter, path) for part in document.parts]
                yield place, document
    except (*_DAMAGE, ElementTree.ParseError) as error:
        raise ValueError(f"{file}: not an EPUB, or damaged ({error}); save the book again") from error


def _contents(archive: zipfile.ZipFile) -> tuple[list[str], dict[str, str]]:
    """Returns the paths of the chapters in order, and the metadata of the book, such as `dc:title`."""
    roots = _elements(archive, _CONTAINER, "rootfile")
    package = roots[0].get("full-path", "") if roots else ""
    files = {one.get("id", ""): one for one in _elements(archive, package, "item")}
    chapters = list[str]()
    for reference in _elements(archive, package, "itemref"):
        item = files.get(reference.get("idref", ""))
        if item is not None and "html" in item.get("media-type", ""):
            chapters.append(_joined(package, item.get("href", "")))
    settings: dict[str, str] = {}
    for name in ("title", "creator", "language", "publisher", "date", "subject", "description"):
        texts = [" ".join((one.text or "").split()) for one in _elements(archive, package, name)]
        if any(texts):
            settings[f"dc:{name}"] = ", ".join(filter(None, texts))
    return list(dict.fromkeys(chapters)), settings


def _encrypted(archive: zipfile.ZipFile) -> set[str]:
    """Returns the paths of the files that are encrypted; those of fonts often are in free books, too."""
    if _ENCRYPTION not in archive.namelist():
        return set()
    return {unquote(one.get("URI", "")) for one in _elements(archive, _ENCRYPTION, "CipherReference")}


def _elements(archive: zipfile.ZipFile, name: str, tag: str) -> list[ElementTree.Element]:
    """Returns the elements with a name, in any namespace.

    Raises:
        ValueError: The file declares entities, which could be as large as they like.
    """
    content = _content(archive, name)
    if b"<!ENTITY" in content:
        raise ValueError(f"{name} declares entities, which are not read")
    return [one for one in ElementTree.fromstring(content).iter() if str(one.tag).rpartition("}")[2] == tag]


def _content(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _LARGEST:
        raise ValueError(f"{name} is larger than {_LARGEST >> 20} MiB")
    return archive.read(name)


def _within(part: Part, chapter: str, book: str) -> Part:
    """Returns a part of a chapter with the pictures named as files inside the book."""
    if isinstance(part, (Block, Table)) and part.pictures:
        return replace(part, pictures=tuple(_embedded(picture, chapter, book) for picture in part.pictures))
    return part


def _embedded(picture: Picture, chapter: str, book: str) -> Picture:
    if is_embedded_image(picture.url):
        return replace(picture, url=embedded_name(f"{book}#{chapter}", picture.url))
    if ":" in picture.url.partition("/")[0] or picture.url.startswith("//"):
        return picture
    return replace(picture, url=f"{PREFIX}{book}#{_joined(chapter, picture.url)}")


def _joined(file: str, url: str) -> str:
    """Returns the path in the archive of what a file in it names."""
    path = unquote(urlsplit(url).path)
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(file), path)).lstrip("/")


EPUB = Reader("epub", (".epub",), lambda path, beginning: beginning.startswith(b"PK"), _read)
"""E-books."""
