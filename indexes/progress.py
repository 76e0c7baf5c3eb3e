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
    items: Iterable[T] | None = None,
    *,
    total: float | None = None,
    initial: float = 0,
    desc: str | None = None,
    unit: str = "it",
    unit_scale: bool = False,
    bar_format: str | None = None,
    shown: bool = True,
    file: TextIO | None = None,
) -> tqdm[T]:
    """Returns a tqdm bar over `items`, or one to `update` by hand.

    On a terminal, the bar is redrawn in place. Elsewhere (a log file, a container), it writes a new line at most every
    `LOG_INTERVAL` seconds and one at the end.

    `bars` shows or hides all bars of a block of code.

    Args:
        items: The items to iterate over; without them, the caller updates the bar.
        total: The number of items, if `items` has no length.
        initial: How many of them are already done.
        desc: The text before the bar.
        unit: The unit that is counted, in the singular.
        unit_scale: Whether to write large numbers as kB, MB, …
        bar_format: A tqdm format of the line; by default tqdm's own, or count and time if the total is unknown.
        shown: Whether to show it where bars are shown.
        file: Where to write; stderr by default.
    """
    stream = sys.stderr if file is None else file
    if bar_format is None and total is None and not hasattr(items, "__len__"):
        bar_format = "{desc}: {n_fmt} in {elapsed}"  # tqdm's own would say "13entity [00:02, 5.91entity/s]"
    options: dict[str, Any] = {}
    if not stream.isatty():
        options = {"file": _Lines(stream), "mininterval": LOG_INTERVAL, "maxinterval": LOG_INTERVAL, "ncols": 100}
    elif file is not None:
        options = {"file": file}
    return tqdm(
        items,
        total=total,
        initial=initial,
        desc=desc,
        unit=unit,
        unit_scale=unit_scale,
        bar_format=bar_format,
        disable=not (shown and bars_shown()),
        **options,
    )


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
