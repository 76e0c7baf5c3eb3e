"""Proposed regions: of a map made by hand, of the shipped encoder, and of a tiny Grounding DINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from agents.proposals import contrast, conspicuous, grounding_regions, map_regions
from agents.regions import Box
from demo.flags import draw_flag
from omgm.parts import build_proposer
from omgm.profile import load_profile
from retriever.models.encoder import ClipEncoder
from tests.fakes.grounding_dino import write_grounding_dino
from tests.paths import ROOT


def test_what_differs_from_the_border_stands_out() -> None:
    cells = np.zeros((8, 8, 2), np.float32)
    cells[..., 0] = 1
    cells[2:5, 3:7] = (0, 1)  # at a right angle to the rest
    differs = contrast(cells)
    assert differs[3, 4] == pytest.approx(1) and differs[7, 0] == pytest.approx(0)
    assert differs[2, 4] == pytest.approx(6 / 9)  # three of its nine neighbors are background
    [box] = conspicuous(differs)
    assert box == (2, 1, 8, 6) or box == (3, 2, 7, 5)


def test_two_things_are_two_regions_and_the_clearer_one_comes_first() -> None:
    differs = np.zeros((16, 16), np.float32)
    differs[2:6, 2:6] = 0.6
    differs[9:14, 8:14] = 0.9
    assert conspicuous(differs) == [(8, 9, 14, 14), (2, 2, 6, 6)]
    assert conspicuous(differs, most=1) == [(8, 9, 14, 14)]


def test_an_even_map_has_no_regions() -> None:
    assert conspicuous(np.zeros((8, 8), np.float32)) == []
    assert conspicuous(np.ones((8, 8), np.float32)) == []
    assert conspicuous(contrast(np.ones((8, 8, 4), np.float32))) == []
