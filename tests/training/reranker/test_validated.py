"""Which held-out samples are used for validation."""

from __future__ import annotations

import numpy as np
import pytest

from training.reranker import validated
from training.reranker.samples import SampleSet
from training.reranker.validated import compared_entities, labeled_images, without_surplus


def samples() -> SampleSet:
    """Six samples about entities 0 to 5, of which the first two are trained on; each found itself and entity 6.

    Entity e has e + 1 sections, and one image of its own beside its main image, but 6 has no image.
    """
    ints = np.int32
    return SampleSet(
        question=np.arange(50, 56, dtype=ints),
        query_image=np.array([0, 0, 2, 3, 4, 5], dtype=ints),
        gold=np.arange(6, dtype=ints),
        evidence=np.zeros(6, ints),
        positive_image=np.arange(10, 16, dtype=ints),
        held_out=np.array([False, False, True, True, True, True]),
        first_found=np.arange(0, 14, 2),
        found=np.array([0, 6, 1, 6, 2, 6, 3, 6, 4, 6, 5, 6], dtype=ints),
        similarity=np.zeros(12, np.float32),
        right=np.array([True, False] * 6),
        first_section=np.cumsum([0, 1, 2, 3, 4, 5, 6, 7]),
        published=np.zeros(28, ints),
        main_image=np.array([10, 11, 12, 13, 14, 15, -1], dtype=ints),
        image_owners=np.arange(6, dtype=ints),
        own_images=np.arange(20, 26, dtype=ints),
        original=np.arange(7, dtype=ints),
    )


def test_everything_is_kept_within_the_limits() -> None:
    left, kept, images = without_surplus(samples(), 0, labeled=False)
    assert kept.tolist() == [0, 1, 2, 3, 4, 5]
    assert images.tolist() == [0, 2, 3, 4, 5, *range(10, 16), *range(22, 26)]  # further ones only of 2 to 5
    assert images[left.query_image].tolist() == [0, 0, 2, 3, 4, 5]
    assert images[left.main_image[:6]].tolist() == [10, 11, 12, 13, 14, 15] and left.main_image[6] == -1
    assert left.image_owners.tolist() == [2, 3, 4, 5] and images[left.own_images].tolist() == [22, 23, 24, 25]


def test_surplus_samples_and_their_images_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validated, "MOST_QUESTIONS", 2)
    chosen = sorted(np.random.default_rng([3, 2]).permutation([2, 3, 4, 5]).tolist()[:2])
    left, kept, images = without_surplus(samples(), 3, labeled=False)
    assert kept.tolist() == [0, 1, *chosen]
    assert left.gold.tolist() == [0, 1, *chosen] and left.held_out.tolist() == [False, False, True, True]
    assert left.found.tolist() == [0, 6, 1, 6, chosen[0], 6, chosen[1], 6]
    assert images.tolist() == sorted([0, *chosen, 10, 11, *(10 + e for e in chosen), *(20 + e for e in chosen)])
    assert [e for e in range(7) if left.main_image[e] >= 0] == [0, 1, *chosen]


@pytest.mark.parametrize(("most", "count"), [(10, 1), (15, 1), (16, 2), (28, 3), (29, 4)])
def test_rows_are_limited(most: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first, with 3 + 1 rows and 7 of entity 6, is taken in any case; the others have 5, 6 and 7 more."""
    monkeypatch.setattr(validated, "MOST_ROWS", most)
    monkeypatch.setattr(np.random, "default_rng", lambda seed: Ordered())
    left, _, _ = without_surplus(samples(), 0, labeled=False)
    assert len(left.validation) == count


class Ordered:
    """A generator that permutes nothing."""

    def permutation(self, values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> object:
        return values


def test_what_a_sample_is_compared_with() -> None:
    assert compared_entities(samples(), 4) == {4, 6}
    assert labeled_images(samples()) == {0: [0], 1: [0]}  # of training samples
