"""From bytes that nobody vouches for to the JPEG file that is kept."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

from PIL import Image, ImageOps, UnidentifiedImageError

from indexes.images import thumbnail, to_rgb
from omgm.downloads.images.reasons import Failure

# An allow-list: some of Pillow's other readers start programs or follow references in the file.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MAX_PIXELS = 64_000_000
"""Pixels that are decoded, as the header declares them; a transparent PNG of so many takes 560 MB."""
QUALITY = 90
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*")


def as_jpeg(data: bytes, side: int) -> bytes:
    """Returns the picture in `data` as a JPEG: first frame, RGB, upright, no side longer than `side`, no metadata.

    Raises:
        Failure: There is no picture, or it is damaged or has too many pixels; the header is read first.
    """
    if not data:
        raise Failure("empty")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise Failure("too_many_pixels", f"{width} x {height}")
            picture = _scalable(image)
            # First of all, so that one large copy is the most there is; the JPEG reader then skips most of the work.
            picture.thumbnail((side, side), Image.Resampling.LANCZOS)
            return thumbnail(to_rgb(ImageOps.exif_transpose(picture)), side, QUALITY)
    except Failure:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise Failure("too_many_pixels", str(error)) from error
    except Exception as error:  # whatever a decoder raises on hostile bytes, the bytes are at fault
        unknown = isinstance(error, UnidentifiedImageError) and not data.startswith(_MAGIC)
        detail = f"begins with {data[:12]!r}" if unknown else f"{type(error).__name__}: {error}"
        raise Failure("not_a_picture" if unknown else "damaged", detail) from error


def _scalable(image: Image.Image) -> Image.Image:
    """Returns a picture in a mode whose pixels can be averaged: no palette, no color that means transparent."""
    if image.mode in ("RGBA", "LA"):
        return image
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image if image.mode in ("RGB", "L") else to_rgb(image)


def store(data: bytes, side: int, path: Path, partial: Path) -> int:
    """Writes the picture in `data` to `path` by way of `partial`, and returns its bytes there.

    Raises:
        Failure: As `as_jpeg`.
        OSError: The disk is full, or the folder cannot be written.
    """
    content = as_jpeg(data, side)
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _move(partial, path)
    return len(content)


def repeat(existing: Path, path: Path, partial: Path) -> None:
    """Gives a stored picture a second name: a hard link, or a copy where the file system has none."""
    partial.unlink(missing_ok=True)
    try:
        os.link(existing, partial)
    except OSError:
        shutil.copyfile(existing, partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
    _move(partial, path)
    partial.unlink(missing_ok=True)  # a rename to another link of the same file does nothing


def _move(partial: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.replace(partial, path)
