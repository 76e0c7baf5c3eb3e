"""Reads images the same way everywhere: known formats only, upright, RGB, transparency on white or what contrasts."""

from __future__ import annotations

import functools
import io
import math
import os
import struct
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, UnidentifiedImageError

from retriever.gray_levels import DEEP_MODES, to_eight_bits
from retriever.image_marks import Problem, is_targa, why_unidentified

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "HEIF", "ICO", "PPM", "TGA")
"""Supported formats, by Pillow's names. Its other readers are never used: the EPS reader starts Ghostscript."""

ALPHA = "omgm_alpha"
"""The key in an image's `info` for its alpha channel (mode L), if it had one: 255 is opaque."""

GROUND = "omgm_ground"
"""The key in an image's `info` for the gray level behind its transparent parts, if it is not white."""

MAX_ASPECT = 100
"""Highest ratio of longer to shorter side: resizing the shorter side of a thinner image could exhaust memory."""

ImageInput = Image.Image | NDArray[Any] | bytes | str | os.PathLike[str] | IO[bytes]
"""An image in memory, the bytes of a file, or a file: its path or a stream."""

_ANIMATED = ("GIF", "PNG", "WEBP", "AVIF", "TIFF")
"""Formats whose first frame may be empty; that of photographs with several (MPO) is not."""
_FRAMES = 10
_NOISE = 3
"""Levels by which the pixels of a single color may differ."""
_ORIENTATION = 0x0112
_WHITE, _PALE = 255, 232
"""Gray levels of white, and of the darkest color that is hardly visible on it."""
_HIDDEN = 0.97
"""Share of the visible pixels that may be pale before white hides the image."""
_TURNS: dict[object, Image.Transpose] = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""The transposition that makes an image upright, by EXIF orientation."""


class ImageError(ValueError):
    """An image that cannot be used.

    Args:
        problem: The kind of problem, for programs.
        reason: What is wrong, without the image's name.
        name: The image's name in the message.
    """

    def __init__(self, problem: Problem, reason: str, name: str = "") -> None:
        super().__init__(f"{name}: {reason}" if name else reason)
        self.problem, self.reason, self.name = problem, reason, name


ORIGINAL = "original size"
"""The key in an image's `info` for its size before it was shrunk."""


def load_image(
    source: ImageInput, name: str = "", *, max_pixels: int | None = None, max_side: int | None = None
) -> Image.Image:
    """Reads an image and prepares it as `prepare_image` does.

    Args:
        source: The image.
        name: The image's name in errors; by default the path, if there is one.
        max_pixels: Most pixels to decode, according to the header; by default Pillow's own limit.
        max_side: Longest side of the result in pixels; a larger image is shrunk by a whole number.

    Returns:
        The image in RGB; a PIL image that needs no preparation is returned itself.

    Raises:
        ImageError: The image has an unknown format, is damaged, too large or too thin, or the file cannot be read.
        TypeError: `source` is not an `ImageInput`.
    """
    if isinstance(source, np.ndarray):
        source = _from_array(source, name)
    if isinstance(source, Image.Image):
        _check_size(source, max_pixels, name)
        return _decode(source if max_side is None else source.copy(), max_side, name)
    if isinstance(source, str | os.PathLike):
        name = name or os.fspath(source)
    with open_image(source, name, max_pixels=max_pixels) as opened:
        image = _decode(opened, max_side, name, first_shown=True)
        return image.copy() if image is opened else image


def is_plain(image: Image.Image) -> bool:
    """Returns whether an image has only one color, as one that a decoder does not understand may come out."""
    extrema = image.convert("RGB").getextrema()
    return all(high - low <= _NOISE for low, high in extrema)  # type: ignore[misc]  # one pair per channel


def prepare_image(image: Image.Image) -> Image.Image:
    """Returns an image as models take it: upright, RGB, its first frame that shows anything, with 8 bits.

    Transparency becomes white or, if white would hide what is visible, black. Gray with more bits is scaled by its
    range (`retriever.gray_levels`). An image that needs no preparation is returned itself.
    """
    return _prepare(image, None)


def open_image(
    file: bytes | bytearray | memoryview | str | os.PathLike[str] | IO[bytes],
    name: str = "",
    *,
    max_pixels: int | None = None,
) -> ImageFile.ImageFile:
    """Opens an image of a known format: reads and checks its header, without decoding its pixels.

    Raises:
        ImageError: As for `load_image`, except that the pixels may still turn out to be damaged.
        TypeError: `file` is of another type.
    """
    if isinstance(file, str) and file.startswith(("http://", "https://", "data:", "file:")):
        raise ImageError("unreadable", "a URL; download it and pass its bytes", (name or file)[:100])
    if isinstance(file, bytes | bytearray | memoryview):
        file = io.BytesIO(file)
    elif isinstance(file, str | os.PathLike):
        file = os.path.expanduser(file)
    elif not hasattr(file, "read"):
        raise TypeError(f"an image must be a path, bytes, a stream, a PIL image or an array, got {type(file).__name__}")
    try:
        image = Image.open(file, formats=("TGA",) if is_targa(file, name) else _decoders())
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ImageError("too_many_pixels", "far too many pixels; scale it down", name) from error
    except UnidentifiedImageError as error:
        raise ImageError(*why_unidentified(file, "HEIF" in _decoders(), FORMATS), name) from error
    except Exception as error:  # damaged bytes make Pillow's readers raise nearly anything
        raise _damaged(error, name) from error
    try:
        _check_size(image, max_pixels, name)
    except ImageError:
        image.close()
        raise
    return image


