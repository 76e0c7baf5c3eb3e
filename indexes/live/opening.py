"""Opens the current files of an index and reads the changes made since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from indexes.live import layout
from indexes.live.changes import Addition, Change, Origin, from_bytes
from indexes.live.log import read_log
from indexes.store import Index


def open_current(
    folder: Path, open_files: Callable[[Path], Index], ends: dict[str, int]
) -> tuple[Index, int, list[Change]]:
    """Returns the current files of an index, their generation, and later changes; sets `ends` like `read_changes`."""
    while True:
        ends.clear()
        generation = layout.generation_of(folder)
        try:
            base = open_files(layout.files_of(folder, generation))
            changes = read_changes(folder, base, ends)
        except (ValueError, OSError):
            if layout.generation_of(folder) == generation:
                raise
        else:  # a compaction may have replaced the files in the meantime
            if layout.generation_of(folder) == generation:
                return base, generation, changes


def read_changes(folder: Path, base: Index, ends: dict[str, int]) -> list[Change]:
    """Returns the changes in the logs of an index.

    Args:
        folder: The index's folder.
        base: The files of the current generation.
        ends: Where to begin in each log that was read before, by its name; updated to the end of the last record.

    Raises:
        ValueError: A log is damaged, or belongs to another index.
    """
    changes: list[Change] = []
    for path in layout.logs(folder):
        known = ends.get(path.name)
        for record in read_log(path) if known is None else read_log(path, known):
            try:
                change = from_bytes(record.content)
                if (path.name not in ends) != isinstance(change, Origin):
                    raise ValueError("records are not in the order in which they were written")
                ends[path.name] = record.end
                if isinstance(change, Origin):
                    change.check(base.manifest)
                    continue
                if isinstance(change, Addition):
                    change.check(base.manifest)
                changes.append(change)
            except ValueError as error:
                raise ValueError(f"{path}: the record at byte {record.offset}: {error}") from error
    return changes
