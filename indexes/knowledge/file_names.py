"""The names of the image files in a folder, millions of them in little memory, and tables to find them by keys."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np

from indexes.knowledge.image_names import IMAGE_SUFFIXES
from retriever.types import IntArray

_SYSTEM = frozenset({"@eadir", "__macosx", "$recycle.bin", "system volume information", "lost+found", "#recycle"})
"""Folders of operating systems and file managers, in lower case; hidden ones need not be listed."""
_PACKAGES = frozenset({"node_modules", "bower_components", "vendor", "__pycache__", "venv", "_sources"})
"""Folders with the dependencies of a program, and in which Sphinx keeps copies of the sources of pages."""
_INDEX = frozenset({"manifest.json", "entities.jsonl"})
"""Files of an index, whose thumbnails are not images of a knowledge base."""
_LOGSEQ = ("logseq", "config.edn")
"""The folder in which Logseq keeps its settings and backups of the notes, and a file in it."""


def is_hidden(name: str) -> bool:
    """Returns whether a file or folder is hidden, or made by a system, a file manager or a package manager."""
    return name.startswith(".") or name.lower() in _SYSTEM or name in _PACKAGES


def image_files(folder: Path, refused: Callable[[str, OSError | None], object]) -> Iterator[str]:
    """Yields the paths of the image files under a folder, see `files_under`; links out of it are refused."""
    return files_under(folder, IMAGE_SUFFIXES, refused, outside=False)


def files_under(
    folder: Path,
    suffixes: tuple[str, ...],
    refused: Callable[[str, OSError | None], object] = lambda path, error: None,
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
            with os.scandir(os.path.join(root, inner)) as found:
                entries = sorted(found, key=lambda entry: entry.name)
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
            elsewhere[f"{path} leads to {os.path.realpath(link)}"] = sum(
                file.lower().endswith(suffixes) for file in files
            )

    for _ in files_under(folder, suffixes, refused):
        pass
    return closed, elsewhere


def is_inside(path: str, root: str) -> bool:
    """Returns whether a path, its links resolved, is under a folder given by its real path."""
    return os.path.realpath(path).startswith(os.path.join(root, ""))


class FileNames(Sequence[str]):
    """The names of many files, in as many bytes as they have characters and 8 more each."""

    def __init__(self, names: Iterable[str]) -> None:
        data, ends = bytearray(), array("q", [0])
        for name in names:
            data += os.fsencode(name)
            ends.append(len(data))
        self._data, self._ends = bytes(data), ends

    def __len__(self) -> int:
        """Number of names."""
        return len(self._ends) - 1

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> list[str]: ...
    def __getitem__(self, number: int | slice) -> str | list[str]:
        """Returns a name, or the names of a slice."""
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        return os.fsdecode(self._data[self._ends[number] : self._ends[number + 1]])


class KeyTable:
    """Numbers by keys, which may have several numbers each; 16 bytes per pair.

    Only hashes of the keys are stored, and they hold in this process alone. Different keys may share a hash, so a
    caller that cannot bear one mistake in 10^13 look-ups compares the names themselves.
    """

    def __init__(self, pairs: Iterable[tuple[str, int]]) -> None:
        hashes, numbers = array("q"), array("q")
        for key, number in pairs:
            hashes.append(hash(key))
            numbers.append(number)
        found = np.frombuffer(hashes, np.int64) if hashes else np.empty(0, np.int64)
        order = np.argsort(found, kind="stable")
        self._hashes = found[order]
        self._numbers = (np.frombuffer(numbers, np.int64) if numbers else np.empty(0, np.int64))[order]

    def __getitem__(self, key: str) -> IntArray:
        """Returns the numbers of a key in the order in which they were given, int64; none for an unknown key."""
        start, end = np.searchsorted(self._hashes, hash(key), "left"), np.searchsorted(self._hashes, hash(key), "right")
        found: IntArray = self._numbers[start:end]
        return found
