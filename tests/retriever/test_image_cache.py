from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from PIL import Image

from retriever.image_cache import ImageCache, set_content


def image(width: int, content: str = "") -> Image.Image:
    made = Image.new("RGB", (width, 1))
    if content:
        set_content(made, content)
    return made


class WidthRows:
    """Returns an image's width, twice, as a row of 8 bytes."""

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


class SlowRows(WidthRows):
    """Computes rows when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, images: Sequence[Image.Image]) -> torch.Tensor:
        self.begun.set()
        assert self.may_end.wait(20)
        return super().__call__(images)


def test_what_another_thread_computes_is_waited_for() -> None:
    cache, slow, widths = ImageCache(1000), SlowRows(), WidthRows()
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(cache.rows, "step1", [image(1, "a"), image(2, "b")], slow)
        assert slow.begun.wait(20)
        other = threads.submit(cache.rows, "step1", [image(2, "b"), image(3, "c"), image(2, "b")], widths)
        assert firsts(cache.rows("step2", [image(2, "b")], widths)) == [2]  # of another kind
        slow.may_end.set()
        assert firsts(one.result(20)) == [1, 2] and firsts(other.result(20)) == [2, 3, 2]
    assert slow.asked == [[1, 2]] and sorted(widths.asked) == [[2], [3]]
    assert dict(cache.counts) == {("step1", "miss"): 3, ("step1", "hit"): 1, ("step2", "miss"): 1}


def test_what_another_thread_could_not_compute_is_computed() -> None:
    cache, widths = ImageCache(1000), WidthRows()
    begun, may_end = threading.Event(), threading.Event()

    def fails(images: Sequence[Image.Image]) -> torch.Tensor:
        begun.set()
        assert may_end.wait(20)
        raise ValueError("out of memory")

    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(cache.rows, "step1", [image(1, "a")], fails)
        assert begun.wait(20)
        other = threads.submit(cache.rows, "step1", [image(1, "a")], widths)
        may_end.set()
        with pytest.raises(ValueError, match="out of memory"):
            one.result(20)
        assert firsts(other.result(20)) == [1]
