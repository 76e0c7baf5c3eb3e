"""How a page names its images: sources that scripts load, in several sizes, for browsers without scripts."""

from __future__ import annotations

import posixpath
import re
from typing import Any
from urllib.parse import unquote, urlsplit

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
