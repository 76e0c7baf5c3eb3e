"""Which images are copies of the same picture, whatever their names, formats, sizes and compression.

An image is judged by its signature: its pixels, averaged to 16 by 16. What is mirrored, cropped or photographed again
is no copy.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from indexes.ahead import map_ahead
from indexes.progress import progress_bar
from retriever.digests import MISSING, digests_of
from retriever.files import cache_folder, replacing
from retriever.images import ImageError, load_image
from retriever.types import FloatArray, IntArray

logger = logging.getLogger(__name__)

Signatures = NDArray[np.uint8]
"""Signatures of images, uint8 [N, 768]."""
Content = Path | bytes | None

SIDE = 16
SAME = 0.2
"""Copies differ by at most this share of their contrast, both root mean squares. In eight collections, 99 % of copies
that were made smaller or saved again with a lower quality differ by at most 0.17, all other images by at least 0.33."""
_NOISE = 1.0
"""Levels by which copies may differ if they have no contrast."""
_DRAFT = 16 * SIDE
_COARSE = 4
_ROUNDING = 0.1
_BLOCK, _PAIRS = 512, 1 << 15
_AT_ONCE = 500
_TABLE = "CREATE TABLE IF NOT EXISTS images (digest BLOB PRIMARY KEY, signature BLOB NOT NULL) WITHOUT ROWID"


class KnownImages(NamedTuple):
    """Images that can be read, by their signatures.

    Attributes:
        ids: Their ids; those of several images may be the same.
        signatures: Their signatures, in the same order.
    """

    ids: list[str]
    signatures: Signatures

    @classmethod
    def of(cls, images: Mapping[str, Content], cache: Path | None = None) -> Self:
        """Reads images, given their files or bytes by id; each content is decoded once for all commands of a user.

        Args:
            images: The images; those that are missing or cannot be read are left out.
            cache: The file in which signatures are kept; by default one in the cache folder.
        """
        return cls.of_several({id: [one] for id, one in images.items()}, cache)

    @classmethod
    def of_several(cls, images: Mapping[str, Sequence[Content]], cache: Path | None = None) -> Self:
        """Reads images as `of` does, where several may have the same id."""
        pairs = [(id, one) for id, several in images.items() for one in several]
        signatures = _signatures([one for _, one in pairs], cache)
        read = [(id, one) for (id, _), one in zip(pairs, signatures, strict=True) if one]
        values = np.frombuffer(b"".join(one for _, one in read), np.uint8).reshape(len(read), SIDE * SIDE * 3)
        return cls([id for id, _ in read], values)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote; nothing is known without a file."""
        if not path.is_file():
            return cls([], np.empty((0, SIDE * SIDE * 3), np.uint8))
        with np.load(path, allow_pickle=False) as arrays:
            return cls(arrays["ids"].tolist(), arrays["signatures"])

    def save(self, path: Path) -> None:
        """Writes ids and signatures."""
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez(file, ids=np.array(self.ids, dtype=np.str_), signatures=self.signatures)

    def copies_in(self, others: Self) -> set[str]:
        """Returns the ids of the images that have a copy among `others`."""
        return {self.ids[row] for rows, _ in _pairs(self.signatures, others.signatures) for row in rows.tolist()}

    def same(self, others: Self, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Returns those pairs of an id and one of `others` whose images are copies; what is unknown is none."""
        here, there = self._rows(), others._rows()
        rows = [
            (pair, one, other) for pair in pairs for one in here.get(pair[0], ()) for other in there.get(pair[1], ())
        ]
        same = are_copies(self.signatures[[one for _, one, _ in rows]], others.signatures[[one for _, _, one in rows]])
        return list(dict.fromkeys(pair for (pair, _, _), copies in zip(rows, same, strict=True) if copies))

    def _rows(self) -> dict[str, list[int]]:
        rows = defaultdict[str, list[int]](list)
        for row, id in enumerate(self.ids):
            rows[id].append(row)
        return rows

    def names(self) -> dict[str, str]:
        """Returns a name for the content of each image, by id: copies, and copies of copies, have the same."""
        distinct, inverse = np.unique(self.signatures, axis=0, return_inverse=True)
        group = np.arange(len(distinct))
        pairs = list(_pairs(distinct, distinct))
        changed = True
        while changed:
            before = group.copy()
            for one, other in pairs:
                np.minimum.at(group, one, group[other])
                np.minimum.at(group, other, group[one])
            changed = not np.array_equal(group, before)
        # A group is named after its first content in the order of signatures, not after a place in the mapping.
        names = [hashlib.blake2b(distinct[row].tobytes(), digest_size=8).hexdigest() for row in group.tolist()]
        return {id: names[row] for id, row in zip(self.ids, inverse.tolist(), strict=True)}


def content_names(images: Mapping[str, Content]) -> dict[str, str]:
    """Returns a name for the content of each image, by id: the same for copies, and the id if it cannot be read."""
    return {id: id for id in images} | KnownImages.of(images).names()


def signature(image: Image.Image) -> bytes:
    """Returns the signature of an RGB image."""
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX), np.uint8).tobytes()


def _read(content: Path | bytes) -> bytes:
    try:
        return signature(load_image(content, max_side=_DRAFT))
    except (ImageError, OSError):
        return b""


def _signatures(contents: Sequence[Content], cache: Path | None) -> Iterator[bytes]:
    """Yields the signature of each image, empty for one that cannot be read."""
    path = cache
    try:
        path = path or cache_folder() / "signatures.sqlite"
        path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path, timeout=30, isolation_level=None)
        db.execute(_TABLE)
    except (OSError, sqlite3.Error) as error:
        logger.info("%s: cannot be used (%s); decoding every image", path or "signatures", error)
        db = sqlite3.connect(":memory:", isolation_level=None)
        db.execute(_TABLE)
    shown = len(contents) > 2 * _AT_ONCE
    with closing(db), progress_bar(total=len(contents), desc="comparing images", unit="image", shown=shown) as bar:
        waiting = zip(digests_of(contents), contents, strict=True)
        while part := list(islice(waiting, _AT_ONCE)):
            yield from _part(db, [digest for digest, _ in part], dict(part))
            bar.update(len(part))


def _part(db: sqlite3.Connection, digests: Sequence[bytes], contents: Mapping[bytes, Content]) -> Iterator[bytes]:
    marks = ",".join("?" * len(contents))
    known = {MISSING: b""}
    known.update(db.execute(f"SELECT digest, signature FROM images WHERE digest IN ({marks})", list(contents)))
    left = {digest: one for digest, one in contents.items() if one is not None and digest not in known}
    new = dict(zip(left, map_ahead(_read, left.values(), _AT_ONCE), strict=True))
    try:
        db.execute("BEGIN")
        db.executemany("INSERT OR IGNORE INTO images VALUES (?, ?)", [pair for pair in new.items() if pair[1]])
        db.execute("COMMIT")
    except sqlite3.Error as error:
        logger.info("signatures of images cannot be kept (%s)", error)
    known |= new
    for digest in digests:
        yield known[digest]


def _pairs(ones: Signatures, others: Signatures) -> Iterator[tuple[IntArray, IntArray]]:
    """Yields the rows of copies, in parts; of the same signatures, each pair once.

    The mean of an image and the means of its parts differ from a copy's by no more than their pixels do, so that most
    images are ruled out by few numbers.
    """
    mean, other_mean = (np.asarray(values.mean(axis=1), np.float32) for values in (ones, others))
    limit, coarse = _limit(ones), _coarse(ones)
    order, other_order = np.argsort(mean, kind="stable"), np.argsort(other_mean, kind="stable")
    other_mean, other_coarse = other_mean[other_order], _coarse(others[other_order])
    # One product is half of the squared distance, less what does not depend on the other image.
    keys = np.hstack([other_coarse, np.square(other_coarse).sum(axis=1, keepdims=True) / 2])
    for start in range(0, len(ones), _BLOCK):
        rows = order[start : start + _BLOCK]
        low, high = (mean[rows] - limit[rows]).min(), (mean[rows] + limit[rows]).max()
        first, last = np.searchsorted(other_mean, [low, np.nextafter(high, np.float32(np.inf))]).tolist()
        first = start if ones is others else first
        bound = coarse.shape[1] * np.square(limit[rows] + _ROUNDING) - np.square(coarse[rows]).sum(axis=1)
        products = np.hstack([-coarse[rows], np.ones((len(rows), 1), np.float32)]) @ keys[first:last].T
        near = np.flatnonzero(products <= bound[:, None] / 2)
        for at in range(0, len(near), _PAIRS):
            row, place = np.divmod(near[at : at + _PAIRS], last - first)
            one, other = rows[row], other_order[first + place]
            same = are_copies(ones[one], others[other])
            yield one[same], other[same]


def are_copies(ones: Signatures, others: Signatures) -> NDArray[np.bool_]:
    """Returns whether each image is a copy of the other one in the same row, bool [N]."""
    difference = ones.astype(np.float32) - others
    return np.asarray(np.square(difference).mean(axis=1) <= np.square(_limit(ones)))


def _limit(signatures: Signatures) -> FloatArray:
    """Returns by how much the copies of each image may differ, in levels, float32 [N]."""
    pixels = signatures.reshape(len(signatures), SIDE * SIDE, 3).astype(np.float32)
    contrast = np.sqrt(pixels.var(axis=1).mean(axis=1))  # about the mean of each channel
    return np.asarray(np.maximum(SAME * contrast, _NOISE), np.float32)


def _coarse(signatures: Signatures) -> FloatArray:
    """Returns the means of 4 by 4 parts, float32 [N, 48], about the middle gray."""
    parts = signatures.reshape(len(signatures), _COARSE, SIDE // _COARSE, _COARSE, SIDE // _COARSE, 3)
    return np.asarray(
        parts.mean(axis=(2, 4), dtype=np.float32).reshape(len(signatures), 3 * _COARSE**2) - 128, np.float32
    )
