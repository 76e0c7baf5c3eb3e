from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from PIL import Image

from retriever import step2_rerank
from retriever.asking import EntityIndex
from retriever.protocols import FusionEncoder
from retriever.step2_rerank import FusionRerank
from retriever.types import Candidate, Query


class Index:
    """The part of an index that is asked: row 2 has no image, row 3 a damaged one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def image_path(self, row: int) -> Path | None:
        """Returns the main image."""
        path = self._folder / f"{row}.png"
        return path if path.is_file() else None


def test_the_best_candidates_are_compared_if_they_score_by_their_main_image(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for row in (0, 1, 4, 5, 6):
        Image.new("RGB", (8 + row, 8), "red").save(tmp_path / f"{row}.png")
    (tmp_path / "3.png").write_bytes(b"no image")
    step = FusionRerank(cast(FusionEncoder, None), cast(EntityIndex, Index(tmp_path)), 0.5)
    lists: list[list[int]] = [[0, 4, 5, 6], [4, 1, 2, 6], [1, 0, 4], [2, 0, 4], [3, 0, 4], [], [0]]
    ranked = [[Candidate(row, image=int(row == 1)) for row in own] for own in lists]
    queries = [Query(Image.new("RGB", (90 + number, 9)), "") for number in range(len(ranked))]

    def align(images: Sequence[Image.Image], pairs: Sequence[tuple[int, int]]) -> list[float]:
        return [images[first].width + images[second].width / 100 for first, second in pairs]

    with caplog.at_level(logging.WARNING):
        step._align(align, queries, ranked)
    assert [[one.alignment for one in own] for own in ranked] == [
        [90.08, 90.12, 90.13, None],  # three are compared
        [91.12, None, None, None],
        *([None] * 3 for _ in range(3)),
        [],
        [None],  # without another candidate, nothing is estimated
    ]
    step.is_undecided = lambda own: own[0].row != 0
    again = [[Candidate(row, image=int(row == 1)) for row in own] for own in lists]
    step._align(align, queries, again)
    assert [own[0].alignment for own in again[:2]] == [None, 91.12]  # only where it can change the verdict
    assert len(caplog.records) == 2 and "3.png" in caplog.text


def test_images_are_compared_again_where_keypoints_find_another(tmp_path: Path) -> None:
    for row in range(3):
        Image.new("RGB", (8 + row, 8), "red").save(tmp_path / f"{row}.png")
    calls: list[str] = []

    def align(images: Sequence[Image.Image], pairs: Sequence[tuple[int, int]]) -> list[float]:
        calls.append(f"align {len(pairs)}")
        return [images[second].width / 100 for _, second in pairs]

    def verify(image: Image.Image, rows: Sequence[int]) -> list[int]:
        calls.append("verify")
        return [40 if row == 2 else 0 for row in rows]

    step = FusionRerank(cast(FusionEncoder, None), cast(EntityIndex, Index(tmp_path)), 0.5, align=align)
    step.is_unsure = lambda own: (own[0].alignment or 0) < 0.09
    ranked = [[Candidate(row) for row in rows] for rows in ([0, 1, 2], [1, 0, 2])]
    step.is_undecided = lambda own: True
    query = Query(Image.new("RGB", (90, 9)), "")
    step._align(align, [query, query], ranked)
    verified = [step._verified(verify, query, own) for own in ranked]
    assert [[one.row for one in own] for own in verified] == [[2, 0, 1], [1, 0, 2]]  # 0.09 is sure enough
    assert calls == ["align 6", "verify", "align 3"]
    assert [one.alignment for one in verified[0]] == [0.1, 0.08, 0.09]


def test_what_is_within_a_border_is_compared_if_that_scores_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = Image.new("RGB", (200, 100), "white")
    image.paste("red", (100, 30, 140, 70))
    image.paste("blue", (100, 30, 140, 50))
    for row in (0, 1):
        image.save(tmp_path / f"{row}.png")
    Image.new("RGB", (50, 50), "red").save(tmp_path / "2.png")
    step = FusionRerank(cast(FusionEncoder, None), cast(EntityIndex, Index(tmp_path)), 0.5, within=True)
    ranked = [Candidate(0, image=1), Candidate(1), Candidate(2, image=1)]  # the last by a further image
    compared: list[tuple[int, int]] = []

    def align(images: Sequence[Image.Image], pairs: Sequence[tuple[int, int]]) -> list[float]:
        compared.extend(image.size for image in images)
        return [0.5] * len(pairs)

    step._align(align, [Query(Image.new("RGB", (9, 9)), "")], [ranked])
    assert compared == [(9, 9), (38, 38), (200, 100)]
    assert [one.alignment for one in ranked] == [0.5, 0.5, None]
    monkeypatch.setattr(step2_rerank, "load_image", None)  # what was read is kept, also that there is no border
    step._align(align, [Query(Image.new("RGB", (9, 9)), "")], [ranked])
    assert compared[3:] == compared[:3]
