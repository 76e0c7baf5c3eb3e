"""The files in a folder and its subfolders, without those of systems and programs, and a table of many keys."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from indexes.image_paths import is_inside

_SYSTEM = frozenset({"@eadir", "__macosx", "$recycle.bin", "system volume information", "lost+found", "#recycle"})
"""Folders of operating systems and file managers, in lower case; hidden ones need not be listed."""
_PACKAGES = frozenset({"node_modules", "bower_components", "vendor", "__pycache__", "venv", "_sources"})
"""Folders with the dependencies of a program, and in which Sphinx keeps copies of the sources of pages."""
_INDEX = frozenset({"manifest.json", "entities.jsonl"})
"""Files of an index, whose thumbnails are not images of a knowledge base."""
_LOGSEQ = ("logseq", "config.edn")
"""The folder in which Logseq keeps its settings and backups of the notes, and a file in it."""

Refused = Callable[[str, OSError | None], object]
"""Is called with the path of a link or folder that is not read, and the error if there is one."""


def is_hidden(name: str) -> bool:
    """Returns whether a file or folder is hidden, or made by a system, a file manager or a package manager."""
    return name.startswith(".") or name.lower() in _SYSTEM or name in _PACKAGES


def files_under(
    folder: Path,
    suffixes: tuple[str, ...],
    refused: Refused = lambda path, error: None,
    *,
    outside: bool = True,
) -> Iterator[str]:
    """Yields the paths of the files under a folder, without hidden ones, in the order of a walk from the top.

    Links to files are files; folders are not entered through links, so that no file comes twice. `refused` is called
    with each link to a folder elsewhere and, unless `outside` files are followed, to a file elsewhere, and with each
    folder that cannot be read and the error.
    """
    root = os.path.realpath(folder)

    def walk(inner: str) -> Iterator[str]:
        try:
            with os.scandir(os.path.join(root, inner)) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as error:
            refused(inner, error)
            return
        names = {entry.name for entry in entries}
        if names >= _INDEX or (os.path.basename(inner) == _LOGSEQ[0] and _LOGSEQ[1] in names):
            return
        folders = []
        for entry in entries:
            if is_hidden(entry.name):
                continue
            path = f"{inner}/{entry.name}" if inner else entry.name
            is_wanted = entry.name.lower().endswith(suffixes)
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif entry.is_symlink() and not is_inside(entry.path, root) and not (outside and entry.is_file()):
                if is_wanted or entry.is_dir():
                    refused(path, None)
            elif is_wanted and entry.is_file():
                yield path
        for path in folders:
            yield from walk(path)

    return walk("") if os.path.isdir(root) else iter(())


def sorted_files(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Returns the files under a folder by their paths, see `files_under`."""
    return [folder / path for path in sorted(files_under(folder, suffixes))]


def unread_folders(folder: Path, suffixes: tuple[str, ...]) -> tuple[dict[str, OSError], dict[str, int]]:
    """Returns the folders under a folder that are not read.

    Returns:
        Those that cannot be read, with the errors; links to folders elsewhere, in words, with the numbers of files with
        such suffixes in them.
    """
    closed: dict[str, OSError] = {}
    elsewhere: dict[str, int] = {}

    def refused(path: str, error: OSError | None) -> None:
        link = os.path.join(os.path.realpath(folder), path)
        if error is not None:
            closed[path] = error
        elif os.path.isdir(link):
            files = (file for _, _, names in os.walk(link) for file in names)
            number = sum(file.lower().endswith(suffixes) for file in files)
            elsewhere[f"{path} leads to {os.path.realpath(link)}"] = number

    for _ in files_under(folder, suffixes, refused):
        pass
    return closed, elsewhere


class KeyTable:
    """Numbers by keys, which may have several numbers each; 16 bytes per pair.

    Only hashes of the keys are stored, and they hold in this process alone. Different keys may share a hash, so a
    caller that cannot bear one mistake in 10^13 look-ups compares the names themselves.
    """

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Takes the hashes of the keys with their numbers."""
        hashes, numbers = array("q"), array("q")
        for hashed, number in pairs:
            hashes.append(hashed)
            numbers.append(number)
        order = np.argsort(np.array(hashes, np.int64), kind="stable")
        self._hashes = array("q", np.array(hashes, np.int64)[order].tobytes())
        self._numbers = array("q", np.array(numbers, np.int64)[order].tobytes())

    def __getitem__(self, key: str) -> array[int]:
        """Returns the numbers of a key in the order in which they were given; none for an unknown key."""
        start = bisect_left(self._hashes, hash(key))
        return self._numbers[start : bisect_right(self._hashes, hash(key), start)]
