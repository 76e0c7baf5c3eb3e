"""Gives the memory of large images back to the system."""

from __future__ import annotations

import ctypes
import functools
import sys


def give_back_memory() -> None:
    """Returns freed memory to the system; glibc would keep hundreds of MB."""
    if trim := getattr(_libc(), "malloc_trim", None):
        trim(0)


@functools.cache
def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None
