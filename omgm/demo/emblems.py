"""Emblems by kind: simple pictograms, distinct even at the size of a stamp."""

from __future__ import annotations

from omgm.demo.nature import NATURE
from omgm.demo.pen import Painter
from omgm.demo.things import THINGS

EMBLEMS: dict[str, Painter] = NATURE | THINGS
