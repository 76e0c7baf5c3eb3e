from __future__ import annotations

from dataclasses import astuple

import pytest

from evaluation.calibration import calibrate


def test_bins_and_error_by_hand() -> None:
    found = calibrate([0.0, 0.1, 0.2, 0.95, 0.85, None, 1.0], [0, 1, 0, 1, 1, 1, 0], bins=5)
    assert found.n == 6
    # 0.2 belongs to the first bin
    assert astuple(found.bins[0]) == (0.0, 0.2, 3, pytest.approx(0.1), pytest.approx(1 / 3))
    assert astuple(found.bins[1]) == (0.2, 0.4, 0, None, None)
    assert astuple(found.bins[4]) == (0.8, 1.0, 3, pytest.approx(2.8 / 3), pytest.approx(2 / 3))
    assert found.ece == pytest.approx((3 * abs(1 / 3 - 0.1) + 3 * abs(2 / 3 - 2.8 / 3)) / 6)


def test_perfect_and_worst() -> None:
    assert calibrate([1.0, 1.0, 0.0], [1, 1, 0]).ece == 0.0
    assert calibrate([1.0, 0.0], [0, 1]).ece == 1.0
    assert calibrate([0.5] * 4, [1, 0, 1, 0]).ece == 0.0
    assert calibrate([None], [1]) == calibrate([], [])
    assert calibrate([], []).ece is None


def test_graded_scores_count_as_they_are() -> None:
    assert calibrate([0.6, 0.6], [0.9, 0.3]).ece == pytest.approx(0.0)


@pytest.mark.parametrize(("confidences", "scores", "bins"), [([0.5], [], 10), ([0.5], [1], 0), ([1.5], [1], 10)])
def test_confidences_and_scores_that_do_not_match_are_refused(
    confidences: list[float], scores: list[float], bins: int
) -> None:
    with pytest.raises(ValueError, match="confidences"):
        calibrate(confidences, scores, bins)
