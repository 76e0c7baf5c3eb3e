"""Bootstrap intervals of a figure, and paired randomization tests of two runs on the same questions.

A figure is the mean of a score over questions, or the harmonic mean of such means over groups of questions (InfoSeek's
overall score). Both methods depend only on how often each score occurs, so they draw counts instead of questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
LEVEL = 0.95
"""Share of the resamples inside an interval."""
_EXACT_UP_TO = 14  # with this many different questions, all 2 ** 14 ways to swap are tried
_CELLS = 4_000_000  # counts in memory at a time
_TINY = 1e-12  # tolerance for sums of the same scores in another order

ScoreArray = Sequence[float] | NDArray[np.float64]
Groups = Sequence[object] | None
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between a second run and a first one.

    Attributes:
        value: The second figure minus the first.
        low: Lower end of its interval, from a bootstrap over questions with both of their scores.
        high: Upper end.
        p_value: Two-sided: how often swapping the runs' scores at random makes at least as large a difference.
        exact: Whether all ways to swap were tried; otherwise they were drawn at random.
        n_differing: Number of questions on which the runs differ.
    """

    value: float
    low: float
    high: float
    p_value: float
    exact: bool
    n_differing: int


def figure(scores: ScoreArray, groups: Groups = None, *, resamples: int = RESAMPLES, seed: int = 0) -> Figure:
    """Computes the mean of scores, or the harmonic mean of the groups' means, with its percentile bootstrap interval.

    Questions are drawn with replacement, within each group.

    Args:
        scores: [N], one per question.
        groups: [N], the group of each question; `None` for one group.
        resamples: Number of resamples.
        seed: Seed of the draws.

    Raises:
        ValueError: There are no scores, one is not finite, or the lengths differ.
    """
    parts = _parts([scores], groups)
    low, high = _interval(_harmonic(_resampled(parts, resamples, seed)[:, :, 0]))
    return Figure(_value(parts, 0), low, high)


def difference(
    first: ScoreArray,
    second: ScoreArray,
    groups: Groups = None,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Tests how much higher `second` scores than `first` on the same questions in the same order.

    Args:
        first: [N] scores of one run.
        second: [N] scores of the other.
        groups: As in `figure`.
        resamples: Draws of the bootstrap, and of the randomization test if it is not exact.
        seed: Seed of both.

    Raises:
        ValueError: As in `figure`.
    """
    parts = _parts([first, second], groups)
    drawn = _resampled(parts, resamples, seed)
    low, high = _interval(_harmonic(drawn[:, :, 1]) - _harmonic(drawn[:, :, 0]))
    differing = sum(int((part[:, 0] != part[:, 1]).sum()) for part in parts)
    exact = differing <= _EXACT_UP_TO
    observed = _value(parts, 1) - _value(parts, 0)
    swapped = _all_swaps(parts) if exact else _random_swaps(parts, resamples, seed)
    as_large = int((np.abs(swapped) >= abs(observed) - _TINY).sum())
    # the observed difference counts as one of the random draws, so p is never 0
    p_value = as_large / len(swapped) if exact else (as_large + 1) / (len(swapped) + 1)
    return Difference(observed, low, high, p_value, exact, differing)


def _parts(columns: Sequence[ScoreArray], groups: Groups) -> list[Floats]:
    """Returns the scores of each group, [N_g, columns]."""
    if len({len(column) for column in columns}) != 1 or (groups is not None and len(groups) != len(columns[0])):
        raise ValueError("scores and groups need one entry per question, in the same order")
    table = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    if not len(table) or not np.isfinite(table).all():
        raise ValueError("scores must be at least one finite number")
    if groups is None:
        return [table]
    names = [str(group) for group in groups]
    return [table[[name == wanted for name in names]] for wanted in sorted(set(names))]


def _interval(drawn: Floats) -> tuple[float, float]:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _value(parts: Sequence[Floats], column: int) -> float:
    return float(_harmonic(np.array([[part[:, column].mean() for part in parts]]))[0])


def _harmonic(means: Floats) -> Floats:
    """Returns the harmonic means [R] of means [R, groups]: 0 if one of them is 0, the mean itself for one group."""
    if means.shape[1] == 1:
        return means[:, 0]
    positive: NDArray[np.bool_] = np.asarray((means > 0).all(axis=1))
    inverse = 1 / np.where(positive[:, None], means, 1)
    return np.where(positive, means.shape[1] / inverse.sum(axis=1), 0.0)


def _resampled(parts: Sequence[Floats], resamples: int, seed: int) -> Floats:
    """Draws resamples and returns their means, [R, groups, columns]."""
    rng = np.random.default_rng(seed)
    drawn = []
    for part in parts:
        rows, counts = np.unique(part, axis=0, return_counts=True)
        shares = counts / counts.sum()
        drawn.append(
            np.concatenate([rng.multinomial(len(part), shares, size) @ rows for size in _chunks(resamples, len(rows))])
            / len(part)
        )
    return np.stack(drawn, axis=1)


def _random_swaps(parts: Sequence[Floats], resamples: int, seed: int) -> Floats:
    """Returns the differences [R] after swapping the runs' scores of each question with probability 1/2."""
    rng = np.random.default_rng(seed + 1)
    moved = []
    for part in parts:
        rows, counts = np.unique(part, axis=0, return_counts=True)
        gap = rows[:, 1] - rows[:, 0]
        rows_differ = gap != 0
        gap, counts = gap[rows_differ], counts[rows_differ]
        size_of = [(size, len(gap)) for size in _chunks(resamples, max(1, len(gap)))]
        moved.append(np.concatenate([rng.binomial(counts, 0.5, size) @ gap for size in size_of]) / len(part))
    return _after(parts, np.stack(moved, axis=1))


def _all_swaps(parts: Sequence[Floats]) -> Floats:
    """Returns the differences after each way to swap the questions on which the runs differ."""
    gaps = [(part[:, 1] - part[:, 0])[part[:, 0] != part[:, 1]] for part in parts]
    total = sum(len(gap) for gap in gaps)
    ways = (np.arange(2**total)[:, None] >> np.arange(total)) & 1
    pieces = np.split(ways, np.cumsum([len(gap) for gap in gaps])[:-1], axis=1)
    moved = [piece @ gap / len(part) for piece, gap, part in zip(pieces, gaps, parts, strict=True)]
    return _after(parts, np.stack(moved, axis=1))


def _after(parts: Sequence[Floats], moved: Floats) -> Floats:
    """Returns the differences [R] when `moved` [R, groups] goes from the second run's means to the first's."""
    means = np.array([part.mean(axis=0) for part in parts])
    return _harmonic(means[:, 1] - moved) - _harmonic(means[:, 0] + moved)


def _chunks(resamples: int, width: int) -> Iterator[int]:
    size = max(1, _CELLS // width)
    for start in range(0, resamples, size):
        yield min(size, resamples - start)
