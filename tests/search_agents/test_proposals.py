"""Proposed regions: from a hand-made feature map, from the shipped encoder, and from a tiny Grounding DINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omgm.parts import build_encoder
from omgm.profile import load_profile
from omgm.regions import build_proposer
from retriever.models.encoder import ClipEncoder
from retriever.models.feature_map import feature_map
from retriever.models.grounding import load_grounding
from retriever.models.pixels import PixelPreparation
from search_agents.proposals import conspicuous, contrast, detected_regions
from search_agents.regions import Box
from tests.fakes.grounding_dino import write_grounding_dino
from tests.fakes.models import FakeEncoder
from tests.fakes.unread_device import DEVICE, UnreadDevice


def test_what_differs_from_the_border_stands_out() -> None:
    cells = np.zeros((8, 8, 2), np.float32)
    cells[..., 0] = 1
    cells[2:5, 3:7] = (0, 1)  # orthogonal to the rest
    differs = contrast(cells)
    assert differs[3, 4] == pytest.approx(1) and differs[7, 0] == pytest.approx(0)
    assert differs[2, 4] == pytest.approx(6 / 9)  # three of its nine neighbors are background
    assert conspicuous(differs, 6)[0] == (3, 2, 7, 5)


def test_two_things_are_two_regions_and_the_clearer_one_comes_first() -> None:
    differs = np.zeros((16, 16), np.float32)
    differs[2:6, 2:6] = 0.6
    differs[9:14, 8:14] = 0.9
    assert conspicuous(differs, 6) == [(8, 9, 14, 14), (2, 2, 6, 6)]
    assert conspicuous(differs, most=1) == [(8, 9, 14, 14)]


def test_a_map_is_copied_from_a_device_once() -> None:
    encoder = build_encoder(load_profile("embedded", {"device": "cpu"}))
    assert isinstance(encoder, ClipEncoder)
    encoder.model.vision_model._fused = None  # its weights would stay on the CPU
    encoder.model.to(DEVICE)
    with UnreadDevice() as device:
        assert encoder.feature_map is not None
        assert encoder.feature_map(Image.new("RGB", (64, 48))).shape[:2] == (32, 32)
    assert device.reads == 1


def test_an_even_map_has_no_regions() -> None:
    assert conspicuous(np.zeros((8, 8), np.float32), 6) == []
    assert conspicuous(np.ones((8, 8), np.float32), 6) == []
    assert conspicuous(contrast(np.ones((8, 8, 4), np.float32)), 6) == []


def test_the_shipped_encoder_finds_a_flag_before_an_even_wall() -> None:
    image = Image.new("RGB", (640, 512), (150, 140, 120))
    flag = Box(200, 100, 440, 260)
    for number, color in enumerate(("blue", "white", "red")):
        image.paste(color, (200 + 80 * number, 100, 280 + 80 * number, 260))
    profile = load_profile("embedded")
    [first, *_] = build_proposer(profile, build_encoder(profile))(image)
    shared = (min(first.right, flag.right) - max(first.left, flag.left)) * (
        min(first.bottom, flag.bottom) - max(first.top, flag.top)
    )
    areas = [(box.right - box.left) * (box.bottom - box.top) for box in (first, flag)]
    assert shared / (sum(areas) - shared) > 0.5


def test_an_encoder_without_a_feature_map_is_refused() -> None:
    assert feature_map(object(), PixelPreparation(32)) is None
    with pytest.raises(ValueError, match=r"no feature map to propose regions from; set regions\.model"):
        build_proposer(load_profile("embedded"), FakeEncoder())


def test_grounding_dino(tmp_path: Path) -> None:
    """A tiny checkpoint with random weights in the published file layout: its boxes mean nothing."""
    folder = write_grounding_dino(tmp_path / "dino")
    settings = {"regions.model": folder, "regions.labels": ["flag", "logo"], "regions.box_threshold": 1}
    propose = build_proposer(load_profile("embedded", settings), FakeEncoder())
    assert propose(Image.new("RGB", (120, 80), "red")) == []
    propose = detected_regions(load_grounding(folder, ["Flag", "logo."], box_threshold=0, text_threshold=0), most=4)
    boxes = propose(Image.new("L", (120, 80), 200))
    assert 0 < len(set(boxes)) == len(boxes) <= 4
    assert all(0 <= box.left < box.right <= 120 and 0 <= box.top < box.bottom <= 80 for box in boxes)
    assert boxes == propose(Image.new("L", (120, 80), 200))


def test_boxes_of_a_detector_are_cut_and_told_apart() -> None:
    found = [(-5.0, -5.0, 20.0, 20.0), (0.0, 0.0, 20.0, 20.0), (150.0, 0.0, 160.0, 9.0), (90.0, 40.0, 80.0, 30.0)]
    assert detected_regions(lambda image: found, 6)(Image.new("RGB", (100, 50))) == [
        Box(0, 0, 20, 20), Box(80, 30, 90, 40),
    ]  # fmt: skip


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"regions\.model"):
        build_proposer(load_profile("embedded", {"regions.model": tmp_path / "none"}), FakeEncoder())
    with pytest.raises(ValueError, match=r"has no config\.json; use the folder of a Grounding DINO model"):
        load_grounding(tmp_path, ["flag"])
