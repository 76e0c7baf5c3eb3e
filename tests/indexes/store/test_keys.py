"""Step 1's keys: main image and summary combined."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from indexes.store.index import Index
from indexes.store.keys import Keys, as_query
from tests.fakes.knowledge_base import build_small_index, write_kb
from tests.fakes.models import FakeEncoder
from tests.fakes.plans import build_index


def build(folder: Path, out: str, candidates: str) -> Index:
    (folder / out).mkdir()
    return Index.open(build_small_index(folder / out, fusion=None, candidates=candidates))


def test_a_combined_score_is_the_weighted_mean_of_image_and_summary(tmp_path: Path) -> None:
    folder = build(tmp_path, "combined", "combined").folder
    by_image, by_text = build(tmp_path, "image", "image"), build(tmp_path, "text", "summary")
    query = FakeEncoder().encode_images([Image.new("RGB", (8, 8), "blue"), Image.new("RGB", (8, 8), "green")])

    def scores(index: Index) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        found, rows = index.search(query, 7)
        table = np.full((2, 7), np.nan, np.float32)
        for number in range(2):
            table[number, rows[number][rows[number] >= 0]] = found[number][rows[number] >= 0]
        return table

    image, text = scores(by_image), scores(by_text)
    assert np.isnan(image).any() and not np.isnan(text).any()  # some entities have no image
    image = np.where(np.isnan(image), text, image)  # their summary takes its place
    for weight in (0.0, 0.25, 1.0):
        combined = Index.open(folder, encoder=FakeEncoder(), image_weight=weight)
        np.testing.assert_allclose(scores(combined), weight * image + (1 - weight) * text, atol=1e-5)


def test_a_query_is_repeated_by_weight() -> None:
    vectors = torch.tensor([[1.0, 2.0]])
    assert as_query(vectors, "combined", 0.75).tolist() == [[0.75, 1.5, 0.25, 0.5]]
    assert as_query(vectors, "summary", 0.75).tolist() == [[1.0, 2.0]]


def test_keys_of_several_parts_lie_side_by_side() -> None:
    left, right = np.arange(6, dtype=np.float32).reshape(3, 2), np.arange(10, 13, dtype=np.float32).reshape(3, 1)
    keys = Keys((left, right), np.arange(3))
    assert keys.length == 3
    assert keys.read(np.array([2, 0])).tolist() == [[4, 5, 12], [0, 1, 10]]


@pytest.mark.parametrize("candidates", ["combined", "image"])
def test_without_any_image(tmp_path: Path, candidates: str) -> None:
    kb, _ = write_kb(tmp_path)
    (tmp_path / "none").mkdir()
    if candidates == "image":
        with pytest.raises(ValueError, match="no entity has a readable main image"):
            build_index(kb, tmp_path / "none", tmp_path / "out", candidates="image", fusion=None)
        return
    index = build_index(kb, tmp_path / "none", tmp_path / "out", candidates="combined", fusion=None)
    text = build(tmp_path, "text", "summary")
    query = FakeEncoder().encode_images([Image.new("RGB", (8, 8), "blue")])
    (scores, rows), (expected, expected_rows) = index.search(query, 5), text.search(query, 5)
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    np.testing.assert_array_equal(rows, expected_rows)
