"""Candidates agree by as many places as one placement of their image explains, and by those that others lack."""

from __future__ import annotations

import math

import numpy as np
import pytest

from retriever.fusion import agreed
from retriever.models.keypoints import DIMENSION, Keypoints
from retriever.recognition import Recognition, Signs, signs_of
from retriever.types import Candidate
from retriever.verification import agreement


def scattered(count: int, seed: int) -> Keypoints:
    """Returns keypoints anywhere, each unlike all others."""
    draw = np.random.default_rng(seed)
    places = np.column_stack(
        [draw.uniform(0.1, 0.9, (count, 2)), draw.uniform(0.01, 0.05, count), draw.uniform(0, 6, count)]
    )
    descriptors = np.abs(draw.standard_normal((count, DIMENSION)))
    descriptors *= draw.random((count, DIMENSION)) < 0.2
    descriptors /= np.linalg.norm(descriptors, axis=1, keepdims=True)
    return Keypoints(places.astype(np.float32), descriptors.astype(np.float32))


def seen(points: Keypoints, turn: float, scale: float, shift: complex, squeeze: float = 1.0) -> Keypoints:
    """Returns keypoints as they are in a photograph of what has them."""
    where = (points.places[:, 0] + 1j * points.places[:, 1]) * scale * np.exp(1j * turn) + shift
    places = np.column_stack(
        [where.real * squeeze, where.imag, points.places[:, 2] * scale, points.places[:, 3] + turn]
    )
    return Keypoints(places.astype(np.float32), points.descriptors)


def joined(*parts: Keypoints) -> Keypoints:
    return Keypoints(np.concatenate([one.places for one in parts]), np.concatenate([one.descriptors for one in parts]))


NOTHING = Keypoints(np.empty((0, 4), np.float32), np.empty((0, DIMENSION), np.float32))


@pytest.mark.parametrize(
    ("turn", "scale", "shift", "squeeze"),
    [(0.0, 1.0, 0j, 1.0), (1.2, 0.5, 0.4 + 0.1j, 1.0), (math.pi, 1.0, 1 + 1j, 0.8), (-0.3, 2.0, -0.2j, 0.6)],
)
def test_every_place_of_the_same_thing_agrees(turn: float, scale: float, shift: complex, squeeze: float) -> None:
    query = scattered(30, 0)
    assert agreement(query, [[seen(query, turn, scale, shift, squeeze)], [scattered(40, 1)]]) == [30, 0]


def test_what_is_seen_and_in_another_arrangement_does_not_agree() -> None:
    query = scattered(12, 0)
    part = Keypoints(query.places[:7], query.descriptors[:7])
    assert agreement(query, [[joined(seen(part, 0.5, 0.8, 0.1j), scattered(20, 2))]]) == [7]
    elsewhere = Keypoints(scattered(12, 9).places, query.descriptors)  # alike, but anywhere
    assert agreement(query, [[elsewhere]])[0] < 5
    flat = seen(query, 0.0, 1.0, 0j, 0.05)  # nothing is seen that much from the side
    assert agreement(query, [[flat]]) == [0]
    assert agreement(query, [[NOTHING], []]) == [0, 0] and agreement(NOTHING, [[query]]) == [0]


def test_two_orientations_of_a_place_count_once() -> None:
    query = scattered(10, 0)
    twice = joined(query, Keypoints(query.places + np.array([0, 0, 0, 2], np.float32), scattered(10, 4).descriptors))
    assert agreement(twice, [[seen(twice, 0.3, 1.1, 0j)]]) == [10]


def test_places_that_several_candidates_have_do_not_count() -> None:
    """As those of a shelf on which all things of a shop were photographed."""
    shelf, thing, other = scattered(20, 0), scattered(8, 1), scattered(9, 2)
    query = joined(shelf, thing)
    candidates = [[joined(shelf, other)], [joined(shelf, thing)], [NOTHING, other, joined(shelf, other)], [other]]
    assert agreement(query, candidates) == [0, 8, 0, 0]
    assert agreement(query, [[joined(shelf, thing), shelf]]) == [28]  # of one candidate, they do
    rest = joined(other, shelf).descriptors
    assert agreement(query, [[joined(shelf, thing), shelf]], lambda own: (own @ rest.T).max(axis=1)) == [8]


def test_what_is_along_a_line_does_not_count() -> None:
    """As a ruler in all photographs of a collection."""
    points = scattered(12, 0)
    places = points.places.copy()
    places[:, 0] = 0.8 + 0.1 * places[:, 0]
    ruler = Keypoints(places, points.descriptors)
    assert agreement(ruler, [[ruler]]) == [0]
    places[0, 0] = 0.3
    assert agreement(ruler, [[ruler]]) == [12]


def test_the_best_image_of_a_candidate_counts() -> None:
    query = scattered(20, 0)
    half = Keypoints(query.places[:10], query.descriptors[:10])
    assert agreement(query, [[half, seen(query, 0.2, 1.0, 0j), half]]) == [20]


def test_the_lead_in_agreement_is_a_sign() -> None:
    assert [agreed(places) for places in (None, 0, 4, 8, 12, 90)] == [0, 0, 0, 0.5, 1, 1]
    signs = signs_of([Candidate(0, 0.5, places=10), Candidate(1, 0.6, places=7), Candidate(2, 0.4)])
    assert signs is not None and signs.lead_k == pytest.approx(0.375)
    unverified = signs_of([Candidate(0, 0.5), Candidate(1, 0.6)])
    assert unverified is not None and unverified.lead_k == 0
    surely = Recognition(3.0, Signs())
    assert not surely.is_unsure([Candidate(0)]) and not Recognition(0.0, Signs()).is_unsure([])
    assert Recognition(1.0, Signs()).is_unsure([Candidate(0)])  # 0.73
