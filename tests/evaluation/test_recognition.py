from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from evaluation.recognition import Trial, fit
from evaluation.recognition_report import FEWEST, report, with_apart
from retriever.recognition import Recognition, Signs


def trials(count: int = 4000, seed: int = 0) -> list[Trial]:
    """Right trials have a lead around 0.3, wrong ones around 0.2; the other signs are noise."""
    rng = random.Random(seed)
    collected = []
    for number in range(count):
        held = number % 2 == 0
        right = held and rng.random() < 0.9
        lead = rng.gauss(0.3 if right else 0.2, 0.05)
        noise = [rng.gauss(0, 1) for _ in range(4)]
        collected.append(Trial(f"{number // 2}", Signs(noise[0], noise[1], noise[2], lead, noise[3]), held, right))
    return collected


def test_the_sign_that_tells_gets_the_weight() -> None:
    found = fit(trials())
    # For two normal distributions the logit is (m1 - m0) / s**2 * (x - (m1 + m0) / 2) + log(p1 / p0).
    assert found.weights.lead == pytest.approx(0.1 / 0.05**2, rel=0.15)
    assert found.of(Signs(lead=0.25)) == pytest.approx(0.45, abs=0.05)  # of all, 45 % are right
    assert all(abs(w) < 0.3 for w in (found.weights.sim_c, found.weights.sim_m, found.weights.distance))


@pytest.mark.parametrize(("kind", "ridge"), [("mixed", 1e-4), ("mixed", 0.1), ("apart", 1e-4), ("one apart", 1e-4)])
def test_nothing_fits_better_than_the_fit(kind: str, ridge: float) -> None:
    """At the minimum of the loss, as PyTorch computes it, all slopes are zero."""
    rng, collected = random.Random(len(kind)), list[Trial]()
    for number in range(60):
        lead, noise = rng.gauss(0, 1), rng.gauss(0, 1e-3)  # of other sizes; the other signs are the same for all
        right = {"mixed": rng.random() < 0.5 + 0.3 * math.tanh(lead), "apart": lead > 0, "one apart": number == 7}[kind]
        collected.append(Trial(f"{number}", Signs(sim_c=noise, lead=5.0 if number == 7 else lead), True, right))
    found = fit(collected, ridge=ridge)
    verdicts = torch.tensor([float(trial.right) for trial in collected], dtype=torch.float64)
    signs = torch.tensor([[t.signs.sim_c, t.signs.lead] for t in collected], dtype=torch.float64)
    weights = torch.tensor([found.bias, found.weights.sim_c, found.weights.lead], dtype=torch.float64).requires_grad_()
    scaled = weights[1:] * signs.std(0)
    loss = binary_cross_entropy_with_logits(weights[0] + signs @ weights[1:], verdicts) + ridge * scaled.square().sum()
    loss.backward()
    assert weights.grad is not None and weights.grad.abs().max() < 1e-9
    assert (found.weights.sim_m, found.weights.lead_w) == (0, 0)


def test_the_report_is_of_images_that_the_fit_has_not_seen() -> None:
    quality = report(trials())
    assert quality.n == 2000
    # The border is at 0.25 + log(0.55 / 0.45) / 40 = 0.255, 0.9 and 1.1 standard deviations from the means.
    right, wrong = 0.816, 0.136
    assert quality.answered == pytest.approx(0.9 * right + 0.1 * wrong, abs=0.03)
    assert quality.declined == pytest.approx(1 - wrong, abs=0.03)
    assert quality.wrong == pytest.approx(1.1 * wrong / (1.1 * wrong + 0.9 * right), abs=0.03)


def test_one_verdict_is_not_enough() -> None:
    wrong = [trial for trial in trials() if not trial.right]
    with pytest.raises(ValueError, match="gets right and images that it gets wrong"):
        fit(wrong)


def read(count: int, seed: int = 0) -> list[Trial]:
    """Trials whose verdict depends on the words on the image alone: the logit is 6 times their lead, minus 1."""
    rng, collected = random.Random(seed), []
    for number in range(count):
        lead = rng.uniform(-0.5, 1)
        right = rng.random() < 1 / (1 + math.exp(1 - 6 * lead))
        collected.append(Trial(f"{number}", Signs(lead_w=lead), True, right))
    return collected


def test_words_get_their_own_weight_and_the_others_stay() -> None:
    alone = Recognition(-1.0, Signs(sim_c=3.0), 0.4)
    found = with_apart(read(4000), alone, Signs(lead_w=5.0))
    assert found.weights.lead_w == pytest.approx(6, rel=0.1)
    assert replace(found, weights=replace(found.weights, lead_w=0.0)) == alone


def test_words_that_tell_nothing_get_no_weight() -> None:
    wrong = [replace(trial, right=trial.signs.lead_w < 0) for trial in read(1000)]
    assert with_apart(wrong, Recognition(0.0, Signs(), 0.4), Signs(lead_w=5.0)).weights.lead_w < 1e-6


def test_too_few_images_with_apart_keep_what_is_known() -> None:
    few = read(FEWEST - 1) * 3 + [Trial("no words", Signs(), True, True)] * 100
    assert with_apart(few, Recognition(-1.0, Signs(), 0.4), Signs(lead_w=5.0)).weights.lead_w == 5.0


def test_the_report_counts_what_words_recognize() -> None:
    """Words tell what images alone do not: of 4,000 right and wrong trials, those with a lead are the right ones."""
    alone = trials()
    with_lead = [replace(one, signs=replace(one.signs, lead_w=0.5 if one.right else -0.5)) for one in alone]
    assert report(alone, unsure=with_lead).wrong < 0.01 < report(alone).wrong
