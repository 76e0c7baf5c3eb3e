"""Lets batches follow each other through the parts of a pipeline without ever being in the same part."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


class Turns:
    """As many batches as there are parts can be on their way at once; they leave in the order in which they entered.

    As a context manager, holds all parts: no batch is on its way in the meantime. Thread-safe, but not reentrant.

    Args:
        parts: The number of parts.
    """

    def __init__(self, parts: int) -> None:
        self._parts = [threading.Lock() for _ in range(parts)]

    def __len__(self) -> int:
        """Returns the number of parts."""
        return len(self._parts)

    @contextmanager
    def batch(self) -> Iterator[Callable[[], None]]:
        """Holds the first part until the end of the block; the function that it yields moves on to the next part.

        A batch leaves a part only when it has the next one, so that none is overtaken.
        """
        with ExitStack() as held:
            parts = iter(self._parts)
            held.enter_context(next(parts))

            def move_on() -> None:
                with held.pop_all():
                    held.enter_context(next(parts))

            yield move_on

    def settle(self) -> None:
        """Waits until no batch is ahead; for a batch in the first part."""
        for part in self._parts[1:]:
            with part:
                pass

    def __enter__(self) -> None:
        """Waits until no batch is on its way, and lets none enter."""
        with ExitStack() as held:
            for part in self._parts:
                held.enter_context(part)
            held.pop_all()

    def __exit__(self, *_: object) -> None:
        """Lets batches enter."""
        for part in self._parts:
            part.release()
