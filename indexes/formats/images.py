"""What counts as an image of an article, and how an HTML page names it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

SMALLEST = 64
"""Pixels per side below which an image counts as an icon."""
LARGE = 100
"""Pixels per side from which an image may stand for a page that does not name one."""
ICON = re.compile(
    r"(?:^|[^a-z])(?:icon|badge|button|sprite|spacer|favicon|emoji|avatar|appstore|app-store|google-?play)s?(?:[^a-z]|$)",
    re.IGNORECASE,
)
"""Names of files that are icons."""
BADGE = re.compile(
    r"\b(?:shields\.io|badgen\.net|badges?|travis-ci|codecov|contrib\.rocks|star-history|buymeacoffee)\b|actions/workflows/",
    re.IGNORECASE,
)
"""URLs of images that say how a project is doing."""


def source_of(attributes: dict[str, str | None]) -> str:
    """Returns the source of an `<img>`, that of one loaded later included, "" if it has none."""
    source = attributes.get("src") or ""
    source = (attributes.get("data-src") or "") if not source or source.startswith("data:") else source
    return source.replace("\\", "/")  # as browsers read it


def image_path(source: str, page: str) -> str:
    """Returns the path of an image in the page's file, the URL of one outside of it, "" for one in the page itself.

    A path that ends with a slash is not an image; some sites write one for pages without an image.
    """
    if source.endswith("/"):
        return ""
    if re.match(r"https?://|//", source, re.IGNORECASE):
        return source.partition("#")[0]
    if not source or re.match(r"[a-z][a-z0-9+.-]*:", source, re.IGNORECASE):
        return ""
    relative = unquote(re.split(r"[?#]", source)[0])
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(page), relative)).lstrip("/")


def photos_first(names: Iterable[str]) -> list[str]:
    """Returns names of images with drawings in SVG last, which need an extra."""
    return sorted(names, key=lambda name: name.lower().endswith((".svg", ".svgz")))


def sides_of(attributes: dict[str, str | None]) -> Iterator[float]:
    """Yields width and height in pixels as far as an `<img>` says them."""
    for name in ("width", "height"):
        if number := re.match(r"\d+(?![\d%])", attributes.get(name) or attributes.get(f"data-{name}") or ""):
            yield float(number[0])
