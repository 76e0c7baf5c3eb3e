"""Progress of long-running work: a bar on a terminal, an occasional line in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, TypeVar

from tqdm import tqdm

T = TypeVar("T")

LOG_INTERVAL = 30.0
"""Seconds between two lines if stderr is not a terminal."""


_SHOWN = ContextVar("bars", default=True)


@contextmanager
def bars(shown: bool) -> Iterator[None]:
    """Shows the progress bars of a block, or hides them."""
    token = _SHOWN.set(shown)
    try:
        yield
    finally:
        _SHOWN.reset(token)


def bars_shown() -> bool:
    """Returns whether progress bars are shown here."""
    return _SHOWN.get()


def progress_bar(
    items: Iterable[T] | None = None, *, shown: bool = True, file: TextIO | None = None, **options: Any
) -> tqdm[T]:
    """Returns a tqdm bar over `items`, or one to `update` by hand.

    On a terminal, the bar is redrawn in place. Elsewhere (a log file, a container), it writes a new line at most every
    `LOG_INTERVAL` seconds and one at the end.

    `bars` shows or hides all bars of a block of code.

    Args:
        items: The items to iterate over; without them, the caller updates the bar.
        shown: Whether to show it where bars are shown.
        file: Where to write; stderr by default.
        options: tqdm's own, such as `total`, `initial`, `desc` and `unit` (in the singular).
    """
    stream = sys.stderr if file is None else file
    if "total" not in options and not hasattr(items, "__len__"):
        # tqdm's own would say "13entity [00:02, 5.91entity/s]"
        options = {"bar_format": "{desc}: {n_fmt} in {elapsed}"} | options
    if not stream.isatty():
        options |= {"file": _Lines(stream), "mininterval": LOG_INTERVAL, "maxinterval": LOG_INTERVAL, "ncols": 100}
    elif file is not None:
        options["file"] = file
    return tqdm(items, disable=not (shown and bars_shown()), **options)


class _Lines:
    """A stream that turns redrawn bars into lines: no carriage returns, nothing for an empty redraw.

    Args:
        stream: Where the lines go.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = ""

    def write(self, text: str) -> None:
        line = text.strip("\r\n ")
        if line and line != self._last:
            self._stream.write(line + "\n")
            self._last = line

    def flush(self) -> None:
        self._stream.flush()
