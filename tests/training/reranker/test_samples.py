"""Samples for training step 2: which candidates they draw, and with which images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from training.reranker.samples import SampleSet

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
