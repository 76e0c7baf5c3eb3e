"""The column of an index with the keypoints of its images, by which candidates are verified."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from PIL import Image

from indexes.store.columns import Column, Encoded, Stored
from retriever.image_cache import ImageCache, content_of
from retriever.models.keypoints import DIMENSION, VERSION, Keypoints, find_keypoints
from retriever.protocols import Verify
from retriever.types import FloatArray, IntArray
from retriever.verification import agreement

_PLACE = 4 * np.dtype(np.float16).itemsize
_WIDTH = DIMENSION + _PLACE
_LEVELS = 512.0
"""Values of descriptors times this are stored as whole numbers up to 255: hardly one is above a half."""


_KEPT = 1 << 24
"""Bytes of keypoints of queries that are kept."""
_SAMPLED = 64
"""Entities, all over the index, whose keypoints say what many things have, such as the ruler beside them; at most."""


class KeypointModel:
    """The column's model: what finds keypoints, and the width of what is stored of each."""

    dimension, fingerprint = _WIDTH, VERSION
    find = staticmethod(find_keypoints)


def encode_keypoints(points: Keypoints) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Returns the rows of an image's keypoints, uint8 [N, 136]."""
    levels = np.minimum(np.round(points.descriptors * _LEVELS), 255).astype(np.uint8)
    return np.hstack([levels, np.ascontiguousarray(points.places, np.float16).view(np.uint8).reshape(-1, _PLACE)])


def decode_keypoints(rows: np.ndarray[Any, np.dtype[np.uint8]]) -> Keypoints:
    """Returns the keypoints of an image's rows."""
    descriptors = rows[:, :DIMENSION].astype(np.float32)
    descriptors /= np.maximum(np.linalg.norm(descriptors, axis=1, keepdims=True), 1e-9)
    places = np.ascontiguousarray(rows[:, DIMENSION:]).view(np.float16).astype(np.float32)
    return Keypoints(places, descriptors)


def verifier(index: Any, model: KeypointModel) -> Verify:
    """Returns a function that verifies entities of an index with the column."""
    kept = ImageCache(_KEPT)  # a query is verified again with the words that are read on it

    def points_of(row: int) -> list[Keypoints]:
        encoded = index.column(KEYPOINTS.name, row)
        bounds = np.flatnonzero(np.diff(encoded.parts)) + 1
        return [decode_keypoints(rows) for rows in np.split(encoded.values, bounds)]

    def points_in(image: Image.Image) -> Keypoints:
        content = content_of(image)
        points: Keypoints | None = kept.get(KEYPOINTS.name, content) if content else None
        if points is None:
            points = model.find(image)
            if content:
                kept.put(KEYPOINTS.name, content, points, points.places.nbytes + points.descriptors.nbytes)
        return points

    @lru_cache(maxsize=1)
    def sample(up: object) -> tuple[list[str], FloatArray, IntArray]:
        """Returns ids of entities all over the index, the descriptors of their images, and where those of each begin.

        Args:
            up: Which parts of an index in parts answer: with another one, these are other entities.
        """
        if hasattr(index, "sample"):
            rows = index.sample(_SAMPLED)
        else:
            every = [*getattr(index, "rows", lambda: range(len(index)))()]
            rows = every[:: -(-len(every) // _SAMPLED)]
        images = {index.entity(row).id: [points.descriptors for points in points_of(row)] for row in rows}
        each = {id: joined for id, own in images.items() if len(joined := np.concatenate(own))}
        starts = np.cumsum([0, *map(len, each.values())], dtype=np.int64)[:-1]
        return [*each], np.concatenate([np.empty((0, DIMENSION), np.float32), *each.values()]), starts

    def verify(image: Image.Image, rows: Sequence[int]) -> list[int]:
        def elsewhere(descriptors: FloatArray) -> FloatArray:
            ids, (others, sampled, starts) = {index.entity(row).id for row in rows}, sample(getattr(index, "up", None))
            kept = [id not in ids for id in others]
            if not any(kept):
                return np.full(len(descriptors), -1, np.float32)
            cosines = (torch.from_numpy(descriptors) @ torch.from_numpy(sampled).T).numpy()
            highest: FloatArray = np.maximum.reduceat(cosines, starts, axis=1)[:, kept].max(axis=1)
            return highest

        return agreement(points_in(image), [points_of(row) for row in rows], elsewhere)

    return verify


def _encode(model: KeypointModel, items: Sequence[Stored]) -> list[Encoded]:
    return [_encoded(model, sorted(item.pictures.items())) for item in items]


def _encoded(model: KeypointModel, pictures: Sequence[tuple[int, Image.Image]]) -> Encoded:
    rows = [encode_keypoints(model.find(image)) for _, image in pictures]
    parts = [np.full(len(own), part, np.int64) for own, (part, _) in zip(rows, pictures, strict=True)]
    nothing = KEYPOINTS.nothing(_WIDTH)
    return Encoded(np.concatenate([nothing.values, *rows]), np.concatenate([nothing.parts, *parts]))


def _open(profile: Any) -> KeypointModel | None:
    return KeypointModel() if profile.search.keypoints else None


KEYPOINTS = Column(
    "keypoints", "pictures", np.uint8, _encode, ("keypoints.npy", "keypoints_of.npy"), _open, search=verifier
)
