"""What readers of knowledge bases are told besides the path, and what they yield: entities, or why there are none."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from indexes.knowledge.formats.fields import Names
from indexes.knowledge.formats.losses import Losses
from retriever.types import Entity

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read a knowledge base.

    Attributes:
        names: The names of an entity's fields there, if they differ from the usual ones.
        losses: Counts what is left out.
        dropped: Whether to leave out a section with a given title, and those below it.
        keep_navigation: Whether to keep navigation, comments and the like.
        has_file: Whether to read a file of a format with an entity in each.
        sections: For labels of rows' facts, whether they are sections.
    """

    names: Names = field(default_factory=dict)
    losses: Losses = field(default_factory=Losses)
    dropped: Callable[[str], bool] = lambda title: False
    keep_navigation: bool = False
    has_file: Callable[[Path], bool] = lambda file: True
    sections: Mapping[str, bool] = field(default_factory=dict)


logger = logging.getLogger(__name__)

MAX_BAD = 0.01  # share of bad entries that is accepted by default
LISTED = 1000  # most bad entries whose place and reason are kept; further ones are only counted
_EXAMPLES = 3
_HOPELESS = 100  # number of bad entries after which reading stops if most entries are bad: the file has another format

Entry = tuple[str, Entity | ValueError]  # an entry's place in its file, and the entity or the reason why there is none


class SkippedEntries:
    """The bad entries of a knowledge base.

    Their share may be at most `max_bad`, in 0..1; at 0, the first one is an error. If `quiet`, nothing is logged, since
    the same entries are read again.

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

    def add(self, path: Path, where: str, error: ValueError) -> None:
        """Counts a bad entry. It is an error if none may be bad, or most are."""
        reason = str(error).removeprefix(where).removeprefix(": ")
        if not self.max_bad:
            raise ValueError(f"{where}: {reason}") from error
        self.count += 1
        if len(self.listed) < LISTED:
            place = where.removeprefix(str(path)).lstrip(": /")  # independent of where the knowledge base is
            self.listed.append({"place": place, "reason": reason})
            self._examples += [f"{where}: {reason}"] if len(self._examples) < _EXAMPLES else []
        if self.count >= _HOPELESS and self.count > max(self.max_bad, 0.5) * self.total:
            raise self._too_many(path, "of the first ")

    def close(self, path: Path) -> None:
        """Checks the share of bad entries at the end of the file, and logs them if there are any.

        Raises:
            ValueError: The share of bad entries exceeds `max_bad`.
        """
        if self.count > self.max_bad * self.total:
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


def attempt(where: str, read: Callable[[], T]) -> tuple[str, T | ValueError]:
    """Returns a place with what `read` returns there, or with the reason why it cannot be read."""
    try:
        return where, read()
    except ValueError as error:
        return where, error
    except OSError as error:
        return where, unreadable(where, error)


class SeenHashes:
    """A set of 64-bit hashes that takes 16 to 32 bytes per hash; Python's `set` would take about a hundred."""

    def __init__(self) -> None:
        self._table = np.zeros(1 << 10, np.int64)  # 0 marks a free slot
        self._size = 0

    def add(self, value: int) -> bool:
        """Adds a hash and returns whether it is new."""
        new = self._put(self._table, value or 1)
        self._size += new
        if 2 * self._size > len(self._table):
            table = np.zeros(2 * len(self._table), np.int64)
            for one in self._table[self._table != 0].tolist():
                self._put(table, one)
            self._table = table
        return new

    @staticmethod
    def _put(table: NDArray[np.int64], value: int) -> bool:
        place = value % len(table)
        while (found := table[place]) != 0:
            if found == value:
                return False
            place = (place + 1) % len(table)
        table[place] = value
        return True
