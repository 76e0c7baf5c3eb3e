"""Decodes untrusted bytes to an RGB image, or reports what is wrong with them."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from PIL import Image

from retriever.images import ImageError, load_image
from retriever.malloc import give_back_memory
from serving.errors import ApiError
from serving.settings import ServingSettings

_LARGE_S = 0.1
"""Seconds of decoding CPU time above which memory is returned to the system, which takes some 5 ms."""
_ERRORS = {
    "unknown_format": (415, "not_an_image"),
    "damaged": (400, "broken_image"),
    "unreadable": (400, "broken_image"),
    "too_many_pixels": (413, "too_many_pixels"),
    "too_thin": (422, "image_too_thin"),
}


def decode_image(data: bytes, settings: ServingSettings, load: Callable[..., Image.Image] = load_image) -> Image.Image:
    """Decodes the first frame of an image to RGB: upright, transparency on white, shrunk to `max_image_side`.

    Args:
        data: The bytes of the file.
        settings: The limits.
        load: Reads the image: `load_image`, or a function that knows more formats.

    Raises:
        ApiError: 422 if it is empty or too thin, 413 if it has too many bytes or its header declares too many pixels,
            415 if it is not an image, 400 if it cannot be decoded completely.
    """
    if not data:
        raise ApiError(422, "missing_image", "the image is empty; send the bytes of an image file", param="image")
    if len(data) > settings.max_image_bytes:
        raise too_many_bytes(settings)
    started = time.thread_time()
    try:
        return load(data, "image", max_pixels=settings.max_image_pixels, max_side=settings.max_image_side)
    except ImageError as error:
        status, code = _ERRORS[error.problem]
        setting = " (serving.max_image_pixels)" if error.problem == "too_many_pixels" else ""
        raise ApiError(status, code, f"{error}{setting}", param="image") from error
    finally:
        if time.thread_time() - started > _LARGE_S:
            give_back_memory()


_SMALLEST = 60  # bytes of an image; a path such as /srv/photos/1234 decodes, too


def parse_data_uri(uri: str, settings: ServingSettings) -> bytes:
    """Decodes a `data:image/...;base64,...` URI.

    Raises:
        ApiError: 400 if it is malformed, 413 if it exceeds the byte limit.
    """
    header, comma, payload = uri.partition(",")
    if not comma or not re.search(r";\s*base64\s*$", header, re.IGNORECASE):
        message = "the image's data URI must have the form data:image/jpeg;base64,..."
        raise ApiError(400, "malformed_data_uri", message, param="image")
    try:
        return _decode_base64(unquote(payload) if "%" in payload else payload, settings)
    except ValueError as error:
        raise ApiError(400, "malformed_data_uri", f"the image's base64 is malformed: {error}", param="image") from error


def parse_base64(text: str, settings: ServingSettings) -> bytes:
    """Decodes bare base64.

    Raises:
        ApiError: 422 if it is malformed, 413 if it exceeds the byte limit.
    """
    try:
        data = _decode_base64(text, settings)
        if text.count("/") > 1 and len(data) < _SMALLEST:
            raise ValueError(f"{len(data)} bytes are no image")
        return data
    except ValueError as error:
        message = f"image must be base64, a data URI or an http(s) URL; as base64 it is malformed: {error}"
        if Path(text[:200]).suffix or "/" in text[:200]:  # as in curl's -F image=photo.jpg
            message += "; to send a file, use a form (curl: -F image=@photo.jpg)"
        raise ApiError(422, "bad_image_url", message, param="image") from error


def too_many_bytes(settings: ServingSettings, what: str = "the image is") -> ApiError:
    """Returns the error for an image, or a body, over the byte limit."""
    limit = settings.max_image_bytes
    size = f"{limit / 2**20:g} MiB" if limit >= 2**20 else f"{limit} bytes"
    return ApiError(413, "image_too_large", f"{what} larger than {size} (serving.max_image_bytes)", param="image")


def _without_breaks(text: str) -> str:
    """Returns base64 without line breaks. Blanks are `+` that a form has decoded, unless they are where lines break."""
    text = text.strip()
    if " " not in text:
        return "".join(text.split())
    *lines, last = text.split()
    broken = all(len(line) == len(lines[0]) for line in lines) and len(lines[0]) >= max(60, len(last))
    return "".join((*lines, last)) if broken else "".join(text.replace(" ", "+").split())


def _decode_base64(text: str, settings: ServingSettings) -> bytes:
    """Decodes base64, standard or URL-safe, with or without line breaks and padding; checks the length first."""
    payload = _without_breaks(text).replace("-", "+").replace("_", "/")
    if (len(payload) - payload.count("=", -2)) * 3 // 4 > settings.max_image_bytes:
        raise too_many_bytes(settings)
    if "=" not in payload:
        payload += "=" * (-len(payload) % 4)
    return base64.b64decode(payload, validate=True)
