"""Finds the images that a row or an object names, in the usual fields or in others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

from indexes.formats.facts import parsed, texts_in
from indexes.formats.fields import Names, images_of, looks_like_image

_AGENTS = re.compile(r"(?:person|people|organi[sz]ation|group|agent|company)$", re.IGNORECASE)
"""Types of agents that made, own or publish a thing; their portraits and logos do not show it."""
_IMAGE_TYPE = re.compile(r"(?:\w+:)?image(?:object|/[\w.+-]+)?", re.IGNORECASE)
"""Types and formats of objects that are an image: `image/jpeg`, `ImageObject`, `dctypes:Image`."""
_OF_OTHERS = re.compile(
    r"author|creator|user|owner|photographer|artist|editor|avatar|profile|icon|favicon|placeholder", re.IGNORECASE
)
"""Names of fields for images that do not show the thing itself."""
_SMALL = re.compile(r"thumb|small|mini|preview|icon|low_?res|tiny", re.IGNORECASE)
"""Names of fields for smaller copies of images."""
_DEEPEST = 20
_KINDS = ("type", "@type", "format", "medium", "mimeType", "mime_type", "encodingFormat")
_ADDRESSES = ("url", "contentUrl", "content_url", "@id", "id", "src", "href", "source")


class RowImages(NamedTuple):
    """The images of a row.

    Attributes:
        names: Their paths or URLs, the main one first, those of smaller copies last.
        fields: The fields that hold nothing else; one inside an object is written with dots.
    """

    names: list[str]
    fields: set[str]


def row_images(row: Mapping[str, Any], where: str, names: Names) -> RowImages:
    """Returns the images of a row: those of the field in `names`, or else of the usual fields and of all that name one.

    Portraits of those who made or describe a thing are not its images, unless there is no other.
    """
    values = {name: parsed(value) for name, value in row.items()}
    main, found = images_of(values, where, names)
    images, fields = {main: [image for one in found for image in _split(one)]} if found else {}, set[str]()
    if found:
        fields.add(main if main in row else main.rpartition(".")[0] or main)
    if "image" in names:
        return RowImages(list(dict.fromkeys(chain.from_iterable(images.values()))), fields)
    for name, value in values.items():
        given = [value] if isinstance(value, str) else value
        if name == main or not isinstance(given, list) or not given or not all(isinstance(one, str) for one in given):
            continue
        listed = [image for one in given for image in _split(one)]
        if listed and all(map(looks_like_image, listed)):
            fields.add(name)
            if not _OF_OTHERS.search(name):
                images[name] = listed
    if not images:
        others = [image for name in fields for one in _texts(values[name]) for image in _split(one)]
        images[""] = others or list(filter(None, [_described(list(row.values()))]))
    ordered = sorted(images, key=lambda name: name != main and _SMALL.search(name) is not None)
    return RowImages(list(dict.fromkeys(image for name in ordered for image in images[name])), fields)


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


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
    """Returns the images that a text names.

    They are separated by `|` or new lines, or by commas, semicolons or spaces if each part is an image.
    """
    value = value.strip()
    if value[:1] == value[-1:] and value[:1] in ("'", '"'):
        value = value[1:-1].strip()
    parts = [part.strip() for part in re.split(r"[|\n]", value)]
    if len(parts) == 1:
        lists = ([part.strip() for part in re.split(sign, value)] for sign in (r"[;,]\s*", r"\s+"))
        parts = next((listed for listed in lists if len(listed) > 1 and all(map(looks_like_image, listed))), parts)
    return [part for part in parts if part]
