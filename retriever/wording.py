"""Formats counts and sizes for messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, in the plural unless the number is 1.

    Example:
        >>> counted(1, "entity"), counted(0, "search"), counted(12_000, "main image")
        ('1 entity', '0 searches', '12,000 main images')
    """
    if number != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith("ch") else "s")
    return f"{number:,} {noun}"


def gigabytes(size: float) -> str:
    """Returns a size in bytes for people: GB of 10^9 bytes, MB if it is small.

    Example:
        >>> gigabytes(4.9e11), gigabytes(2_500_000)
        ('490.0 GB', '2.5 MB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def duration(seconds: float) -> str:
    """Formats a duration: in hours from one hour on, in minutes from two minutes on, else in seconds."""
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
