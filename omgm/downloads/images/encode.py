"""Converts untrusted bytes to stored JPEG files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from indexes.knowledge.sources import thumbnail
from indexes.knowledge.svg import load_any
from omgm.downloads.images.reasons import Failure
from retriever.files import replacing, write_whole
from retriever.images import ImageError

MAX_PIXELS = 64_000_000
"""Maximum number of pixels that are decoded, by the header; a transparent PNG of that size takes 560 MB."""
QUALITY = 90
_REASONS = {
    "unknown_format": "not_a_picture",
    "damaged": "damaged",
    "unreadable": "damaged",
    "too_many_pixels": "too_many_pixels",
    "too_thin": "too_thin",
}


def as_jpeg(data: bytes, side: int) -> bytes:
    """Converts `data` to a JPEG: first frame, RGB, upright, no side longer than `side` pixels, no metadata.

    Raises:
        Failure: It is not an image, is damaged or too thin, or its header declares too many pixels.
    """
    if not data:
        raise Failure("empty")
    try:
        image = load_any(data, max_pixels=MAX_PIXELS, max_side=side)
    except ImageError as error:
        begin = f"; begins with {data[:12]!r}" if error.problem == "unknown_format" else ""
        raise Failure(_REASONS[error.problem], f"{error}{begin}") from error
    return thumbnail(image, side, QUALITY)


def store(data: bytes, side: int, path: Path, temporary: Path) -> int:
    """Writes the image in `data` to `path` via `temporary`, and returns the size of the file in bytes.

    Raises:
        Failure: As for `as_jpeg`.
        OSError: The disk is full, or the folder cannot be written.
    """
    content = as_jpeg(data, side)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content, temporary)
    return len(content)


def repeat(existing: Path, path: Path, temporary: Path) -> None:
    """Gives a stored image a second name: a hard link, or a copy if the file system has none."""
    temporary.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, temporary):
        try:
            os.link(existing, temporary)
        except OSError:
            shutil.copyfile(existing, temporary)
    temporary.unlink(missing_ok=True)  # renaming one link of a file to another does nothing
