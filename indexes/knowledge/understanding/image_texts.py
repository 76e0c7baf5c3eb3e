"""Tells which texts and columns are nothing but images: names, addresses, lists of them, or bytes in base64."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from indexes.image_paths import IMAGE_SUFFIXES
from indexes.knowledge.understanding.fields import looks_like_image

IsImage = Callable[[str], bool]

NO_IMAGE = re.compile(r"\.(?:pdf|mp3|mp4|ogg|wav|webm|mov|zip|html?|md|txt|json|csv|js|css|docx?|glb|obj|stl)$", re.I)
"""Endings of files of other kinds, which a field such as "filename" may name."""
OF_OTHERS = re.compile(
    r"author|creator|user|owner|photographer|artist|editor|publisher|provider|avatar|profile|icon|placeholder", re.I
)
"""Names of fields for images that may show those who made a thing; such a field decides nothing alone."""
_SHORTEST_CODE = 60  # characters of the smallest image in base64
_WIKI_LINK = re.compile(r"!?\[\[([^\[\]|]+)(?:\|[^\[\]]*)?\]\]")
_ADDRESS = r"[^()\s]+(?:\([^()\s]*\)[^()\s]*)*"
_LINKED = (
    re.compile(rf"\s*[,;|]?\s*!?\[(?P<name>[^\[\]]*)\]\((?P<url>{_ADDRESS})(?:\s+\"[^\"]*\")?\)\s*"),
    re.compile(rf"\s*[,;|]?\s*(?P<name>\S[^\n]*?)\s+\((?P<url>https?://{_ADDRESS})\)\s*"),
)
"""A file and its address: `[name.jpg](https://…)`, or `name.jpg (https://…)` as in exports of Airtable."""
_DESCRIPTOR = re.compile(r"(?<=\S)\s+\d+(?:\.\d+)?[wx](?=\s*(?:,|$))")  # of a `srcset`
_SUFFIX = re.compile(rf"(?:{'|'.join(map(re.escape, IMAGE_SUFFIXES))})(?:[?#]\S*)?", re.IGNORECASE)
_SEPARATORS = ("\n", "|", ";", ",", " ")
_BASE64 = {"iVBORw0KGgo": "png", "/9j/": "jpeg", "R0lGOD": "gif", "UklGR": "webp", "PHN2Zy": "svg+xml"}
"""Beginnings of images in base64, and their types."""
_ENCODED = re.compile(r"[A-Za-z\d+/\s]{60,}={0,2}\s*")


def never(_: str) -> bool:
    """Returns that an image is not there."""
    return False


def pictures_in(value: str, is_image: IsImage = never) -> list[tuple[str, str]]:
    """Returns (path or URL, caption) of the images that a text names, [] if it says anything else.

    It may be a list with any one separator, `[name](address)`, `name (address)`, or an image in base64. Of a name and
    an address, the name counts if there is such a file.
    """
    if "." not in value and len(value) < _SHORTEST_CODE and not value.startswith(("data:", "embedded:")):
        return []
    value = value.strip()
    if value[:1] == value[-1:] and value[:1] in ("'", '"'):
        value = value[1:-1].strip()
    if "[[" in value:
        value = _WIKI_LINK.sub(r"\1", value)
    if len(value) >= _SHORTEST_CODE and (kind := next((_BASE64[key] for key in _BASE64 if value.startswith(key)), "")):
        return [(f"data:image/{kind};base64,{''.join(value.split())}", "")] if _ENCODED.fullmatch(value) else []
    if value.startswith("data:image/"):
        return [(part, "") for part in re.split(r"(?:[,;|]\s*|\s+)(?=data:image/)", value)]
    for pattern in _LINKED if "(" in value else ():
        if pairs := _pairs(pattern, value):
            return [_named(*pair, is_image) for pair in pairs if _is_named(*pair)]
    if not _SUFFIX.search(value):
        return []
    value = _DESCRIPTOR.sub("", value)
    for separator in _SEPARATORS:
        if separator in value and len(names := _joined(value.split(separator), separator)) > 1:
            return [(name, "") for name in names]
    return [(value, "")] if looks_like_image(value) else []


def _pairs(pattern: re.Pattern[str], value: str) -> list[tuple[str, str]]:
    """Returns the names and addresses of which a text consists, [] if it has anything else."""
    pairs, position = list[tuple[str, str]](), 0
    while position < len(value):
        if (match := pattern.match(value, position)) is None:
            return []
        pairs.append((match["name"].strip(), match["url"]))
        position = match.end()
    return pairs


def _is_named(name: str, url: str) -> bool:
    return looks_like_image(name) or (looks_like_image(url) and not NO_IMAGE.search(name))


def _named(name: str, url: str, is_image: IsImage) -> tuple[str, str]:
    if not looks_like_image(name):
        return url, name
    return (name if is_image(name) or not is_image(url) else url), ""


def _joined(parts: Sequence[str], separator: str) -> list[str]:
    """Returns the names of images in parts of a text, which may have the separator in them, [] if one is no image."""
    names, name = list[str](), ""
    for part in parts:
        name = f"{name}{separator}{part}" if name else part.strip()
        if looks_like_image(name.strip()):
            names.append(name.strip())
            name = ""
    return [] if name.strip() else names


class Fields(NamedTuple):
    """Which fields of many rows name images.

    Attributes:
        images: Those whose values do, whatever they are called.
        others: Those whose images show others, such as authors: the same ones occur in several rows.
        is_image: Whether the file of an image is found.
    """

    images: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    is_image: IsImage = never


def image_fields(rows: Sequence[Mapping[str, Any]], is_image: IsImage) -> Fields:
    """Returns which fields of rows like the given ones name images."""
    columns = defaultdict[str, list[str]](list)
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str) and value.strip():
                columns[str(name)].append(value.strip())
    named, others = set[str](), set[str]()
    for name, values in columns.items():
        pictures = list(filter(pictures_in, values))
        if 2 * len(pictures) > len(values):
            named.add(name)
            others |= {name} if OF_OTHERS.search(name) and 4 * len(set(pictures)) <= 3 * len(pictures) else set()
        elif all("/" in value and " " not in value for value in values):
            named |= {name} if 2 * sum(map(is_image, values)) > len(values) else set()
    return Fields(frozenset(named), frozenset(others), is_image)
