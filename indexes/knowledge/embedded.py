"""Images inside files that are something else: base64 and `data:` addresses in text, members of archives, rows.

Such an image is named `embedded:FILE#NAME`. FILE is a path relative to the folder that is read; NAME is a hash of the
base64 if it stands in a text, else its path in an archive, or its column and row in a table.
"""

from __future__ import annotations

import base64
import html
import mmap
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote_to_bytes

from indexes.decoding import PACKED, opened
from indexes.knowledge.file_names import KeyTable

PREFIX = "embedded:"
ARCHIVES = (".zip", ".epub")
"""Extensions of files whose members are read."""

_LARGEST = 64 << 20  # most bytes of an image, and of base64
_LARGEST_TEXT = 512 << 20  # most bytes of a compressed file that are looked at
_SHORTEST = 100  # fewest characters of base64; shorter ones are placeholders of one pixel
_WIDEST = 1000  # longest line of base64 that others may follow
_HEAD = 1000  # characters of base64 that tell the kind of an image
_KINDS = {
    ".png": re.compile(rb"\x89PNG\r\n"),
    ".jpg": re.compile(rb"\xff\xd8\xff"),
    ".gif": re.compile(rb"GIF8[79]a"),
    ".webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
    ".bmp": re.compile(rb"BM....\0\0\0\0", re.DOTALL),
    ".tif": re.compile(rb"II\*\0|MM\0\*"),
    ".avif": re.compile(rb"\0\0\0.ftyp(?:avif|avis|mif1|heic|heix)", re.DOTALL),
    ".svg": re.compile(rb"\s*<(?:svg\b|[?!].*<svg\b)", re.DOTALL),
}
"""The first bytes of images, by extension."""
_START = re.compile(
    rb"(?:[/_]|\\/|\\u002[fF]|%2[fF]|&#(?:47|x2[fF]);)9j|AAAA..Z0eXB|Qk.{6,16}AAAA"
    rb"|iVBORw|R0lGOD|UklGR|SUkqA|TU0AK|PHN2Zy|PD94bW",
    re.DOTALL,
)
"""The first characters of images in base64, of which some may be escaped."""
_LINE = re.compile(
    rb"((?:[A-Za-z0-9+/_-]++|\\/|\\u002[bBfF]|%2[bBfF]|&#(?:43|47|x2[bBfF]);)++)"
    rb"((?:=|%3[dD]|\\u003[dD]|&#(?:61|x3[dD]);){0,2}+)"
    rb"(?:\s|\\[nrt]|\\u000[aAdD]|%0[aAdD]|%20|&#(?:1[03]|x[aAdD]);){0,40}+"
)
"""A line of base64, what fills up the last one, and the end of the line; each may be escaped."""
_DRAWING = re.compile(
    rb"data:image\\?/svg(?i:\+|%2B|\\u002B)xml(?:(?!base64)[^,\"'<]){0,60},"
    rb"(.{1,200000}?(?i:(?:<|%3C|\\u003C|&lt;)(?:\\?/|%2F)svg(?:>|%3E|\\u003E|&gt;)))",
    re.DOTALL,
)
"""The address of a drawing that is not in base64."""
_ADDRESS = re.compile(r"\s*data:([\w/+.-]*)([^,]{0,60}),\s*", re.IGNORECASE)
_ESCAPED = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ROWS = {".parquet": "parquet", ".toml": "source_file", ".zim": "zim"} | dict.fromkeys(
    (".db", ".sqlite", ".sqlite3"), "database"
)
"""The modules of `indexes.knowledge.readers` with a function `image_bytes(file, name)`, by extension."""


def is_embedded_image(text: str) -> bool:
    """Returns whether a text is an image: a `data:` address, or nothing but base64; looks at its beginning only."""
    address = _ADDRESS.match(text, 0, 200)
    if address is not None and "base64" not in address[2].lower():
        return _DRAWING.match(text.strip().encode(errors="replace")) is not None
    return len(text) >= _SHORTEST and bool(_kind_of(_blocks(*_content_of(text[: 3 * _HEAD]))[0]))


def embedded_name(file: str, data: str) -> str:
    """Returns the name of an image that stands in a text file, "" if it is none, or a placeholder of one pixel.

    The name is the same for each way to escape it and to break its lines.

    Args:
        file: The path of the file relative to the folder that is read; `book.epub#text/1.xhtml` in an archive.
        data: The `data:` address, or the base64.
    """
    image = next(_images_at(*_content_of(data)), None)
    return f"{PREFIX}{file}#{image[0]}" if image is not None else ""


def _content_of(data: str) -> tuple[bytes, int]:
    """Returns a `data:` address or base64, and where its content begins; the address of a drawing is all content."""
    address = _ADDRESS.match(data.strip(), 0, 200)
    start = address.end() if address is not None and "base64" in address[2].lower() else 0
    return data.strip().encode(errors="replace"), start


