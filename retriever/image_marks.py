"""Recognizes files by their first and last bytes: TGA images, and what is wrong with a file that is no known image."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Literal

Problem = Literal["unknown_format", "damaged", "too_many_pixels", "too_thin", "unreadable"]
"""Kinds of problems with an image."""

_MARKS = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51")
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_AVIF_BRANDS = (b"avif", b"avis")
_TARGA = b"TRUEVISION-XFILE.\0"
_OTHERS = {
    b"%pdf": "a PDF; export its pages as images",
    b"<!doctype html": "a web page, not an image",
    b"<html": "a web page, not an image",
    b"8bps": "a Photoshop document; export it as PNG",
}
"""Other files that are called like images, by their beginnings in lower case."""
_HEAD = 16


def is_targa(file: str | IO[bytes], name: str) -> bool:
    """Returns whether a file is a TGA, by its end or name: at its start, other files could be taken for one."""
    if isinstance(file, str):
        with suppress(OSError), open(file, "rb") as stream:
            return is_targa(stream, name or file)
        return False
    try:
        file.seek(-len(_TARGA), os.SEEK_END)
        end = file.read(len(_TARGA))
    except (OSError, ValueError):  # too short
        end = b""
    file.seek(0)
    return end == _TARGA or name.lower().endswith(".tga")


def why_unidentified(file: str | IO[bytes], heic: bool, formats: Sequence[str]) -> tuple[Problem, str]:
    """Returns the kind of problem with a file that no reader recognizes, and the reason.

    Args:
        file: The file.
        heic: Whether there is a reader for HEIC.
        formats: The known formats, for the reason.
    """
    data = _first_bytes(file)
    if not data:
        return "unknown_format", "empty, not an image"
    brand = data[8:12] if data[4:8] == b"ftyp" else b""
    if brand in _HEIC_BRANDS and not heic:
        return "unknown_format", "HEIC, which needs pillow-heif (pip install pillow-heif)"
    webp = data.startswith(b"RIFF") and data[8:12] == b"WEBP"
    if webp or brand in _HEIC_BRANDS + _AVIF_BRANDS or data.startswith(_MARKS):
        return "damaged", "truncated or damaged: its header cannot be read"
    other = next((what for start, what in _OTHERS.items() if data.lower().startswith(start)), "")
    return "unknown_format", other or f"not an image of a known format ({', '.join(formats)})"


def _first_bytes(file: str | IO[bytes]) -> bytes:
    if isinstance(file, str):
        with open(file, "rb") as stream:
            return stream.read(_HEAD)
    file.seek(0)
    return file.read(_HEAD)
