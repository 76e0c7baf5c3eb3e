"""E-books: chapters in reading order, with the pictures in the archive."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from indexes.knowledge.document import Block, Document, Heading, Picture
from indexes.knowledge.embedded import EmbeddedImages
from indexes.knowledge.readers import Entry, Folder
from indexes.knowledge.readers.epub import EPUB
from tests.fakes.images import image_bytes

CONTAINER = """<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0">
<rootfiles><rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
BOOK = """<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">
<metadata><dc:title>Animals</dc:title><dc:creator>Nora</dc:creator><dc:creator>Ada</dc:creator></metadata><manifest>
<item id="fox" href="text/1%20fox.xhtml" media-type="application/xhtml+xml"/>
<item id="hen" href="text/2.xhtml" media-type="application/xhtml+xml"/>
<item id="gone" href="text/3.xhtml" media-type="application/xhtml+xml"/>
<item id="red" href="pics/red%20one.png" media-type="image/png"/></manifest>
<spine><itemref idref="hen"/><itemref idref="fox"/><itemref idref="red"/><itemref idref="gone"/></spine></package>"""
FOX = """<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body>
<h1>Fox</h1><p>It is <a id="red"/>red.</p><img src="../pics/red%20one.png" alt="A fox"/><img src="https://a.example/b.png"/>
</body></html>"""
FILES: dict[str, str | bytes] = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": CONTAINER,
    "OPS/book.opf": BOOK,
    "OPS/text/1 fox.xhtml": FOX,
    "OPS/text/2.xhtml": "<html><head><title>Hen</title></head><body><p>It lays eggs.</p></body></html>",
    "OPS/pics/red one.png": image_bytes("red"),
}


def write_book(path: Path, files: dict[str, str | bytes]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def entries(book: Path, root: Path) -> list[Entry]:
    return list(EPUB.read(book, Folder(root, [book])))


def test_the_chapters_of_a_book(tmp_path: Path) -> None:
    book = write_book(tmp_path / "books" / "animals.epub", FILES)
    (_, hen), (place, fox), (_, gone) = entries(book, tmp_path)
    assert isinstance(fox, Document) and isinstance(hen, Document) and hen.title == "Hen"
    assert place == f"{book}: OPS/text/1 fox.xhtml" and fox.id == "books/animals.epub/OPS/text/1 fox.xhtml"
    image = "embedded:books/animals.epub#OPS/pics/red one.png"
    pictures = (Picture(image, "A fox"), Picture("https://a.example/b.png"))
    assert fox.parts == [Heading(1, "Fox"), Block("It is red."), Block("", pictures)]
    assert EmbeddedImages(tmp_path).read(image) == image_bytes("red")
    assert isinstance(gone, ValueError) and "3.xhtml" in str(gone)


def test_books_that_cannot_be_read(tmp_path: Path) -> None:
    locked = '<encryption><CipherReference URI="OPS/text/2.xhtml"/></encryption>'
    book = write_book(tmp_path / "a.epub", FILES | {"META-INF/encryption.xml": locked})
    (_, hen), (_, fox), _ = entries(book, tmp_path)
    assert isinstance(fox, Document) and isinstance(hen, ValueError) and "copy protection" in str(hen)
    bomb = BOOK.replace("<package", '<!DOCTYPE package [<!ENTITY a "b">]><package')
    for files in ({}, FILES | {"OPS/book.opf": "<package>"}, FILES | {"OPS/book.opf": bomb}):
        write_book(book, files)
        with pytest.raises(ValueError, match=r"a\.epub: "):
            entries(book, tmp_path)
    book.write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match=r"a\.epub: not an EPUB, or damaged"):
        entries(book, tmp_path)
    assert EPUB.recognizes(book, b"PK\x03\x04") and not EPUB.recognizes(book, b"<html>")
