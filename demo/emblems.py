"""Emblems by kind: simple pictograms that tell a lion from a tree at the size of a stamp."""

from __future__ import annotations

from demo.nature import NATURE
from demo.pen import Painter
from demo.things import THINGS

EMBLEMS: dict[str, Painter] = NATURE | THINGS
