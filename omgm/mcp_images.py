"""Reads the image that an MCP client passes to a tool: a path, a file URI, a URL, base64, or a content block."""

from __future__ import annotations

import asyncio
import json
import os
import re
from typing import Any
from urllib.parse import unquote, urlsplit

from mcp.server.mcpserver.exceptions import ToolError

from serving.errors import ApiError
from serving.requests import image_bytes
from serving.settings import ServingSettings

_FIELDS = ("data", "blob", "url", "uri", "path", "image_url", "source", "resource", "image")
"""Where content blocks of MCP, OpenAI and Anthropic hold an image."""


def image_text(value: Any) -> Any:
    """Returns the text in what a client sends as an image, which may be a content block or its JSON; "" for null."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = value.strip().strip("\"'`").strip()
        if text[:1] in ("{", "["):
            try:
                return image_text(json.loads(text))
            except ValueError:
                return text
        return text
    if isinstance(value, list) and len(value) == 1:
        return image_text(value[0])
    if isinstance(value, dict):
        for name in _FIELDS:
            if value.get(name):
                return image_text(value[name])
    return value


async def read_image(image: str, settings: ServingSettings, paths: bool) -> bytes:
    """Returns the bytes of an image.

    Args:
        image: What `image_text` has found.
        settings: The limits of images, and the hosts that they may be fetched from.
        paths: Whether the image may be a file of this machine.

    Raises:
        ToolError: There is no image, or no such file.
        ApiError: The base64 or the URL is malformed, the host is not allowed, or the image is too large.
    """
    ways = "the path of its file on this machine, " if paths else ""
    ways += "its URL on a host that the server allows, a data URI, or base64"
    if not image:
        raise ToolError(f"image is missing: pass {ways}")
    path = _path(image)
    if paths and os.path.isfile(path):
        return await asyncio.to_thread(_file, path, settings)
    if image.lower().startswith("file:") or _is_path(image):
        if not paths:
            raise ToolError(f"this server reads no files, got {image[:200]!r}: pass {ways}")
        raise ToolError(f"there is no file {path[:200]!r} on the machine of this server: pass {ways}")
    try:
        return await image_bytes(image, settings)
    except ApiError as error:
        if error.code != "bad_image_url" or "://" in image[:20]:
            raise
        raise ToolError(f"image must be {ways}; got {image[:60]!r}") from error


def _path(image: str) -> str:
    """Returns the path that a path or a file URI means."""
    if not image.lower().startswith("file:"):
        return os.path.expanduser(image)
    parts = urlsplit(image)
    host = "" if parts.netloc.lower() in ("", "localhost", "127.0.0.1") else f"//{parts.netloc}"
    return host + unquote(parts.path)


def _is_path(image: str) -> bool:
    """Returns whether a text is more likely the path of a file than base64."""
    name = image.rpartition("/")[2]
    return (
        len(image) < 4096 and re.fullmatch(r"[^<>\n]*\.[A-Za-z0-9]{2,5}", name) is not None and "://" not in image[:20]
    )


def _file(path: str, settings: ServingSettings) -> bytes:
    with open(path, "rb") as file:
        return file.read(settings.max_image_bytes + 1)  # one byte more than `decode_image` accepts
