"""Decides what counts as an image of an article, and reads how an HTML page names it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator

from indexes.knowledge.image_names import plain_path

SMALLEST = 64
"""Smallest side in pixels; smaller images are icons."""
LARGE = 100
"""Smallest side in pixels of an image that can be the main image of a page that names none."""
ICON = re.compile(
    r"(?:^|[^a-z])(?:icon|badge|button|sprite|spacer|favicon|emoji|avatar|appstore|app-store|google-?play)s?(?:[^a-z]|$)",
    re.IGNORECASE,
)
"""File names of icons."""
_APP_ICON = re.compile(r"apple-touch|android-chrome|mstile|favicon", re.IGNORECASE)
BADGE = re.compile(
    r"\b(?:shields\.io|badgen\.net|badges?|travis-ci|codecov|contrib\.rocks|star-history|buymeacoffee)\b|actions/workflows/",
    re.IGNORECASE,
)
"""URLs of badges that show a project's status."""


def is_icon(path: str) -> bool:
    """Returns whether an image file is an icon of a page or a program, judged by its name."""
    name = posixpath.basename(path)
    return ICON.search(name) is not None or _APP_ICON.search(name) is not None


def image_path(source: str, page: str) -> str:
    """Returns the path of an image in the page's file, or the URL of a remote image, or "" for an embedded one.

    A path that ends with a slash is not an image; some sites use one for pages without an image.
    """
    if source.endswith("/"):
        return ""
    if re.match(r"https?://|//", source, re.IGNORECASE):
        return source.partition("#")[0]
    if not source or re.match(r"[a-z][a-z0-9+.-]*:", source, re.IGNORECASE):
        return ""
    return plain_path(source, page)


def photos_first(names: Iterable[str]) -> list[str]:
    """Returns the names of images, SVG last, because it needs an extra."""
    return sorted(names, key=is_drawing)


def is_drawing(name: str) -> bool:
    """Returns whether an image is an SVG, judged by its name."""
    return name.lower().endswith((".svg", ".svgz"))


def sides_of(attributes: dict[str, str | None]) -> Iterator[float]:
    """Yields the width and height in pixels, as far as an `<img>` states them."""
    for name in ("width", "height"):
        if number := re.match(r"\d+(?![\d%])", attributes.get(name) or attributes.get(f"data-{name}") or ""):
            yield float(number[0])
