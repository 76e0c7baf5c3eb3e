from __future__ import annotations

import math
import random
from itertools import product

import pytest
import torch

from omgm.parts import build_encoder
from omgm.profile import load_profile
from omgm.self_calibration import photographed_again
from pretraining.designs import paint, random_design, similar_design
from retriever.models.image_alignment import alignment
from retriever.protocols import LocalEncoder
from tests.fakes.models import FakeEncoder


def noise(seed: int, side: int = 16) -> torch.Tensor:
    return torch.randn(1, 64, side, side, generator=torch.Generator().manual_seed(seed))


def smooth(seed: int, first: int, last: int) -> torch.Tensor:
    """Returns a part of a smooth map of 32 cells, at 16 cells."""
    large = torch.nn.functional.interpolate(noise(seed, 6), (32, 32), mode="bicubic", align_corners=False)
    part = large[:, :, first:last, first:last]
    return torch.nn.functional.interpolate(part, (16, 16), mode="bilinear", align_corners=False, antialias=True)


def test_an_image_lies_on_itself_and_on_what_shows_a_part_of_it() -> None:
    image = noise(0)
    assert float(alignment(image, image)) == pytest.approx(1, abs=1e-5)
    moved = torch.cat([image[..., 5:], noise(1)[..., :5]], dim=3)  # its left third is outside, the rest is the same
    pair = alignment(torch.cat([moved, noise(2)]), torch.cat([image, image]))
    assert float(pair[0]) > 0.9 and float(pair[1]) < 0.6
    assert float(pair[0]) == pytest.approx(float(alignment(moved, image)), abs=1e-5)


def test_all_placements_are_searched() -> None:
    """Agrees with one cell and one placement after the other, in float64."""
    image, other = smooth(5, 0, 32)[0].double(), smooth(6, 2, 30)[0].double()
    mean = (image.mean((1, 2), keepdim=True) + other.mean((1, 2), keepdim=True)) / 2
    below, above = (one / one.norm(dim=0) for one in (image - mean, other - mean))
    whole = above.mean((1, 2))
    whole /= whole.norm()
    sums: dict[tuple[float, ...], list[tuple[float, float]]] = {}
    for row, column in product(range(1, 16, 2), repeat=2):
        cell = above[:, row, column]
        weight = max(0.02, 1 - float(cell @ whole))
        for scale, turn in product((0.58, 0.72, 0.9, 1.12, 1.4), (-0.2, 0.0, 0.2)):
            reach = min(1 / scale, 1.6) if scale <= 1 else (1 - 1 / scale + 0.35) / 0.6
            x, y = ((column + 0.5) / 8 - 1) / scale, ((row + 0.5) / 8 - 1) / scale
            turned = x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn)
            for shift in product((-0.6, -0.3, 0.0, 0.3, 0.6), repeat=2):
                x, y = (value + reach * by for value, by in zip(turned, shift, strict=True))
                found = sums.setdefault((scale, turn, *shift), [])
                if max(abs(x), abs(y)) <= 1:
                    left, top = (min(int((value + 1) * 8), 15) for value in (x, y))
                    near = below[:, max(top - 2, 0) : top + 3, max(left - 2, 0) : left + 3]
                    found.append((weight, float((near * cell[:, None, None]).sum(0).max())))
    values = [sum(w * v for w, v in found) / sum(w for w, _ in found) for found in sums.values() if len(found) >= 20]
    pair = alignment(image.float()[None], other.float()[None])
    assert float(pair) == pytest.approx(max(values), abs=1e-4)


def test_what_is_laid_on_may_be_closer_or_farther_away() -> None:
    whole, closer = smooth(3, 0, 32), smooth(3, 4, 28)
    other = float(alignment(smooth(4, 0, 32), whole))
    assert float(alignment(closer, whole)) > 0.9 > other + 0.1
    assert float(alignment(whole, closer)) > 0.85 > other + 0.1


def test_photographs_of_an_image_lie_better_on_it_than_on_its_twin() -> None:
    encoder = build_encoder(load_profile("embedded", ["sections.kind=bm25"]))
    assert isinstance(encoder, LocalEncoder)
    align = encoder.align
    assert align is not None
    rng = random.Random(5)
    designs = [random_design(rng) for _ in range(12)]
    images = [paint(design).convert("RGB") for design in designs]
    twins = [paint(similar_design(design, rng)).convert("RGB") for design in designs]
    shown = photographed_again(images, 3, waving=True)
    numbers = range(12)
    own = align([*shown, *images], [(number, 12 + number) for number in numbers])
    other = align([*shown, *twins], [(number, 12 + number) for number in numbers])
    strangers = align([*shown, *images], [(number, 12 + (number + 1) % 12) for number in numbers])
    assert sum(a > b for a, b in zip(own, other, strict=True)) >= 9
    assert sum(a > b for a, b in zip(own, strangers, strict=True)) >= 11
    assert align(shown, []) == []
    assert own[:1] == pytest.approx(align([shown[0], images[0]], [(0, 1)]), abs=1e-4)


def test_other_encoders_compare_no_images() -> None:
    assert not isinstance(FakeEncoder(), LocalEncoder)
