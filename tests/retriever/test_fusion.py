from __future__ import annotations

import pytest

from retriever.fusion import choose_weight, fuse


def test_equation_5() -> None:
    # alpha 0.9: 0.9 * 0.30 + 0.1 * 0.80 and 0.9 * 0.32 + 0.1 * 0.40
    assert fuse([0.30, 0.32], [0.80, 0.40], 0.9) == pytest.approx([0.35, 0.328])


def test_equation_7() -> None:
    # beta 0.2: 0.2 * 0.5 + 0.8 * 0.1 and 0.2 * 0.25 + 0.8 * 1.0
    assert fuse([0.5, 0.25], [0.1, 1.0], 0.2) == pytest.approx([0.18, 0.85])


@pytest.mark.parametrize(("weight", "expected"), [(0.0, [0.2, 0.1]), (1.0, [-0.5, 0.7])])
def test_the_ends_leave_one_score(weight: float, expected: list[float]) -> None:
    assert fuse([-0.5, 0.7], [0.2, 0.1], weight) == pytest.approx(expected)


def test_a_missing_score_is_the_lowest_of_its_kind_not_zero() -> None:
    # the second item's missing sim_m is replaced by -0.4, the lowest of the others
    assert fuse([0.2, 0.4, 0.6], [-0.2, None, -0.4], 0.5) == pytest.approx([0.0, 0.0, 0.1])


def test_a_kind_that_nobody_has_is_left_out() -> None:
    assert fuse([0.2, 0.4], [None, None], 0.1) == [0.2, 0.4]
    assert fuse([None, None], [0.3, 0.1], 0.9) == [0.3, 0.1]
    assert fuse([None], [None], 0.5) == [0.0]


def test_short_lists() -> None:
    assert fuse([], [], 0.5) == []
    assert fuse([0.25], [0.75], 0.5) == [0.5]
    assert fuse([0.25], [None], 0.5) == [0.25]


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="1 scores with 0"):
        fuse([0.1], [], 0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        fuse([0.1], [0.1], 1.5)


@pytest.mark.parametrize(
    ("recall", "count", "expected"),
    [
        # The standard error of 0.9 is sqrt(0.9 * 0.1 / 100) = 0.03: 0.25 to 1 are within it, their middle is 0.625.
        ({0.0: 0.6, 0.25: 0.88, 0.6: 0.875, 0.75: 0.9, 1.0: 0.89}, 100, 0.6),
        ({0.0: 0.6, 0.25: 0.86, 0.6: 0.875, 0.75: 0.9, 1.0: 0.86}, 100, 0.6),  # 0.6 and 0.75: the smaller one
        ({0.0: 0.6, 0.25: 0.88, 0.6: 0.875, 0.75: 0.9, 1.0: 0.89}, 10_000, 0.75),  # 0.003: the best alone
        ({0.5: 0.75, 1.0: 1.0, 0.0: 1.0}, 4, 0.0),  # no error at 1; values between two equal maxima do not qualify
        ({0.0: 0.0, 0.5: 0.0, 1.0: 0.0}, 4, 0.5),
    ],
)
def test_the_middle_of_the_flat_part_is_chosen(recall: dict[float, float], count: int, expected: float) -> None:
    assert choose_weight(recall, count) == expected


def test_nothing_to_choose_from() -> None:
    with pytest.raises(ValueError, match="got 0 and 5"):
        choose_weight({}, 5)
    with pytest.raises(ValueError, match="got 1 and 0"):
        choose_weight({0.5: 0.0}, 0)
