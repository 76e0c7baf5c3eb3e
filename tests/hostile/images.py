"""Makes malicious image files: damaged ones, polyglots and decompression bombs."""

from __future__ import annotations

import functools
import gzip
import random
import struct
import zlib
from collections.abc import Callable

from PIL import Image, ImageDraw

from retriever.images import encoded

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000")


@functools.cache
def whole_image(kind: str, size: tuple[int, int] = (96, 64), seed: int = 0) -> bytes:
    """Returns a small valid image file in a format."""
    draw = random.Random(seed)
    image = Image.new("RGB", size, (draw.randrange(256), 40, 90))
    pen = ImageDraw.Draw(image)
    for _ in range(6):
        x, y = draw.randrange(size[0]), draw.randrange(size[1])
        pen.ellipse((x, y, x + 30, y + 20), (draw.randrange(256), draw.randrange(256), 0))
    return encoded(image, kind)


def hostile_image(draw: random.Random) -> tuple[str, bytes]:
    """Returns the kind of damage and a file that is not a valid image."""
    kind = draw.choice(FORMATS)
    whole = whole_image(kind, seed=draw.randrange(50))
    wrong = draw.choice(("flipped", "truncated", "spliced", "polyglot", "bomb", "noise", "chunks"))
    if wrong == "flipped":
        data = bytearray(whole)
        for _ in range(draw.choice((1, 3, 20, 200))):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        return f"{kind} flipped", bytes(data)
    if wrong == "truncated":
        return f"{kind} truncated", whole[: draw.randrange(len(whole))]
    if wrong == "spliced":
        other = whole_image(draw.choice(FORMATS))
        return "spliced", whole[: draw.randrange(len(whole))] + other[draw.randrange(len(other)) :]
    if wrong == "polyglot":
        return "polyglot", draw.choice(_POLYGLOTS)(whole)
    if wrong == "bomb":
        return "bomb", draw.choice(_BOMBS)(draw)
    if wrong == "chunks":
        return "chunks", _png(48, 48, zlib.compress(bytes(48 * 49)), draw.choice(_CHUNKS))
    return "noise", draw.choice((b"", b"\xff\xd8\xff", b"II*\0", b"GIF89a")) + draw.randbytes(draw.randrange(3000))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _png(width: int, height: int, pixels: bytes, more: bytes = b"", depth: int = 8) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + more + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


@functools.cache
def _black(width: int, height: int) -> bytes:
    """Returns a valid PNG with one bit per pixel: tens of kilobytes that decompress to tens of megabytes."""
    return _png(width, height, zlib.compress(bytes((width + 7) // 8 + 1) * height), depth=1)


def _gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + whole_image("GIF")[10:]


def _tiff(draw: random.Random) -> bytes:
    """Returns a TIFF whose directory has arbitrary entries or refers to itself."""
    tags = [(draw.choice((256, 257, 258, 259, 262, 273, 277, 278, 279, 34665)), draw.randrange(14)) for _ in range(12)]
    values = [struct.pack("<HHII", tag, kind, draw.choice((1, 2**31)), draw.randrange(2**32)) for tag, kind in tags]
    return b"II*\0" + struct.pack("<IH", 8, len(values)) + b"".join(values) + struct.pack("<I", 8)


_ZIPPED = zlib.compress(bytes(32 * 2**20))  # 32 MiB in 32 KB
_BOMBS: tuple[Callable[[random.Random], bytes], ...] = (
    lambda draw: _black(draw.randrange(6000, 6500, 100), 6000),  # large, but allowed
    lambda _: _black(12_000, 12_000),
    lambda _: _png(2**31 - 1, 2**31 - 1, b"\0"),
    lambda _: _png(1, 60_000_000, b"\0"),
    lambda _: _png(64, 64, _ZIPPED),  # far more pixels than the header says
    lambda _: _gif(65535, 65535),
    lambda _: b"BM" + struct.pack("<IHHIIiiHHIIiiII", 100, 0, 0, 54, 40, 2**30, -(2**30), 1, 24, 0, 0, 0, 0, 0, 0),
    _tiff,
)
_CHUNKS = (
    _chunk(b"zTXt", b"Comment\0\0" + _ZIPPED),
    _chunk(b"iTXt", b"Comment\0\1\0\0\0" + _ZIPPED),
    _chunk(b"iCCP", b"profile\0\0" + _ZIPPED),
    _chunk(b"eXIf", b"II*\0" + struct.pack("<IHHHIII", 8, 1, 274, 3, 2**31, 99, 8)),
    _chunk(b"acTL", struct.pack(">II", 2**31 - 1, 0)) + _chunk(b"fcTL", bytes(26)),
    _chunk(b"PLTE", bytes(7)),
    _chunk(b"tEXt", bytes(100)) * 500,
)
_POLYGLOTS: tuple[Callable[[bytes], bytes], ...] = (
    lambda image: image + b"PK\3\4" + bytes(26) + b"<script>alert(1)</script>",
    lambda image: image + b"<?php system($_GET[0]); ?>" * 50,
    lambda image: b"%PDF-1.7\n" + image,
    lambda image: b"GIF89a/*" + image + b"*/=1;alert(1)",
    lambda _: b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
    lambda _: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file\n",
    lambda _: b"\0\0\0\x20ftypheic" + bytes(300),
    lambda image: gzip.compress(image, mtime=0),
    lambda image: b"MZ" + image,
)
