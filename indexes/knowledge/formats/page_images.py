"""Which images of a page count, and how it names them: sources for scripts, in several sizes, or as a background."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from indexes.knowledge.image_names import plain_path

SMALLEST = 64  # smallest side in pixels; smaller images are icons
LARGE = 100  # smallest side in pixels of an image that can be the main image of a page that names none
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


_SOURCES = ("src", "data-src", "data-original", "data-lazy-src", "data-lazy", "data-full", "data-large", "data-url")
"""Attributes with the source of an `<img>`, the one that browsers show first."""
_SETS = ("srcset", "data-srcset", "data-lazy-srcset")
_PLACEHOLDER = re.compile(
    r"(?:^|/)(?:blank|spacer|pixel|placeholder|loading|transparent|lazy|grey|gray|1x1|empty)[\w-]*\.(?:gif|png|svg|jpe?g|webp)"
    r"(?:[?#].*)?$",
    re.IGNORECASE,
)
"""An image that a script replaces."""
_BACKGROUND = re.compile(r"background(?:-image)?\s*:[^;]*?url\(\s*([\"']?)(.*?)\1\s*\)")
_CANDIDATE = re.compile(r"\s*(\S*[^\s,])(?:\s+([\d.]+)[wx])?\s*(?:,\s+|,$|$|,(?=\S))")


def source_of(attributes: dict[str, str | None]) -> str:
    """Returns the source of an `<img>`, "" if it has none; it may be loaded later, or be the largest of several."""
    given = [source.strip() for name in _SOURCES if (source := attributes.get(name))]
    given += [largest for name in _SETS if (largest := _largest(attributes.get(name) or ""))]
    real = [source for source in given if not source.startswith("data:")]
    source = next((one for one in real if not _PLACEHOLDER.search(one)), next(iter(real), next(iter(given), "")))
    return source.replace("\\", "/")  # as browsers do


def _largest(sources: str) -> str:
    """Returns the source of the largest of the images in a `srcset`: `fox.jpg 300w, large.jpg 600w`."""
    found = [(float(size or 1), source) for source, size in _CANDIDATE.findall(sources) if source]
    return max(found, key=lambda one: one[0])[1] if found else ""


def reveal_images(tree: Any) -> None:
    """Makes each image that a page shows an `<img>` with a source: for scripts, in `<picture>`, or as a background."""
    from selectolax.lexbor import LexborHTMLParser  # GPU machines that read no pages lack it

    for node in tree.css("noscript"):
        images = node.css("img")
        if images:  # for browsers without scripts
            node.replace_with(images[0])
    for node in tree.css("picture"):
        image, sources = node.css_first("img"), node.css("source")
        if image is not None and sources and not source_of(image.attributes):
            image.attrs["src"] = next(filter(None, (source_of(one.attributes) for one in sources)), "")
    for node in tree.css("[style*='url(']"):
        if (found := _BACKGROUND.search(node.attributes.get("style") or "")) and node.css_first("img") is None:
            image = LexborHTMLParser("<img>").css("img")[0]
            image.attrs["src"] = found[2].strip()
            node.insert_child(image)


def base_of(tree: Any, path: str) -> str:
    """Returns the path of a file in the folder that the paths on a page are relative to, which is the page itself.

    Unless the page has a `<base>`, this is its own path.
    """
    node = tree.css_first("base[href]")
    href = node.attributes.get("href") if node is not None else ""
    if not href:
        return path
    try:
        base = unquote(urlsplit(href).path)
    except ValueError:  # brackets that are not an IPv6 address
        return path
    start = "" if base.startswith("/") else posixpath.dirname(path)
    return posixpath.normpath(posixpath.join("/", start, base.lstrip("/"), posixpath.basename(path))).lstrip("/")
