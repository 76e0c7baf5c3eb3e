"""The entries of a knowledge base that cannot be used: they are listed, and their number is limited."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from indexes.limits import MAX_BAD

T = TypeVar("T")

logger = logging.getLogger(__name__)

LISTED = 1000  # most bad entries whose place and reason are kept; further ones are only counted
_ALWAYS = 5  # bad entries that are accepted in any knowledge base that holds others, unless none is
_EXAMPLES = 3
_HOPELESS = 100  # number of bad entries after which reading stops if most entries are bad: the file has another format


class NoThing(ValueError):
    """The reason why an entry describes no thing, such as a record without a title.

    It is bad in a file of things, but in a folder, a file of nothing else is only named.
    """


class SkippedEntries:
    """The bad entries of a knowledge base.

    At most the larger of five and the share `max_bad` of all entries, in 0..1, may be bad, and not all of them; at 0,
    the first one is an error. If `quiet`, nothing is logged, since the same entries are read again.

    Raises:
        ValueError: `max_bad` is out of range.
    """

    def __init__(self, max_bad: float = MAX_BAD, quiet: bool = False) -> None:
        if not 0 <= max_bad <= 1:
            raise ValueError(f"max_bad must be between 0 and 1, got {max_bad:g}")
        self.max_bad, self._quiet = max_bad, quiet
        self.total, self.count = 0, 0
        self.listed: list[dict[str, str]] = []
        self._examples: list[str] = []

    def add(self, path: Path, place: str, error: ValueError) -> None:
        """Counts a bad entry. It is an error if none may be bad, or most are."""
        reason = str(error).removeprefix(place).removeprefix(": ")
        if not self.max_bad:
            raise ValueError(f"{place}: {reason}") from error
        self.count += 1
        if len(self.listed) < LISTED:
            inner = place.removeprefix(str(path)).lstrip(": /")  # independent of where the knowledge base is
            self.listed.append({"place": inner, "reason": reason})
            self._examples += [f"{place}: {reason}"] if len(self._examples) < _EXAMPLES else []
        if self.count >= _HOPELESS and self.count > max(self.max_bad, 0.5) * self.total:
            raise self._too_many(path, "of the first ")

    def close(self, path: Path) -> None:
        """Checks the number of bad entries at the end of the file, and logs them if there are any.

        Raises:
            ValueError: Too many entries are bad.
        """
        most = max(self.max_bad * self.total, _ALWAYS)
        if self.count > most or (self.count == self.total and self.count > self.max_bad * self.total):
            raise self._too_many(path, "of ")
        if self.count and not self._quiet:
            share = 100 * self.count / self.total
            logger.warning("%d of %d entries skipped (%.3g %%): %s", self.count, self.total, share, self._named())

    def _named(self) -> str:
        return "; ".join(self._examples) + ("; …" if self.count > len(self._examples) else "")

    def _too_many(self, path: Path, of: str) -> ValueError:
        enough = math.ceil(100 * self.count / self.total) / 100
        return ValueError(
            f"{path}: {self.count} {of}{self.total} entries cannot be used, more than {100 * self.max_bad:g} %: "
            f"{self._named()}; fix them, or allow a larger share, such as --max-bad {enough:g}"
        )


def unreadable(path: Path | str, error: OSError) -> ValueError:
    """Returns the reason why there is no entry if a file or a folder cannot be read."""
    return ValueError(f"{path}: cannot be read: {error.strerror or error}")


def attempt(place: str, read: Callable[[], T]) -> tuple[str, T | ValueError]:
    """Returns a place with what `read` returns there, or with the reason why it cannot be read."""
    try:
        return place, read()
    except ValueError as error:
        return place, error
    except OSError as error:
        return place, unreadable(place, error)