def _decode(image: Image.Image, max_side: int | None, name: str, first_shown: bool = False) -> Image.Image:
    try:
        if first_shown and image.format in _ANIMATED:
            _seek_first_shown(image)
        return _prepare(image, max_side)
    except Exception as error:  # as in open_image
        raise _damaged(error, name) from error


def encoded(image: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    """Encodes an image as the bytes of a file; `options` are Pillow's options for the format."""
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def _prepare(image: Image.Image, max_side: int | None) -> Image.Image:
    size = image.size
    prepared = _prepared(image, max_side)
    if max_side is not None and max(size) > max_side:
        turned = (size[0] < size[1]) != (prepared.width < prepared.height)
        prepared.info[ORIGINAL] = size[::-1] if turned else size
    return prepared


def _prepared(image: Image.Image, max_side: int | None) -> Image.Image:
    shrunk = image if max_side is None or max(image.size) <= max_side else _shrunk(image, max_side)
    image.load()  # some readers know the orientation, or apply it themselves, only after reading the whole file
    turn = _TURNS.get(_orientation(image))
    if shrunk.mode == "RGB" and turn is None and not shrunk.has_transparency_data:
        return shrunk
    rgb = _to_rgb(shrunk)
    upright, alpha = _turned(rgb, turn), rgb.info.get(ALPHA)
    # Without the orientation, so that preparing the image again does not turn it again.
    upright.info = {GROUND: rgb.info[GROUND]} if GROUND in rgb.info else {}
    if alpha is not None:
        upright.info[ALPHA] = _turned(alpha, turn)
    return upright


def _seek_first_shown(image: Image.Image) -> None:
    """Goes to the first frame with more than one color or, if there is none among the first ones, to the first."""
    frames = getattr(image, "n_frames", 1)
    for frame in range(min(frames, _FRAMES) if frames > 1 else 0):
        image.seek(frame)
        if not is_plain(_to_rgb(image)):
            return
    image.seek(0)


def _turned(image: Image.Image, turn: Image.Transpose | None) -> Image.Image:
    return image if turn is None else image.transpose(turn)


def _shrunk(image: Image.Image, side: int) -> Image.Image:
    """Returns an image whose longest side has at most `side` pixels, and at least half of that: means of squares.

    Of 12 million pixels, this takes a tenth of resampling's time. It comes first, so that one large copy exists.
    """
    if image.mode not in ("RGBA", "LA"):
        if image.has_transparency_data:
            image = image.convert("RGBA")
        elif image.mode not in ("RGB", "L"):  # such as palette indices, which cannot be averaged
            image = _to_rgb(image)
    halvings = min(math.ceil(max(image.size) / side).bit_length() - 1, 3)
    image.draft(None, (image.width >> halvings, image.height >> halvings))  # JPEG's reader halves, others do nothing
    return image.reduce(math.ceil(max(image.size) / side))


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode in DEEP_MODES:
        image = to_eight_bits(image)
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    ground = _ground_of(image)
    rgb = Image.alpha_composite(Image.new("RGBA", image.size, (ground, ground, ground, 255)), image).convert("RGB")
    rgb.info = {ALPHA: image.getchannel("A"), **({} if ground == _WHITE else {GROUND: ground})}
    return rgb


def _ground_of(image: Image.Image) -> int:
    """Returns the gray level to put behind an RGBA image: white, or black if what is visible is nearly white."""
    seen = np.asarray(image.getchannel("A"), np.float32)
    pale = seen[np.asarray(image.convert("RGB").convert("L")) >= _PALE].sum()
    return 0 if seen.any() and pale >= _HIDDEN * seen.sum() else _WHITE


def _orientation(image: Image.Image) -> object:
    try:
        return image.getexif().get(_ORIENTATION)
    except (SyntaxError, ValueError, struct.error):  # only the metadata is damaged
        return None


def _from_array(array: NDArray[Any], name: str) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    color = array.ndim == 3 and array.shape[2] in (3, 4) and array.dtype == np.uint8
    gray = array.ndim == 2 and array.dtype in (np.uint8, np.uint16)
    if not (color or gray):
        expected = "expected uint8 [H, W], [H, W, 3] (RGB) or [H, W, 4] (RGBA)"
        raise ImageError("unknown_format", f"{expected}, got {array.dtype} {list(array.shape)}", name or "array")
    return Image.fromarray(np.ascontiguousarray(array))


def _check_size(image: Image.Image, max_pixels: int | None, name: str) -> None:
    width, height = image.size
    if max_pixels is not None and width * height > max_pixels:
        limit = f"{max_pixels / 1e6:g} million"
        raise ImageError("too_many_pixels", f"{width} x {height} pixels, more than {limit}", name)
    if not width or not height or max(width, height) > MAX_ASPECT * min(width, height):
        raise ImageError("too_thin", f"{width} x {height} pixels: too thin", name)


@functools.cache
def _decoders() -> tuple[str, ...]:
    """Returns the formats that can be decoded here and recognized by their start; Pillow has no HEIC decoder."""
    try:
        import pillow_heif
    except ImportError:
        return tuple(format for format in FORMATS if format not in ("TGA", "HEIF"))
    pillow_heif.register_heif_opener()
    return tuple(format for format in FORMATS if format != "TGA")


def _damaged(error: Exception, name: str) -> ImageError:
    if isinstance(error, OSError) and error.errno is not None:
        return ImageError("unreadable", f"cannot be read: {error.strerror}", name)
    return ImageError("damaged", f"truncated or damaged: {type(error).__name__}: {str(error).strip()}", name)
