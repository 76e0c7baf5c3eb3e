"""Emblems by kind: simple pictograms, distinct even at the size of a stamp."""

from __future__ import annotations

from demo.nature import NATURE
from demo.pen import Painter
from demo.things import THINGS

EMBLEMS: dict[str, Painter] = NATURE | THINGS
