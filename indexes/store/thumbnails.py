"""The thumbnails of an index: their checksum, and main images that several entities share or that show nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.store.layout import REBUILD, THUMBNAILS
from indexes.store.manifest import Manifest
from retriever.files import write_whole
from retriever.images import is_plain, load_image
from retriever.types import Entity

Hashes = NDArray[np.uint8]
"""SHA-256 of each entity's thumbnail, uint8 [N, 32]; zeros if it has none."""
LISTED = 100
"""Most shared images listed in a report."""
_EXAMPLES = 5
_PLAIN = 3000
"""Most bytes of a thumbnail of one color."""


def hash_thumbnails(folder: Path, count: int) -> Hashes:
    """Returns the thumbnail hashes of the first `count` entities of an index or its unfinished build."""
    hashes = np.zeros((count, hashlib.sha256().digest_size), np.uint8)
    for row in range(count):
        path = folder / THUMBNAILS / f"{row}.jpg"
        if path.is_file():
            hashes[row] = np.frombuffer(hashlib.sha256(path.read_bytes()).digest(), np.uint8)
    return hashes


def checksum(hashes: Hashes) -> str:
    """Returns a single hash over all thumbnails, including absent ones, for the manifest."""
    digest = hashlib.sha256()
    for row, one in enumerate(hashes):
        digest.update(f"{row} {one.tobytes().hex() if one.any() else '-'}\n".encode())
    return digest.hexdigest()


def check_thumbnails(folder: Path, manifest: Manifest) -> None:
    """Compares the thumbnails of an index with its manifest.

    Raises:
        ValueError: A thumbnail is missing or has changed.
    """
    if checksum(hash_thumbnails(folder, manifest.counts.entities)) != manifest.thumbnails:
        raise ValueError(f"{folder / THUMBNAILS}: thumbnails differ from their checksum; {REBUILD}")


def shared_images(hashes: Hashes, articles: Sequence[Entity]) -> dict[str, Any]:
    """Returns which main images several entities share, by their thumbnails: no photograph tells these entities apart.

    For `report.json`: the number of such images, that of the entities that have one of them, and up to `LISTED` of the
    images, the most frequent first: `image` as its first entity names it, the number of `entities` that share it, and
    the first of their `ids`.
    """
    rows = np.flatnonzero(hashes.any(axis=1))
    names = np.ascontiguousarray(hashes[rows, :8]).view(np.int64).ravel()  # 64 bits tell millions of images apart
    _, group, counts = np.unique(names, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(counts > 1)
    members = rows[np.argsort(group, kind="stable")]
    starts = np.cumsum(counts) - counts
    first = shared[np.lexsort((members[starts[shared]], -counts[shared]))][:LISTED]
    listed = []
    for one in first.tolist():
        found = members[starts[one] : starts[one] + min(int(counts[one]), _EXAMPLES)].tolist()
        ids = [articles[row].id for row in found]
        listed.append({"image": articles[found[0]].image, "entities": int(counts[one]), "ids": ids})
    return {"images": len(shared), "entities": int(counts[shared].sum()), "most_frequent": listed}


def plain_images(folder: Path, articles: Sequence[Entity]) -> dict[str, Any]:
    """Returns how many thumbnails are of one color, and the first of their entities, for `report.json`.

    Either the images show nothing, or they have an encoding that comes out wrong.
    """
    paths = ((row, folder / THUMBNAILS / f"{row}.jpg") for row in range(len(articles)))
    small = (row for row, path in paths if path.is_file() and path.stat().st_size <= _PLAIN)
    rows = [row for row in small if is_plain(load_image(folder / THUMBNAILS / f"{row}.jpg"))]
    entries = [{"id": articles[row].id, "image": articles[row].image} for row in rows[:LISTED]]
    return {"count": len(rows), "entries": entries}


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
