"""Stickers: marks without a background, on any background."""

from __future__ import annotations

import random

import pytest
import torch

from pretraining.camera import Camera
from pretraining.designs import with_twins
from pretraining.stickers import MARGIN, WHITE, StickerBatches, random_mark, seen_on, stick, stickers_of

RED, BLUE = torch.tensor([1.0, 0, 0, 1]), torch.tensor([0, 0, 1.0])


def red_on_blue(ratio: float = 1.0, turn: float = 0.0, loose: float = 0.0) -> torch.Tensor:
    """Returns red squares stuck on a blue ground."""
    stickers = RED.view(1, 4, 1, 1).expand(16, 4, 32, 32)
    grounds = BLUE.view(1, 3, 1, 1).expand(16, 3, 64, 64)
    generator = torch.Generator().manual_seed(0)
    return stick(stickers, torch.full((16,), ratio), grounds, generator, turn=turn, loose=loose)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_a_sticker_fills_its_frame_but_for_a_margin(ratio: float) -> None:
    """The margin is 0.3 to 1.5 times that of `retriever.borders`, at both ends of the longer side."""
    shown = red_on_blue(ratio)
    assert torch.allclose(shown.sum(1), torch.ones(16, 64, 64), atol=1e-5)  # red or blue, or between
    across, down = shown[:, 0, 32].mean(-1), shown[:, 0, :, 32].mean(-1)
    longer, shorter = (across, down) if ratio >= 1 else (down, across)
    for shares, room in ((longer, 1.0), (shorter, max(ratio, 1 / ratio))):
        assert (shares < 1 / (1 + 2 * 0.3 * MARGIN * room) + 0.02).all()
        assert (shares > 1 / (1 + 2 * 1.5 * MARGIN * room) - 0.02).all()


def test_a_loose_or_turned_sticker_stays_in_its_frame() -> None:
    """Hardly any of it touches the rim, and frames have different sizes."""
    shown = red_on_blue(1.6, turn=0.2, loose=1.0)[:, 0]
    rim = torch.cat([shown[:, 0], shown[:, -1], shown[:, :, 0], shown[:, :, -1]], -1)
    assert rim.mean(-1).max() < 0.25
    areas = shown.mean((1, 2))
    assert areas.min() > 0.1 and areas.max() < 0.95 and areas.std() > 0.02


def test_a_ground_differs_from_the_sticker() -> None:
    inks = torch.tensor([[1.0, 1, 1], [0, 0, 0], [0.5, 0.5, 0.5]])
    candidates = torch.tensor([[1.0, 1, 1], [0, 0, 0], [0.5, 0.5, 0.5]]).expand(3, 3, 3)
    assert seen_on(inks, candidates).tolist() == [[0, 0, 0], [1, 1, 1], [1, 1, 1]]
    # The last one is used if none differs enough.
    assert seen_on(inks[:1], torch.tensor([[[1.0, 1, 1], [0.9, 1, 1]]]))[0].tolist() == pytest.approx([0.9, 1, 1])


def test_marks_have_no_ground_and_come_with_twins() -> None:
    marks = with_twins(random_mark, 40, random.Random(0))
    assert all(mark.layers[0] == WHITE and len(mark.layers) > 1 for mark in marks)
    for one, twin in zip(marks[::2], marks[1::2], strict=True):
        changed = sum(layer not in one.layers for layer in twin.layers)
        gone = len(one.layers) - len(twin.layers)
        assert one.ratio == twin.ratio and (changed, gone) in {(0, 1), (1, 0)}


def test_stickers_are_cut_to_what_is_seen() -> None:
    stickers, ratios = stickers_of(6, random.Random(1))
    alpha = stickers[:, 3]
    assert stickers.shape == (6, 4, 128, 128) and ratios.shape == (6,)
    assert (stickers[:, :3] <= alpha[:, None] + 1e-6).all()  # colors are times alpha
    for rim in (alpha[:, 0], alpha[:, -1], alpha[:, :, 0], alpha[:, :, -1]):
        assert (rim.amax(-1) > 0).all()


def test_a_batch_follows_from_seed_and_step() -> None:
    camera = Camera(32, 0, scenes=4)
    batches = StickerBatches(camera, 8, seed=3, small=0.5)
    one, same, other = batches(5), StickerBatches(camera, 8, seed=3, small=0.5)(5), batches(6)
    assert torch.equal(one.keys, same.keys) and torch.equal(one.photographs, same.photographs)
    assert not torch.equal(one.keys, other.keys)
    assert one.keys.shape == one.photographs.shape == (8, 3, 32, 32)
    for images in (one.keys, one.photographs):
        assert images.min() >= 0 and images.max() <= 1
    assert one.alike.shape == (8, 8) and not one.alike.diagonal().any()
