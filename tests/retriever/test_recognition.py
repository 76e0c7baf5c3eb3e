from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from retriever.recognition import COMMON, FEW, LEADS, Recognition, Signs, contrast, is_declined, signs_of
from retriever.types import Candidate

FOUND = [
    Candidate(4, sim_c=0.5, sim_m=0.9, score=0.8),
    Candidate(1, sim_c=0.6, sim_m=0.3, score=0.4),
    Candidate(2, sim_c=None, sim_m=None, score=0.2),
]


def test_signs_of_a_result() -> None:
    signs = signs_of(FOUND)
    assert signs is not None
    assert (signs.sim_c, signs.sim_m) == (0.5, 0.9)
    assert signs.lead_c == pytest.approx(-0.1)  # step 1 preferred row 1
    assert signs.lead == pytest.approx(0.4)
    assert signs.distance == COMMON.distance
    signs = signs_of([FOUND[0], *FOUND[1:] * (FEW // 2)])
    assert signs is not None and signs.distance == pytest.approx(
        (0.8 - 0.3) / 0.1
    )  # the others: mean 0.3, standard deviation 0.1


def test_contrast() -> None:
    halves = Image.new("L", (48, 96))
    halves.paste(6, (0, 0, 24, 96))
    assert contrast(halves) == 3
    dots = Image.fromarray((np.indices((384, 384)).sum(0) % 2 * 254).astype(np.uint8))
    assert contrast(dots) == contrast(Image.new("RGB", (1, 1), "red")) == 0


def test_the_second_networks_lead() -> None:
    best, second, third = (replace(one, sim_p=value) for one, value in zip(FOUND, (0.2, 0.25, 0.1), strict=True))
    for candidates, lead in (([best, second, third], -0.05), ([best, third], 0.1), (FOUND, 0)):
        signs = signs_of(candidates)
        assert signs is not None and signs.lead_p == pytest.approx(lead)


def test_the_lead_of_alignment_says_nothing_unless_two_were_compared() -> None:
    best, second, third = (replace(one, alignment=value) for one, value in zip(FOUND, (0.8, 0.7, 0.75), strict=True))
    far = replace(best, alignment=0.99)
    compared = ([best, second, third], 0.05), ([best, second, FOUND[2]], 0.1)
    limited = ([second, best], LEADS[0]), ([far, second, third], LEADS[1])
    unknown = ([best, FOUND[1]], COMMON.lead_a), ([FOUND[0], second], COMMON.lead_a)
    for candidates, lead in (*compared, *limited, *unknown):
        signs = signs_of(candidates)
        assert signs is not None and signs.lead_a == pytest.approx(lead)


def test_a_verdict_is_undecided_if_the_lead_of_alignment_can_change_it() -> None:
    def undecided(logit: float, crop_threshold: float | None = None) -> bool:
        return Recognition(logit, Signs(lead_a=10.0), 0.5, crop_threshold).is_undecided(FOUND)

    # The lead moves a logit by -0.5 to 2; the crops' threshold, 0.75, is at 1.1.
    assert [undecided(logit) for logit in (-2.1, -1.9, 0.4, 0.6)] == [False, True, True, False]
    assert [undecided(logit, 0.75) for logit in (0.6, 1.5, 1.7)] == [True, True, False]
    assert not Recognition(0.1, Signs(sim_c=1.0)).is_undecided(FOUND)
    assert not Recognition(0.0, Signs(lead_a=10.0)).is_undecided(FOUND[:1])


def test_what_is_not_known_is_not_declined() -> None:
    assert [is_declined(recognized, 0.3) for recognized in (0.29, 0.3, None)] == [True, False, False]


def test_one_candidate_leads_nobody_and_none_is_recognized() -> None:
    assert signs_of(FOUND[:1]) == replace(COMMON, sim_c=0.5, sim_m=0.9)
    assert signs_of([]) is None and Recognition(9.0, Signs()).probability([]) == 0


def test_others_that_are_equal_have_no_distance() -> None:
    signs = signs_of([FOUND[0], *FOUND[1:2] * FEW])
    assert signs is not None and signs.distance == COMMON.distance


def test_probability_is_the_logistic_function_of_the_weighted_signs() -> None:
    recognition = Recognition(-1.0, Signs(sim_c=2.0, lead=5.0))
    assert recognition.probability(FOUND) == pytest.approx(1 / (1 + math.exp(-(-1 + 2 * 0.5 + 5 * 0.4))))
    assert Recognition(-1e6, Signs()).probability(FOUND) == pytest.approx(0, abs=1e-20)


def test_the_number_of_images_is_a_sign() -> None:
    best, *others = FOUND
    signs = [signs_of([replace(best, images=count), *others]) for count in (0, 1, 3)]
    assert [one.images for one in signs if one] == pytest.approx([0, 0, math.log(3)])