class EmbeddedImages:
    """The images in files under a folder; thread-safe."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, name: str) -> bytes | None:
        """Returns the bytes of an image named `embedded:FILE#NAME`, or `None` if it is not there or not readable."""
        path = name.removeprefix(PREFIX)
        for place in (match.start() for match in re.finditer("#", path)):  # names of files may contain one as well
            file = self.root / path[:place].lstrip("/")
            if ".." not in path.split("/") and file.is_file():
                try:
                    return _read(file, path[place + 1 :])
                except (OSError, ValueError, KeyError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error):
                    return None  # damaged since it was read, encrypted, or in need of an extra
        return None


def _read(file: Path, name: str) -> bytes | None:
    suffix, changed = file.suffix.lower(), file.stat().st_mtime_ns
    if suffix in _ROWS:
        data: bytes | None = import_module(f"indexes.knowledge.readers.{_ROWS[suffix]}").image_bytes(file, name)
        return data
    member = ""
    if suffix in ARCHIVES:
        archive = _opened(file, changed)
        if name in archive.namelist():
            return archive.read(name) if archive.getinfo(name).file_size <= _LARGEST else None
        member, _, name = name.rpartition("#")
    starts = _places(file, member, changed)[name]
    with _content(file, member, changed) as text:
        images = (image for start in starts for image in _images_at(text, start))
        return next((data for key, data in images if key == name), None)


@lru_cache(maxsize=8)
def _opened(file: Path, changed: int) -> zipfile.ZipFile:
    return zipfile.ZipFile(file)


@contextmanager
def _content(file: Path, member: str, changed: int) -> Iterator[bytes | mmap.mmap]:
    """Gives the bytes of a text file, of a member of an archive, or of the only one."""
    if member or file.suffix in PACKED:
        yield _unpacked(file, member, changed)
    elif not file.stat().st_size:
        yield b""
    else:
        with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            yield mapped


@lru_cache(maxsize=1)
def _unpacked(file: Path, member: str, changed: int) -> bytes:
    with _opened(file, changed).open(member) if member else opened(file) as stream:
        return stream.read(_LARGEST_TEXT)


@lru_cache(maxsize=64)
def _places(file: Path, member: str, changed: int) -> KeyTable:
    """Returns where the images in a text begin, by their names."""
    with _content(file, member, changed) as text:
        return KeyTable((hash(name), start) for start in _starts(text) for name, _ in _images_at(text, start))


def _starts(text: bytes | mmap.mmap) -> Iterator[int]:
    yield from (match.start() for match in _DRAWING.finditer(text))
    for match in _START.finditer(text):
        start = match.start()
        if _kind_of(_blocks(text[start : start + 2 * _HEAD], 0)[0]):
            yield start


def _images_at(text: bytes | mmap.mmap, start: int) -> Iterator[tuple[str, bytes]]:
    """Yields the names and bytes of the images that may be at a place in a text, the likeliest first."""
    if (drawing := _DRAWING.match(text, start)) is not None:
        data = _plain(drawing[1])
        yield _hash(b"".join(data.split())) + ".svg", data
        return
    for digits in _blocks(text, start):
        if (kind := _kind_of(digits)) and len(digits) % 4 != 1:
            yield _hash(digits) + kind, base64.b64decode(digits + b"=" * (-len(digits) % 4))


def _blocks(text: bytes | mmap.mmap, start: int) -> list[bytes]:
    """Returns the base64 at a place in a text without line breaks, escapes and what fills it up.

    Lines belong together that are equally long; the first one may lack what is before it, and the last one is shorter.
    If the last one could be a word of the text after it, the base64 without it comes second.
    """
    lines, size, line = list[bytes](), 0, _LINE.match(text, start)
    while line is not None and size < _LARGEST:
        digits = _plain(line[1]).translate(_STANDARD)
        if len(lines) > 1 and len(digits) > len(lines[1]):
            break
        lines.append(digits)
        size += len(digits)
        if line[2] or len(digits) > _WIDEST or len(digits) < len(lines[-2:][0]):
            break
        line = _LINE.match(text, line.end())
    whole = b"".join(lines)
    return [whole] if len(lines) < 2 or line is None or line[2] else [whole, b"".join(lines[:-1])]


_STANDARD = bytes.maketrans(b"-_", b"+/")


def _plain(data: bytes) -> bytes:
    """Returns bytes without escapes of JSON, HTML and addresses."""
    if b"\\" in data:
        data = _ESCAPED.sub(_unescape, data)
    if b"&" in data:
        data = html.unescape(data.decode(errors="replace")).encode()
    return unquote_to_bytes(data) if b"%" in data else data


def _unescape(match: re.Match[bytes]) -> bytes:
    if match[1]:
        return chr(int(match[1], 16)).encode(errors="replace")
    return {b"n": b"\n", b"r": b"\r", b"t": b"\t"}.get(match[2], match[2])


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def _kind_of(digits: bytes) -> str:
    """Returns the extension that fits the beginning of an image in base64, "" if it is none."""
    start = digits[: min(_HEAD, len(digits) // 4 * 4)]
    return image_kind(base64.b64decode(start)) if len(digits) >= _SHORTEST else ""


def image_kind(start: bytes) -> str:
    """Returns the extension that fits the first bytes of a file, "" if they are not those of an image."""
    return next((kind for kind, magic in _KINDS.items() if magic.match(start)), "")
