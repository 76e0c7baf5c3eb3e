"""Thumbnails of changed entities as files, named by a hash of their content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from retriever.files import write_whole


class Thumbnails:
    """The thumbnails in a folder. They are also in the log, so a lost file can be rewritten.

    Args:
        folder: The folder; created with the first thumbnail.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, thumbnail: bytes) -> Path | None:
        """Returns the file of a thumbnail, or `None` if there is none."""
        path = self._path(thumbnail)
        return path if thumbnail and path.is_file() else None

    def write(self, thumbnail: bytes) -> None:
        """Writes the file of a thumbnail, unless it exists or the thumbnail is empty."""
        path = self._path(thumbnail)
        if thumbnail and not path.is_file():
            self._folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, thumbnail)

    def keep(self, thumbnails: Iterable[bytes]) -> None:
        """Removes the files of all other thumbnails."""
        kept = {self._path(thumbnail) for thumbnail in thumbnails}
        for path in self._folder.glob("*"):
            if path not in kept:
                path.unlink()

    def _path(self, thumbnail: bytes) -> Path:
        return self._folder / f"{hashlib.sha256(thumbnail).hexdigest()[:32]}.jpg"
