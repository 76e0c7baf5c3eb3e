"""URLs of Wikimedia's scaled images, which are smaller, and PNG instead of SVG."""

from __future__ import annotations

import re

STEPS = (250, 330, 500, 960, 1280, 1920, 3840)
"""Widths that Wikimedia serves (mediawiki.org, "Common thumbnail sizes"); it refuses others."""

_IMAGE = re.compile(
    r"(?P<head>https?://upload\.wikimedia\.org/wikipedia/[\w-]+/)(?:thumb/)?"
    r"(?P<hash>[0-9a-f]/[0-9a-f]{2}/)(?P<file>[^/?#]+\.(?P<kind>jpe?g|png|svg|gif))(?:/[^/?#]+)?",
    re.IGNORECASE,
)


def scaled(url: str, side: int) -> str | None:
    """Returns the URL of a Wikimedia image at the widest step up to `side`, or `None` if there is none."""
    found = _IMAGE.fullmatch(url)
    widths = [step for step in STEPS if step <= side]
    if found is None or not widths:
        return None
    file = found["file"]
    drawn = ".png" if found["kind"].lower() == "svg" else ""
    return f"{found['head']}thumb/{found['hash']}{file}/{widths[-1]}px-{file}{drawn}"
