"""Finds the images that a row or an object names, in the usual fields or in others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from indexes.formats.facts import parsed, texts_in
from indexes.formats.fields import Names, images_in_html, images_of, looks_like_image

_AGENTS = re.compile(r"(?:person|people|organi[sz]ation|group|agent|company)$", re.IGNORECASE)
"""Types of agents that made, own or publish a thing; their portraits and logos do not show it."""
_IMAGE_TYPE = re.compile(r"(?:\w+:)?image(?:object|/[\w.+-]+)?", re.IGNORECASE)
"""Types and formats of objects that are an image: `image/jpeg`, `ImageObject`, `dctypes:Image`."""
_DEEPEST = 20
_KINDS = ("type", "@type", "format", "medium", "mimeType", "mime_type", "encodingFormat")
_ADDRESSES = ("url", "contentUrl", "content_url", "@id", "id", "src", "href", "source")


def row_images(row: Mapping[str, Any], where: str, names: Names) -> tuple[str, list[str]]:
    """Returns the field of a row's images, and the images; without a usual field, the first that names an image."""
    name, found = images_of({name: parsed(value) for name, value in row.items()}, where, names)
    if found:
        return name, [image for one in found for image in _split(one)]
    for name, value in row.items() if "image" not in names else ():
        if isinstance(value, str) and (in_html := images_in_html(value)):
            return "", in_html
        if isinstance(value, str) and looks_like_image(value):
            return name, _split(value)
        if isinstance(value, list) and value and all(isinstance(one, str) and looks_like_image(one) for one in value):
            return name, list(value)
    described = "" if "image" in names else _described(list(row.values()))
    return "", [described] if described else []


def _described(value: Any, depth: int = 0) -> str:
    """Returns the address of the first object whose type or format marks it as an image, as in IIIF and feeds."""
    if isinstance(value, list) and depth < _DEEPEST:
        return next(filter(None, (_described(one, depth + 1) for one in value)), "")
    if not isinstance(value, Mapping) or depth >= _DEEPEST:
        return ""
    kinds = [kind for name in _KINDS for kind in texts_in(value.get(name))]
    if any(map(_IMAGE_TYPE.fullmatch, kinds)):
        return next((one for name in _ADDRESSES for one in texts_in(value.get(name)) if re.search("[./]", one)), "")
    return "" if any(map(_AGENTS.search, kinds)) else _described(list(value.values()), depth + 1)


def _split(value: str) -> list[str]:
    """Returns the images that a text names: separated by `|`, or by commas or semicolons if each is an image."""
    parts = [part.strip() for part in value.split("|")]
    if len(parts) == 1:
        listed = [part.strip() for part in re.split(r"[;,]\s*", value)]
        parts = listed if all(map(looks_like_image, listed)) else parts
    return [part for part in parts if part]
