"""The embedded profile's models give the same results with and without a cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omgm.opening import open_retriever
from omgm.profile import load_profile
from retriever.image_cache import ImageCache, set_content
from retriever.types import Query, RetrievalResult


def scores(results: list[RetrievalResult]) -> list[tuple[int, float | None, float | None]]:
    return [(c.row, c.sim_c, c.sim_m) for result in results for c in result.candidates]


def test_questions_about_one_image_share_its_encoding(example_folder: Path) -> None:
    cache = ImageCache(2**24)
    profile = load_profile("embedded")
    plain = open_retriever(profile, example_folder / "index")
    caching = open_retriever(profile, example_folder / "index", cache=cache)

    def photo(name: str) -> Image.Image:
        image = Image.open(example_folder / "queries" / name).convert("RGB")
        set_content(image, name)
        return image

    asked = [("jp_0.jpg", "What is the capital?"), ("fr_0.jpg", "Who lives here?"), ("jp_0.jpg", "How large is it?")]
    queries = [Query(photo(name), question) for name, question in asked]
    expected = scores(plain.retrieve(queries))
    for _ in range(2):  # the second time, nothing is computed from images
        found = scores(caching.retrieve(queries))
        assert [row for row, _, _ in found] == [row for row, _, _ in expected]
        for (_, *some), (_, *others) in zip(found, expected, strict=True):
            assert some == pytest.approx(others, abs=5e-4)  # the batch size affects bfloat16 rounding
    for step in ("step1", "step2"):
        assert cache.counts[step, "miss"] == 2
        assert cache.counts[step, "hit"] >= 2  # more if threads share a batch


def test_a_part_of_an_image_is_not_taken_for_the_whole(example_folder: Path) -> None:
    profile = load_profile("embedded")
    plain = open_retriever(profile, example_folder / "index")
    caching = open_retriever(profile, example_folder / "index", cache=ImageCache(2**24))
    left, right = (Image.open(example_folder / "queries" / name).convert("RGB") for name in ("jp_0.jpg", "fr_0.jpg"))
    whole = Image.new("RGB", (left.width + right.width, max(left.height, right.height)))
    whole.paste(left)
    whole.paste(right, (left.width, 0))
    set_content(whole, "both")
    # what agents search with: regions, and whole images that they rotated
    shown = [whole.crop((left.width, 0, left.width + right.width, right.height)), whole.rotate(180), whole]
    for image in shown:
        query = Query(image, "What is the capital?")
        found, expected = scores(caching.retrieve([query])), scores(plain.retrieve([query]))
        assert np.asarray(found) == pytest.approx(np.asarray(expected), abs=1e-5)  # parts are encoded in other batches
