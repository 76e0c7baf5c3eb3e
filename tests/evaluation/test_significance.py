from __future__ import annotations

import itertools

import numpy as np
import pytest

from evaluation.significance import Difference, difference, figure


def harmonic(first: float, second: float) -> float:
    return 2 * first * second / (first + second) if first and second else 0.0


def test_four_wins_and_no_loss_by_hand() -> None:
    # 2^4 ways to swap; only all four one way or all four the other way differ by as much: 2 / 16
    found = difference([0, 0, 0, 0, 1], [1, 1, 1, 1, 1])
    assert found.value == pytest.approx(0.8)
    assert (found.p_value, found.exact, found.n_differing) == (2 / 16, True, 4)


def test_three_wins_and_one_loss_by_hand() -> None:
    # |wins - losses| is 2 or 4 in 2 * (4 + 1) of 16 ways
    assert difference([0, 0, 0, 1], [1, 1, 1, 0]).p_value == 10 / 16


def test_runs_that_agree() -> None:
    found = difference([1, 0, 1], [1, 0, 1])
    assert found == Difference(0.0, 0.0, 0.0, 1.0, True, 0)


def test_exact_p_of_graded_scores_is_that_of_all_swaps() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.choice([0, 0.3, 0.6, 1], 9), rng.choice([0, 0.3, 0.6, 1], 9)
    gaps = second - first
    sums = [abs(sum(s * g for s, g in zip(signs, gaps, strict=True))) for signs in itertools.product([-1, 1], repeat=9)]
    wanted = np.mean([total >= abs(gaps.sum()) - 1e-9 for total in sums])
    assert difference(first, second).p_value == pytest.approx(wanted)


def test_the_drawn_p_comes_near_the_binomial_one() -> None:
    # 30 wins, 12 losses: two-sided sign test, P(X >= 30 or X <= 12) of 42 fair coins
    scipy = pytest.importorskip("scipy.stats")
    first, second = [0] * 30 + [1] * 12 + [1] * 58, [1] * 30 + [0] * 12 + [1] * 58
    found = difference(first, second, resamples=100_000)
    assert not found.exact and found.n_differing == 42
    assert found.p_value == pytest.approx(scipy.binomtest(30, 42).pvalue, abs=0.001)
    assert difference(second, first, resamples=100_000).p_value == pytest.approx(found.p_value, abs=0.001)


def test_p_is_never_zero() -> None:
    assert difference([0] * 200, [1] * 200, resamples=999).p_value == 1 / 1000


def test_the_interval_is_that_of_resampled_questions() -> None:
    rng = np.random.default_rng(0)
    first = (rng.random(80) < 0.4).astype(float)
    second = np.where(rng.random(80) < 0.7, first, 1 - first)
    places = rng.integers(0, 80, size=(20_000, 80))
    for found, column in ((figure(first), first), (difference(first, second), second - first)):
        low, high = np.quantile(column[places].mean(axis=1), [0.025, 0.975])
        assert found.value == pytest.approx(column.mean())
        assert (found.low, found.high) == pytest.approx((low, high), abs=0.013)


def test_groups_are_joined_by_their_harmonic_mean() -> None:
    first, second = [1, 1, 0, 1, 0, 0], [1, 0, 1, 1, 1, 0]
    groups = ["q", "q", "q", "e", "e", "e"]
    found = difference(first, second, groups)
    assert figure(first, groups).value == pytest.approx(harmonic(2 / 3, 1 / 3))
    assert found.value == pytest.approx(harmonic(2 / 3, 2 / 3) - harmonic(2 / 3, 1 / 3))
    gaps = []
    for swaps in itertools.product([False, True], repeat=6):
        pairs = [(b, a) if swap else (a, b) for a, b, swap in zip(first, second, swaps, strict=True)]
        sides = [harmonic(sum(p[i] for p in pairs[:3]) / 3, sum(p[i] for p in pairs[3:]) / 3) for i in (0, 1)]
        gaps.append(abs(sides[1] - sides[0]))
    assert found.exact and found.p_value == pytest.approx(np.mean([gap >= found.value - 1e-9 for gap in gaps]))


def test_drawn_and_exact_agree_on_groups() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 2, 28).astype(float), rng.integers(0, 2, 28).astype(float)
    groups = [place % 2 for place in range(28)]
    fewer = difference(first, second, groups)
    assert fewer.exact is (fewer.n_differing <= 14)
    # every question twice: too many swaps to enumerate, so they are sampled; compare with sampling per question
    first, second, groups = np.tile(first, 2), np.tile(second, 2), groups * 2
    drawn = difference(first, second, groups, resamples=50_000)
    assert not drawn.exact
    swaps = rng.random((50_000, 56)) < 0.5
    odd = np.array(groups) == 1
    sides = []
    for a, b in ((first, second), (second, first)):
        table = np.where(swaps, b, a)
        one, two = table[:, odd].mean(axis=1), table[:, ~odd].mean(axis=1)
        sides.append(2 * one * two / (one + two))
    assert drawn.p_value == pytest.approx(np.mean(np.abs(sides[1] - sides[0]) >= abs(drawn.value) - 1e-9), abs=0.01)


def test_a_group_without_a_hit_makes_zero() -> None:
    found = figure([0, 0, 1, 1], ["q", "q", "e", "e"])
    assert (found.value, found.low, found.high) == (0, 0, 0)
    assert difference([0, 0, 1, 1], [1, 0, 1, 1], ["q", "q", "e", "e"]).value == pytest.approx(harmonic(0.5, 1))


def test_the_seed_decides() -> None:
    scores, others = np.random.default_rng(5).random((2, 50))
    assert figure(scores, seed=1) == figure(scores, seed=1) != figure(scores, seed=2)
    assert difference(scores, others, seed=1) == difference(scores, others, seed=1)


def test_many_distinct_scores_are_drawn_in_pieces() -> None:
    scores = np.random.default_rng(0).random(5000)
    found = figure(scores, resamples=1000)  # 5 million counts, more than are kept in memory at a time
    error = scores.std() / np.sqrt(5000)
    assert found.low == pytest.approx(scores.mean() - 1.96 * error, abs=error / 4)
    assert found.high == pytest.approx(scores.mean() + 1.96 * error, abs=error / 4)


@pytest.mark.parametrize(
    ("first", "second", "groups"),
    [([], [], None), ([1], [1, 0], None), ([1, 0], [1, 0], ["a"]), ([float("nan")], [1], None)],
)
def test_scores_that_do_not_pair_up_are_refused(
    first: list[float], second: list[float], groups: list[str] | None
) -> None:
    with pytest.raises(ValueError, match="scores"):
        difference(first, second, groups)
