"""What counts as an image of an article."""

from __future__ import annotations

SMALLEST = 64
"""Pixels per side below which an image counts as an icon."""
LARGE = 100
"""Pixels per side from which an image may stand for a page that does not name one."""
