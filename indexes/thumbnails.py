"""The thumbnails of an index: their checksum, and which main images several entities have."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.manifest import REBUILD, THUMBNAILS, Manifest
from retriever.types import Entity

Hashes = NDArray[np.uint8]
"""SHA-256 of the thumbnail of each entity, [N, 32]; zeros where there is none."""
LISTED = 100
"""Shared images that a report lists, the most frequent first."""
_EXAMPLES = 5


def hash_thumbnails(folder: Path, count: int) -> Hashes:
    """Returns the hash of the thumbnail of each of the first `count` entities of an index or its unfinished build."""
    hashes = np.zeros((count, hashlib.sha256().digest_size), np.uint8)
    for row in range(count):
        path = folder / THUMBNAILS / f"{row}.jpg"
        if path.is_file():
            hashes[row] = np.frombuffer(hashlib.sha256(path.read_bytes()).digest(), np.uint8)
    return hashes


def checksum(hashes: Hashes) -> str:
    """Returns one hash over all thumbnails, in which absent ones count too, as the manifest has it."""
    digest = hashlib.sha256()
    for row, one in enumerate(hashes):
        digest.update(f"{row} {one.tobytes().hex() if one.any() else '-'}\n".encode())
    return digest.hexdigest()


def check_thumbnails(folder: Path, manifest: Manifest) -> None:
    """Compares the thumbnails of an index with its manifest.

    Raises:
        ValueError: One is missing or changed.
    """
    if checksum(hash_thumbnails(folder, manifest.counts.entities)) != manifest.thumbnails:
        raise ValueError(f"{folder / THUMBNAILS}: thumbnails differ from their checksum; {REBUILD}")


@dataclass(frozen=True, slots=True)
class SharedImages:
    """Main images that several entities have: no photograph tells these entities apart.

    Attributes:
        images: Number of such images.
        entities: Number of entities that have one of them.
        most_frequent: Up to `LISTED` of them: the image as its first entity names it, `entities` that have it, and the
            first `ids` of these.
    """

    images: int
    entities: int
    most_frequent: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Returns it for `report.json`."""
        return asdict(self)


def shared_images(hashes: Hashes, articles: Sequence[Entity]) -> SharedImages:
    """Finds main images that are the same for several entities, by their thumbnails."""
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
    return SharedImages(len(shared), int(counts[shared].sum()), listed)
