"""A run's JSON lines, one per question: a killed run resumes, and a repeated run redoes what failed."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from indexes.growing import GrowingLines
from indexes.progress import progress_bar
from retriever.files import write_lines

logger = logging.getLogger(__name__)

T = TypeVar("T")
Row = dict[str, Any]


def fill(
    path: Path,
    items: Callable[[], Iterable[T]],
    total: int,
    batch: int,
    do: Callable[[list[T]], Iterable[Row]],
    again: Callable[[int, Row], bool],
) -> int:
    """Writes a JSON line for each item: first the missing ones, then again those of earlier calls that `again` picks.

    Lines reach the disk batch by batch. Repeated lines go to `<name>.again.jsonl` and replace the old ones once all of
    them are there. Lines that this call writes are not repeated; their number is returned.

    Args:
        path: The file, created if absent.
        items: Returns an iterator over all items; called more than once.
        total: How many there are.
        batch: Items per call of `do`.
        do: Returns one row per item, with its `id`.
        again: Returns, given an item's position and its row from an earlier call, whether to do it again.

    Raises:
        ValueError: The file has more than `total` lines or is damaged.
    """
    newer = repeated_lines(path)
    _replace_lines(path, newer)  # of a call that was killed
    before = _append(path, items, total, batch, do, path.stem)
    places = {place for place, row in enumerate(islice(read_rows(path), before)) if again(place, row)}
    if places:

        def repeated() -> Iterator[T]:
            return (item for place, item in enumerate(items()) if place in places)

        _append(newer, repeated, len(places), batch, do, f"{path.stem} again")
        _replace_lines(path, newer)
    return total - before + len(places)


def repeated_lines(path: Path) -> Path:
    """Returns where `fill` keeps lines that are written anew until all of them are there."""
    return path.with_name(f"{path.stem}.again.jsonl")


def read_rows(path: Path, *, unfinished: bool = False) -> Iterator[Row]:
    """Yields the rows of a file of JSON lines; of an `unfinished` one without a last line that a kill cut short.

    Raises:
        ValueError: A line is not a JSON object; the message names the file and line.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if unfinished and not line.endswith(b"\n"):
                return
            try:
                yield dict(json.loads(line))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path}: line {number} is damaged ({error}); delete {path.parent}") from error


def warn_of_failures(out: Path, reasons: Iterable[str | None]) -> None:
    """Logs how many questions of the run in `out` failed, and the first of their `reasons`; `None` is none."""
    listed = list(reasons)
    if failed := [reason for reason in listed if reason is not None]:
        logger.warning(
            "%d of %d questions failed; the first: %s; evaluate into %s again to retry only the failed ones",
            *(len(failed), len(listed), failed[0], out),
        )


def _append(
    path: Path,
    items: Callable[[], Iterable[T]],
    total: int,
    batch: int,
    do: Callable[[list[T]], Iterable[Row]],
    shown_as: str,
) -> int:
    """Appends the rows that a file lacks; returns how many it had."""
    with GrowingLines(path, batch, total) as lines:
        before = lines.done
        with progress_bar(total=total, initial=before, desc=shown_as, unit="question") as bar:
            todo = islice(items(), before, None)
            while part := list(islice(todo, batch)):
                lines.append(do(part))
                bar.update(len(part))
    return before


def _replace_lines(path: Path, newer: Path) -> None:
    """Replaces lines of a file with those of another that have the same ids and order; deletes the other file."""
    if newer.is_file():
        write_lines(path, _replaced(read_rows(path), read_rows(newer, unfinished=True)))
        newer.unlink()


def _replaced(rows: Iterable[Row], newer: Iterator[Row]) -> Iterator[Row]:
    next_one = next(newer, None)
    for row in rows:
        if next_one is not None and row["id"] == next_one["id"]:
            yield next_one
            next_one = next(newer, None)
        else:
            yield row
