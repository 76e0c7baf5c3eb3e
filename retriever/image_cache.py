"""Caches values computed from images by the images' content, so that several questions about one image share them."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

_CONTENT = "omgm_content"
"""The attribute that holds an image's cache key; not an entry of `info`, which Pillow copies to crops."""


def set_content(image: Image.Image, content: str) -> None:
    """Sets the key, such as a hash of the file, under which `ImageCache` keeps what is computed from an image."""
    vars(image)[_CONTENT] = content


def content_of(image: Image.Image) -> str | None:
    """Returns the key that `set_content` set, or `None`; crops and other copies of an image have no key."""
    content: str | None = vars(image).get(_CONTENT)
    return content


class ImageCache:
    """A thread-safe LRU cache of bounded size.

    Args:
        max_bytes: Limit for all values together, in bytes; tensors on a GPU count, too.

    Attributes:
        counts: Hits and misses of each kind of value, by `(kind, "hit" or "miss")`.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.counts: Counter[tuple[str, str]] = Counter()
        self._values: OrderedDict[tuple[str, str], tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._changed = threading.Condition()  # guards all other attributes
        self._computing: set[tuple[str, str]] = set()

    @property
    def bytes(self) -> int:
        """Size of all cached values, in bytes."""
        return self._bytes

    def get(self, kind: str, content: str) -> Any:
        """Returns the cached value of an image, or `None`."""
        with self._changed:
            value, _ = self._values.get((kind, content), (None, 0))
            self.counts[kind, "miss" if value is None else "hit"] += 1
            if value is not None:
                self._values.move_to_end((kind, content))
            return value

    def put(self, kind: str, content: str, value: Any, size: int) -> None:
        """Caches a value of `size` bytes, unless it is larger than the cache; evicts the least recently used values."""
        if size > self.max_bytes:
            return
        with self._changed:
            self._bytes += size - self._values.pop((kind, content), (None, 0))[1]
            self._values[kind, content] = (value, size)
            while self._bytes > self.max_bytes:
                self._bytes -= self._values.popitem(last=False)[1][1]

    def rows(
        self, kind: str, images: Sequence[Image.Image], compute: Callable[[Sequence[Image.Image]], Tensor]
    ) -> Tensor:
        """Returns one row per image, [N, ...]; rows that are not cached are computed, once for equal images.

        Waits for rows that another thread is computing instead of computing them again.

        Args:
            kind: The name of what `compute` returns, part of the cache key.
            images: At least one image.
            compute: Returns a row for each image, [N, ...].
        """
        keys = [content_of(image) or number for number, image in enumerate(images)]  # without a hash: not shared
        numbers = {key: keys.index(key) for key in dict.fromkeys(keys)}
        rows, missing, elsewhere = dict[Any, Tensor](), list[Any](), list[Any]()
        with self._changed:
            for key in numbers:
                if (kind, key) in self._computing:
                    elsewhere.append(key)
                elif isinstance(key, str) and (row := self.get(kind, key)) is not None:
                    rows[key] = row
                else:
                    missing.append(key)
            claimed = [(kind, key) for key in missing if isinstance(key, str)]
            self._computing.update(claimed)
        try:
            if missing:
                computed = compute([images[numbers[key]] for key in missing])
                rows |= zip(missing, computed, strict=True)
                for _, key in claimed:  # a copy, since the row holds the memory of the whole batch
                    self.put(kind, key, rows[key].clone(), rows[key].nbytes)
                if len(missing) == len(images):
                    return computed
        finally:
            with self._changed:
                self._computing.difference_update(claimed)
                self._changed.notify_all()
        if elsewhere:
            with self._changed:
                self._changed.wait_for(lambda: not any((kind, key) in self._computing for key in elsewhere))
            rows |= zip(elsewhere, self.rows(kind, [images[numbers[key]] for key in elsewhere], compute), strict=True)
        return torch.stack([rows[key] for key in keys])
