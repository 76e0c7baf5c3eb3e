from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL import Image

from retriever.image_cache import CONTENT, ImageCache


def image(width: int, content: str = "") -> Image.Image:
    made = Image.new("RGB", (width, 1))
    if content:
        made.info[CONTENT] = content
    return made


class WidthRows:
    """Computes an image's width, twice, as a row of 8 bytes."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def __call__(self, images: Sequence[Image.Image]) -> torch.Tensor:
        self.asked.append([image.width for image in images])
        return torch.tensor([[image.width] * 2 for image in images], dtype=torch.float32)


def firsts(rows: torch.Tensor) -> list[float]:
    assert rows.shape[1:] == (2,)
    return [float(row[0]) for row in rows]


def test_equal_images_are_computed_once() -> None:
    cache, widths = ImageCache(1000), WidthRows()
    assert firsts(cache.rows("step1", [image(1, "a"), image(2, "b"), image(1, "a")], widths)) == [1, 2, 1]
    assert firsts(cache.rows("step1", [image(3, "c"), image(2, "b")], widths)) == [3, 2]
    assert firsts(cache.rows("step1", [image(2, "b"), image(1, "a")], widths)) == [2, 1]
    assert widths.asked == [[1, 2], [3]]
    assert firsts(cache.rows("step2", [image(1, "a")], widths)) == [1]  # another kind
    assert dict(cache.counts) == {("step1", "miss"): 3, ("step1", "hit"): 3, ("step2", "miss"): 1}


def test_images_without_content_are_always_computed() -> None:
    cache, widths = ImageCache(1000), WidthRows()
    for _ in range(2):
        assert firsts(cache.rows("step1", [image(1), image(2, "b"), image(1)], widths)) == [1, 2, 1]
    assert widths.asked == [[1, 2, 1], [1, 1]]


def test_bytes_are_bounded() -> None:
    cache, widths = ImageCache(16), WidthRows()
    for name in "abac":  # of 8 bytes each; a is used again, so b makes room for c
        cache.rows("step1", [image(1, name)], widths)
    assert cache.bytes == 16
    assert [cache.get("step1", name) is not None for name in "abc"] == [True, False, True]
    cache.put("decode", "large", object(), 17)
    assert cache.get("decode", "large") is None and cache.bytes == 16
    cache.put("decode", "a", object(), 16)
    assert cache.bytes == 16 and cache.get("step1", "a") is None
    cache.put("decode", "a", object(), 4)  # replaces the other
    assert cache.bytes == 4


def test_nothing_is_kept_in_an_empty_cache() -> None:
    cache, widths = ImageCache(0), WidthRows()
    for _ in range(2):
        assert firsts(cache.rows("step1", [image(5, "a")], widths)) == [5]
    assert widths.asked == [[5], [5]] and cache.bytes == 0


def test_a_kept_row_does_not_hold_its_batch() -> None:
    cache, widths = ImageCache(1000), WidthRows()
    cache.rows("step1", [image(1, "a"), image(2, "b")], widths)
    assert cache.get("step1", "a").untyped_storage().nbytes() == 8
