"""From bytes that nobody vouches for to an RGB picture, or to an error that says what is wrong with them."""

from __future__ import annotations

import base64
import binascii
import io

from PIL import Image, ImageOps, UnidentifiedImageError

from serving.errors import ApiError
from serving.settings import ServingSettings

# An allow-list: some of Pillow's other readers start programs or follow references in the file.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*")
_MAX_ASPECT = 100


def decode_image(data: bytes, settings: ServingSettings) -> Image.Image:
    """Returns the picture in `data`: its first frame, RGB, upright, transparency on white, shrunk to `max_image_side`.

    Raises:
        ApiError: 422 nothing given or too thin to be a picture; 413 too many bytes or, as the header declares, too many
            pixels; 415 not a picture; 400 a picture that cannot be decoded to its end.
    """
    if not data:
        raise ApiError(422, "missing_image", "the image is empty; send the picture's bytes", param="image")
    if len(data) > settings.max_image_bytes:
        raise too_many_bytes(settings)
    image = _open(data, settings)
    width, height = image.size
    if width * height > settings.max_image_pixels:
        raise _too_many_pixels(f"{width} x {height}", settings)
    if max(width, height) > _MAX_ASPECT * min(width, height):
        raise ApiError(422, "image_too_thin", f"an image of {width} x {height} pixels is too thin", param="image")
    try:
        side = settings.max_image_side
        if max(width, height) > side:
            image.thumbnail((side, side))  # lets the JPEG reader skip what would be thrown away
        return _flatten(ImageOps.exif_transpose(image))
    except Exception as error:  # whatever a decoder raises on hostile bytes, the bytes are at fault
        raise _broken(error) from error


def parse_data_uri(uri: str, settings: ServingSettings) -> bytes:
    """Returns the bytes of a `data:image/...;base64,...` URI; its length is checked before it is decoded.

    Raises:
        ApiError: 400 malformed, 413 over the byte limit.
    """
    header, comma, payload = uri.partition(",")
    if not comma or not header.lower().endswith(";base64"):
        raise ApiError(400, "malformed_data_uri", "write the image as data:image/jpeg;base64,...", param="image")
    if (len(payload) - payload.count("=", -2)) * 3 // 4 > settings.max_image_bytes:
        raise too_many_bytes(settings)
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ApiError(400, "malformed_data_uri", f"the image's base64 is malformed: {error}", param="image") from error


def too_many_bytes(settings: ServingSettings) -> ApiError:
    """Returns the error for a picture over the byte limit."""
    limit = settings.max_image_bytes
    size = f"{limit / 2**20:g} MiB" if limit >= 2**20 else f"{limit} bytes"
    return ApiError(413, "image_too_large", f"the image is larger than {size}", param="image")


def _too_many_pixels(size: str, settings: ServingSettings) -> ApiError:
    limit = f"{settings.max_image_pixels / 1e6:g} million"
    return ApiError(413, "too_many_pixels", f"the image has {size} pixels; at most {limit} are taken", param="image")


def _broken(error: Exception) -> ApiError:
    return ApiError(400, "broken_image", f"the image is truncated or damaged: {error}", param="image")


def _open(data: bytes, settings: ServingSettings) -> Image.Image:
    """Returns the picture with its header read and nothing decoded."""
    try:
        return Image.open(io.BytesIO(data), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_many_pixels("far too many", settings) from error
    except UnidentifiedImageError as error:
        if data.startswith(_MAGIC):  # the first bytes of a picture whose header is cut off
            raise _broken(error) from error
        message = f"this is not an image of a known format ({', '.join(FORMATS)})"
        raise ApiError(415, "not_an_image", message, param="image") from error
    except Exception as error:
        raise _broken(error) from error


def _flatten(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image)
    return image.convert("RGB")
