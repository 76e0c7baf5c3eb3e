"""Keeps what was computed of images, by their content: several questions about one image share it."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

CONTENT = "omgm_content"
"""The key of an image's `info` under which the hash of its file stands. Images without it are not kept."""


class ImageCache:
    """A cache of bounded size, from which the least recently used values are dropped first; safe for threads.

    Args:
        max_bytes: Bytes of all values together; tensors on a GPU count, too.

    Attributes:
        counts: Hits and misses of each kind of value, by `(kind, "hit" or "miss")`.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.counts: Counter[tuple[str, str]] = Counter()
        self._values: OrderedDict[tuple[str, str], tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """Bytes of all values that are kept."""
        return self._bytes

    def get(self, kind: str, content: str) -> Any:
        """Returns the cached value of an image, or `None`."""
        with self._lock:
            value, _ = self._values.get((kind, content), (None, 0))
            self.counts[kind, "miss" if value is None else "hit"] += 1
            if value is not None:
                self._values.move_to_end((kind, content))
            return value

    def put(self, kind: str, content: str, value: Any, size: int) -> None:
        """Keeps a value of `size` bytes, in place of the oldest ones; one that is larger than the cache is not kept."""
        if size > self.max_bytes:
            return
        with self._lock:
            self._bytes += size - self._values.pop((kind, content), (None, 0))[1]
            self._values[kind, content] = (value, size)
            while self._bytes > self.max_bytes:
                self._bytes -= self._values.popitem(last=False)[1][1]

    def rows(
        self, kind: str, images: Sequence[Image.Image], compute: Callable[[Sequence[Image.Image]], Tensor]
    ) -> Tensor:
        """Returns one row per image, computing those that are not kept, equal images once.

        Args:
            kind: Names what `compute` returns.
            images: At least one image.
            compute: Returns a row for each image, [N, ...].
        """
        contents = [str(image.info.get(CONTENT, "")) for image in images]
        kept = {content: self.get(kind, content) for content in dict.fromkeys(contents) if content}
        rows: list[Tensor | None] = [kept.get(content) for content in contents]
        first = [number if not content else contents.index(content) for number, content in enumerate(contents)]
        missing = [number for number, row in enumerate(rows) if row is None and first[number] == number]
        if missing:
            computed = compute([images[number] for number in missing])
            for number, row in zip(missing, computed, strict=True):
                rows[number] = row
                if contents[number]:  # a copy, since the row holds the memory of the whole batch
                    self.put(kind, contents[number], row.clone(), row.nbytes)
            if len(missing) == len(images):
                return computed
        return torch.stack([row for number in first if (row := rows[number]) is not None])
