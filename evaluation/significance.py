"""How sure a figure is: bootstrap intervals, and paired randomization tests of two runs over the same questions.

A figure is the mean of a score over questions, or the harmonic mean of such means over groups of questions (InfoSeek's
overall score). Only how often each score occurs matters to either method, so both draw counts instead of questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
LEVEL = 0.95
_EXACT_UP_TO = 14  # so many questions that differ have 2 ** 14 ways to swap, few enough to try them all
_CELLS = 4_000_000  # counts held at a time
_TINY = 1e-12  # sums of the same scores in another order are the same

Scores = Sequence[float] | NDArray[np.float64]
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
    """What a second run has over a first one.

    Attributes:
        value: The second figure minus the first.
        low: Lower end of its interval, by a bootstrap of questions, each with both of its scores.
        high: Upper end.
        p_value: Two-sided: how often swapping the runs' scores at random makes as large a difference.
        exact: Whether every way to swap was tried; else `RESAMPLES` or so of them were drawn.
        n_differing: Questions on which the runs differ.
    """

    value: float
    low: float
    high: float
    p_value: float
    exact: bool
    n_differing: int


def figure(
    scores: Scores, groups: Groups = None, *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> Figure:
    """Returns the mean of scores, or the harmonic mean of its groups' means, with its percentile bootstrap interval.

    Questions are drawn with replacement, within each group.

    Args:
        scores: [N], one a question.
        groups: [N], the group of each question; `None` for one group.
        level: How much of the resamples the interval holds.
        resamples: How many to draw.
        seed: Of the drawing.

    Raises:
        ValueError: There are no scores, one is not a number, or the lengths differ.
    """
    parts = _parts([scores], groups)
    drawn = _harmonic(_resampled(parts, resamples, seed)[:, :, 0])
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Figure(_value(parts, 0), float(low), float(high))


def difference(
    first: Scores,
    second: Scores,
    groups: Groups = None,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Returns how much higher `second` is than `first`, both over the same questions in the same order.

    Args:
        first: [N] scores of one run.
        second: [N] scores of the other.
        groups: As in `figure`.
        level: As in `figure`.
        resamples: Draws of the bootstrap, and of the randomization test where it is not exact.
        seed: Of both.

    Raises:
        ValueError: As in `figure`.
    """
    parts = _parts([first, second], groups)
    drawn = _resampled(parts, resamples, seed)
    low, high = np.quantile(_harmonic(drawn[:, :, 1]) - _harmonic(drawn[:, :, 0]), [(1 - level) / 2, (1 + level) / 2])
    differing = sum(int((part[:, 0] != part[:, 1]).sum()) for part in parts)
    exact = differing <= _EXACT_UP_TO
    observed = _value(parts, 1) - _value(parts, 0)
    swapped = _all_swaps(parts) if exact else _random_swaps(parts, resamples, seed)
    as_large = int((np.abs(swapped) >= abs(observed) - _TINY).sum())
    # drawn at random, what was observed counts as one of the draws: p is never 0
    p_value = as_large / len(swapped) if exact else (as_large + 1) / (len(swapped) + 1)
    return Difference(observed, float(low), float(high), p_value, exact, differing)


def _parts(columns: Sequence[Scores], groups: Groups) -> list[Floats]:
    """Returns [N_g, columns] for each group."""
    if len({len(column) for column in columns}) != 1 or (groups is not None and len(groups) != len(columns[0])):
        raise ValueError("scores and groups need one entry for each question, in the same order")
    table = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    if not len(table) or not np.isfinite(table).all():
        raise ValueError("scores: at least one is needed, and every one has to be a number")
    if groups is None:
        return [table]
    names = [str(group) for group in groups]
    return [table[[name == wanted for name in names]] for wanted in sorted(set(names))]


def _value(parts: Sequence[Floats], column: int) -> float:
    return float(_harmonic(np.array([[part[:, column].mean() for part in parts]]))[0])


def _harmonic(means: Floats) -> Floats:
    """Returns [R] harmonic means of [R, groups]; 0 where one of them is 0, and of one group its mean."""
    if means.shape[1] == 1:
        return means[:, 0]
    positive: NDArray[np.bool_] = np.asarray((means > 0).all(axis=1))
    inverse = 1 / np.where(positive[:, None], means, 1)
    return np.where(positive, means.shape[1] / inverse.sum(axis=1), 0.0)


def _resampled(parts: Sequence[Floats], resamples: int, seed: int) -> Floats:
    """Returns [R, groups, columns], the means of each resample."""
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
    """Returns [R] differences after swapping the runs' scores of each question by the toss of a coin."""
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
    """Returns the differences after each of the ways to swap the questions that differ."""
    gaps = [(part[:, 1] - part[:, 0])[part[:, 0] != part[:, 1]] for part in parts]
    total = sum(len(gap) for gap in gaps)
    ways = (np.arange(2**total)[:, None] >> np.arange(total)) & 1
    pieces = np.split(ways, np.cumsum([len(gap) for gap in gaps])[:-1], axis=1)
    moved = [piece @ gap / len(part) for piece, gap, part in zip(pieces, gaps, parts, strict=True)]
    return _after(parts, np.stack(moved, axis=1))


def _after(parts: Sequence[Floats], moved: Floats) -> Floats:
    """Returns [R] differences when the first run's means [groups] gain, and the second's lose, `moved` [R, groups]."""
    means = np.array([part.mean(axis=0) for part in parts])
    return _harmonic(means[:, 1] - moved) - _harmonic(means[:, 0] + moved)


def _chunks(resamples: int, width: int) -> Iterator[int]:
    size = max(1, _CELLS // width)
    for start in range(0, resamples, size):
        yield min(size, resamples - start)
