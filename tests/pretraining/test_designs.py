from __future__ import annotations

import random

import torch

from pretraining.camera import Camera
from pretraining.designs import DesignBatches, alike, paint, random_design, similar_design
from pretraining.ink import FONT_FOLDER, FONTS
from pretraining.layers import FIGURES, GROUNDS, LETTERING


def test_a_design_is_painted_alike_every_time() -> None:
    design = random_design(random.Random(3))
    assert paint(design, 32).tobytes() == paint(design, 32).tobytes()
    assert paint(design, 32).height == 32
    assert paint(random_design(random.Random(4)), 32).tobytes() != paint(design, 32).tobytes()


def test_every_painter_is_met_and_paints() -> None:
    rng = random.Random(0)
    met = set()
    for _ in range(300):
        design = random_design(rng)
        met |= {layer.paint for layer in design.layers}
        paint(design, 48)
    assert met == {*GROUNDS, *FIGURES, *LETTERING}


def test_a_near_twin_differs_in_one_layer() -> None:
    rng = random.Random(1)
    for _ in range(50):
        design = random_design(rng)
        twin = similar_design(design, rng)
        assert twin.ratio == design.ratio and twin.layers[0] == design.layers[0]
        if len(twin.layers) == len(design.layers):
            assert sum(a != b for a, b in zip(design.layers, twin.layers, strict=True)) == 1
        else:
            assert len(twin.layers) == len(design.layers) - 1


def test_fonts_come_with_a_dependency() -> None:
    assert all((FONT_FOLDER / f"{name}.ttf").is_file() for name in FONTS)


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    camera = Camera(32, scenes=4)
    one, again = DesignBatches(camera, 6)(3), DesignBatches(camera, 6)(3)
    assert one.keys.shape == one.photographs.shape == (6, 3, 32, 32) and one.alike.shape == (6, 6)
    for image in (one.keys, one.photographs):
        assert image.dtype == torch.float32 and image.min() >= 0 and image.max() <= 1
    assert torch.equal(one.photographs, again.photographs) and torch.equal(one.keys, again.keys)
    assert not torch.equal(DesignBatches(camera, 6)(4).keys, one.keys)


def test_what_looks_alike_is_no_negative() -> None:
    gray = torch.full((3, 3, 32, 32), 128, dtype=torch.uint8)
    gray[1, :, :2, :2] = 0  # 4 of 1,024 pixels: 0.2 % of the brightness
    gray[2, :, :16] = 0  # half of them
    expected = torch.zeros(3, 3, dtype=torch.bool)
    expected[0, 1] = expected[1, 0] = True
    assert torch.equal(alike(gray), expected)
