"""The files of a changed index: the folder `live` next to the files of the build.

    INDEX/                the files that `build-index` wrote: generation 0, removed after the first compaction
    INDEX/live/current    the number of the current generation, as text; 0 without this file
    INDEX/live/000002/    generation 2, a complete index that a compaction wrote
    INDEX/live/000002.log the changes since generation 2, kept as long as files of this or an older generation
    INDEX/live/images/    thumbnails of changed entities, named by a hash of their content

A compaction first starts the log of the next generation, then writes its folder, then replaces `current`. Until then,
opening the index reads the old generation and both logs; afterwards, the new generation and its log. So a kill at any
moment loses nothing, and the next process that writes removes leftover files.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from indexes.store.change_log import has_changes, sync_folder
from indexes.store.columns import all_files
from indexes.store.layout import THUMBNAILS
from indexes.store.manifest import MANIFEST
from retriever.files import write_whole

LIVE = "live"
_CURRENT = "current"
_GENERATION = re.compile(r"(\d{6})(\.log|\.partial)?")


def generation_of(folder: Path) -> int:
    """Returns the number of the current generation.

    Raises:
        ValueError: The file with the number is damaged.
    """
    path = folder / LIVE / _CURRENT
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return 0
    if not re.fullmatch(r"\d{1,6}", text) or not files_of(folder, int(text)).is_dir():
        raise ValueError(
            f"{path}: names generation {text[:20]!r}, which does not exist; restore the folder {folder / LIVE} from a "
            f"backup, or remove it and rebuild with `omgm build-index --overwrite`"
        )
    return int(text)


def set_generation(folder: Path, generation: int) -> None:
    """Makes a generation the current one, atomically."""
    write_whole(folder / LIVE / _CURRENT, f"{generation}\n".encode())
    sync_folder(folder / LIVE)


def files_of(folder: Path, generation: int) -> Path:
    """Returns the folder with the files of a generation."""
    return folder / LIVE / f"{generation:06}" if generation else folder


def index_of(files: Path) -> Path:
    """Returns the folder of the index whose generation has its files in `files`: the inverse of `files_of`."""
    return files.parent.parent if files.parent.name == LIVE and _GENERATION.fullmatch(files.name) else files


def current_files(folder: Path) -> Path:
    """Returns the folder with the files of the current generation: `folder` itself before any compaction."""
    return files_of(folder, generation_of(folder))


def log_of(folder: Path, generation: int) -> Path:
    """Returns the path of the log of changes since a generation."""
    return folder / LIVE / f"{generation:06}.log"


def logs(folder: Path) -> list[Path]:
    """Returns the logs of changes since the current generation, oldest first."""
    return logs_since(folder, generation_of(folder))


def logs_since(folder: Path, generation: int) -> list[Path]:
    """Returns the logs of changes since a generation, oldest first."""
    found = sorted((folder / LIVE).glob("??????.log"))
    return [path for path in found if int(path.stem) >= generation]


Status = tuple[int, int, int]
"""Inode, size and modification time of a file."""


class State(NamedTuple):
    """A state of the files of an index, for detecting changes: equal states mean equal content.

    Attributes:
        files: The status of the file that names the generation and, before any compaction, of the manifest.
        logs: Names and sizes of the logs.
    """

    files: tuple[Status | None, Status | None]
    logs: tuple[tuple[str, int], ...]


def state_of(folder: Path) -> State:
    """Returns the state of an index without reading any file."""
    current, logs = status_of(folder / LIVE / _CURRENT), list[tuple[str, int]]()
    for path in sorted((folder / LIVE).glob("??????.log")):
        if (status := status_of(path)) is not None:
            logs.append((path.name, status[1]))
    return State((current, None if current else status_of(folder / MANIFEST)), tuple(logs))


NO_FILES = (None, None)
"""`State.files` of an index that is being rebuilt, or of none."""


class Files(NamedTuple):
    """Identifies the current files of an index: equal values mean the same files.

    Attributes:
        generation: Their generation.
        state: As in `State.files`.
        manifest: The status of their manifest, which tells them from files of another build.
    """

    generation: int
    state: tuple[Status | None, Status | None]
    manifest: Status | None


def identify(folder: Path) -> Files:
    """Identifies the current files; raises errors like `generation_of`."""
    generation = generation_of(folder)
    return Files(generation, state_of(folder).files, status_of(files_of(folder, generation) / MANIFEST))


def status_of(path: Path) -> Status | None:
    """Returns the status of a file, or `None` if there is none."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def is_live(folder: Path) -> bool:
    """Returns whether an index has ever been changed."""
    return (folder / LIVE).is_dir()


def is_settled(folder: Path) -> bool:
    """Returns whether the logs contain no changes, not even changes that cancel each other out."""
    return not any(has_changes(path) for path in logs(folder))


def settled_files(folder: Path) -> Path:
    """Returns the folder with the files of the current generation, if they include all changes.

    Raises:
        ValueError: There are changes that are only in the logs.
    """
    if not is_settled(folder):
        raise ValueError(
            f"{folder}: has changes that are not in its files yet; run `omgm index compact --index {folder}` first"
        )
    return current_files(folder)


def remove_generation(folder: Path, generation: int) -> None:
    """Removes the files of a generation unless it is current, and the logs that no older files need any more.

    Of generation 0, only the files of the index itself are removed.
    """
    if generation == generation_of(folder):  # it was rebuilt
        return
    if generation:
        shutil.rmtree(files_of(folder, generation), ignore_errors=True)
    else:
        for name in (MANIFEST, *all_files()):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / THUMBNAILS, ignore_errors=True)
    left = [number for _, number, kind in _numbered(folder) if not kind]
    oldest = 0 if (folder / MANIFEST).exists() else min(left, default=0)
    for path, number, kind in _numbered(folder):
        if kind == ".log" and number < oldest:
            path.unlink(missing_ok=True)


def discard(folder: Path) -> None:
    """Removes all generations and changes except the files in `folder` itself, which is about to be rebuilt."""
    (folder / LIVE / _CURRENT).unlink(missing_ok=True)
    shutil.rmtree(folder / LIVE, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Removes what a killed process left behind: old generations, their logs, and unfinished folders."""
    counts = generation_of(folder)
    for path, generation, kind in _numbered(folder):
        if kind == ".log":
            if generation < counts:
                path.unlink(missing_ok=True)
        elif generation != counts or kind:
            shutil.rmtree(path)
    if counts and (folder / MANIFEST).exists():
        remove_generation(folder, 0)


def _numbered(folder: Path) -> Iterator[tuple[Path, int, str]]:
    live = folder / LIVE
    for path in sorted(live.iterdir()) if live.is_dir() else []:
        if match := _GENERATION.fullmatch(path.name):
            yield path, int(match[1]), match[2] or ""
