"""Limits that both reading and building take by default."""

from __future__ import annotations

MAX_BAD = 0.01
"""Share of bad entries of a knowledge base that is accepted."""
