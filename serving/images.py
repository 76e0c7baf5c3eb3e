"""From untrusted bytes to an RGB image, or to an error that says what is wrong with them."""

from __future__ import annotations

import base64
import binascii

from PIL import Image

from retriever.images import ImageError, load_image
from serving.errors import ApiError
from serving.settings import ServingSettings

_ERRORS = {
    "unknown_format": (415, "not_an_image"),
    "damaged": (400, "broken_image"),
    "unreadable": (400, "broken_image"),
    "too_many_pixels": (413, "too_many_pixels"),
    "too_thin": (422, "image_too_thin"),
}


def decode_image(data: bytes, settings: ServingSettings) -> Image.Image:
    """Returns the image in `data`: its first frame, RGB, upright, transparency on white, shrunk to `max_image_side`.

    Raises:
        ApiError: 422 empty, or too thin to be an image; 413 too many bytes or, as the header declares, too many
            pixels; 415 not an image; 400 an image that cannot be decoded to its end.
    """
    if not data:
        raise ApiError(422, "missing_image", "the image is empty; send the bytes of an image file", param="image")
    if len(data) > settings.max_image_bytes:
        raise too_many_bytes(settings)
    try:
        return load_image(data, "the image", max_pixels=settings.max_image_pixels, max_side=settings.max_image_side)
    except ImageError as error:
        status, code = _ERRORS[error.problem]
        raise ApiError(status, code, str(error), param="image") from error


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
    """Returns the error for an image over the byte limit."""
    limit = settings.max_image_bytes
    size = f"{limit / 2**20:g} MiB" if limit >= 2**20 else f"{limit} bytes"
    return ApiError(413, "image_too_large", f"the image is larger than {size}", param="image")
