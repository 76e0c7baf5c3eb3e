"""Samples for training step 2: which candidates they draw, and with which images.

Which held-out samples are used for validation.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from training.reranker.samples import SampleSet, compared_entities, labeled_images, without_surplus

GOLD, TWIN, A, B, BLIND, BARE = range(6)
SECTIONS = [8, 8, 8, 8, 8, 0]
"""Sections per entity: gold has 0 to 7, a 16 to 23, b 24 to 31."""


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


def sample_set(*found: int, sections: list[int] = SECTIONS) -> SampleSet:
    return SampleSet(
        question=ints(50),
        query_image=ints(7),
        gold=ints(GOLD),
        evidence=ints(3),
        positive_image=ints(100),
        held_out=np.array([False]),
        first_found=np.array([0, len(found)]),
        found=ints(*found),
        similarity=np.zeros(len(found), np.float32),
        right=np.array([entity in (GOLD, TWIN) for entity in found]),
        first_section=np.concatenate([[0], np.cumsum(sections)]),
        published=ints(*range(sum(sections))),
        main_image=ints(10, 11, 12, 13, -1, 15),
        image_owners=np.empty(0, np.int32),
        own_images=np.empty(0, np.int32),
        original=ints(*range(len(sections))),
    )


def test_negatives_obey_the_rules() -> None:
    samples = sample_set(A, GOLD, BLIND, TWIN, BARE, B)
    for seed in range(50):
        sections, images = samples.draw(0, np.random.default_rng(seed), "spread")
        assert len(sections) == len(set(sections.tolist())) == 16
        assert sections[0] == 3
        assert sum(section < 8 for section in sections[1:]) == 3
        assert all(16 <= section < 32 for section in sections[4:])
        expected = [100 if section < 8 else 12 if section < 24 else 13 for section in sections]
        assert images.tolist() == expected


def test_pooled_negatives_take_the_first_sections_of_the_gold_article() -> None:
    samples = sample_set(A, B)
    seen: set[int] = set()
    for seed in range(100):
        sections, _ = samples.draw(0, np.random.default_rng(seed), "pooled")
        own = {int(section) for section in sections[1:] if section < 8}
        assert len(set(sections.tolist())) == 16 and own <= {0, 1, 2}
        seen.add(len(own))
    assert seen == {0, 1, 2, 3}  # none is guaranteed


def test_the_same_seed_draws_the_same() -> None:
    samples = sample_set(A, B)
    one, other = (samples.draw(0, np.random.default_rng(5), "spread")[0] for _ in range(2))
    assert one.tolist() == other.tolist()


def test_a_short_article_gives_fewer_of_its_own() -> None:
    samples = sample_set(A, B, sections=[2, 0, 8, 8, 0, 0])
    samples.evidence[0] = 1
    sections, _ = samples.draw(0, np.random.default_rng(0), "spread")
    assert [int(section) for section in sections if section < 2] == [1, 0]
    assert len(sections) == 16


def test_too_few_negatives_are_noticed() -> None:
    assert sample_set(A, B).enough(0)
    assert not sample_set(A, BLIND).enough(0)  # 3 and 8 of 15
    assert sample_set(A, B, sections=[4, 0, 8, 4, 0, 0]).enough(0)  # 3, 8 and 4
    assert not sample_set(A, B, sections=[4, 0, 8, 3, 0, 0]).enough(0)


def test_it_is_kept_on_disk(tmp_path: Path) -> None:
    samples = sample_set(A, B)
    samples.save(tmp_path / "samples.npz")
    assert SampleSet.load(tmp_path / "samples.npz").digest == samples.digest
    assert sample_set(B, A).digest != samples.digest
    assert len(samples.keep(np.array([], dtype=np.int64))) == 0
    assert samples.keep(np.array([0])).digest == samples.digest


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
    monkeypatch.setattr("training.reranker.samples.MOST_QUESTIONS", 2)
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
    monkeypatch.setattr("training.reranker.samples.MOST_ROWS", most)
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
