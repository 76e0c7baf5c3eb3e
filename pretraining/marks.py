"""Marks: designs without a background, like logos, icons and wordmarks, in one or a few colors."""

from __future__ import annotations

import random
from dataclasses import replace

from pretraining.designs import Design, DesignLayer, random_color, random_design, random_layer
from pretraining.ink import Sheet, font, word
from pretraining.layers import FIGURES, LETTERING, plain

PLAIN_DESIGN = 0.4  # share of marks that are ordinary designs without their ground
WORDMARKS = 0.15
ICONS = 0.45  # share of the others that are drawn with a pen of constant width
GRID = 12  # cells per side of the grid that an icon's strokes follow
LETTERS = ("DejaVuSans-Bold", "DejaVuSans", "DejaVuSerif-Bold", "DejaVuSansMono-Bold", "cmss10", "STIXGeneralBol")

WHITE = DesignLayer(plain, ((255, 255, 255),), 0)


def random_mark(rng: random.Random) -> Design:
    """Returns a random design with a white ground that is meant to be left out."""
    if rng.random() < PLAIN_DESIGN:
        design = random_design(rng)
        return replace(design, layers=(WHITE, *design.layers[1:]))
    palette = [random_color(rng) for _ in range(rng.choice((1, 1, 2, 2, 3, 4)))]
    palette = palette * 2 if len(palette) == 1 else palette  # painters need two
    kind = rng.random()
    if kind < WORDMARKS:
        layers = [DesignLayer(_letters, tuple(palette), rng.getrandbits(48))]
        layers += [random_layer(FIGURES, palette, rng) for _ in range(rng.choice((0, 1)))]
    elif kind < WORDMARKS + (1 - WORDMARKS) * ICONS:
        layers = [DesignLayer(_strokes, tuple(palette), rng.getrandbits(48)) for _ in range(rng.choice((1, 1, 2)))]
        if rng.random() < 0.3:
            layers.insert(0, random_layer(FIGURES, palette, rng))
    else:
        layers = [random_layer(FIGURES, palette, rng) for _ in range(rng.choice((1, 2, 2, 3, 4)))]
        layers += [random_layer(LETTERING, palette, rng) for _ in range(rng.choice((0, 0, 1)))]
    return Design(rng.choice((1.0, 1.0, 1.0, 1.4, 2.0)), (WHITE, *layers))


def _strokes(sheet: Sheet) -> None:
    """Draws lines, boxes and arcs between the points of a grid, with one pen."""
    rng, (width, height) = sheet.rng, sheet.size
    pen = max(2, round(sheet.unit * rng.uniform(0.025, 0.11)))
    ink = sheet.colors[0]

    def point() -> tuple[float, float]:
        return width * rng.randint(1, GRID - 1) / GRID, height * rng.randint(1, GRID - 1) / GRID

    for _ in range(rng.randint(2, 7)):
        (x1, y1), (x2, y2), kind = point(), point(), rng.random()
        left, right, top, bottom = min(x1, x2), max(x1, x2), min(y1, y2), max(y1, y2)
        box = (left, top, max(right, left + 2 * pen), max(bottom, top + 2 * pen))
        if kind < 0.4:
            sheet.pen.line([(x1, y1), (x2, y2)] + ([point()] if rng.random() < 0.4 else []), ink, pen, "curve")
        elif kind < 0.6:
            sheet.pen.rounded_rectangle(box, rng.choice((0, pen, 2 * pen)), outline=ink, width=pen)
        elif kind < 0.8:
            r = sheet.unit * rng.randint(1, GRID // 2) / GRID
            sheet.pen.ellipse((x1 - r, y1 - r, x1 + r, y1 + r), outline=ink, width=pen)
        elif kind < 0.9:
            start = rng.choice((0, 90, 180, 270))
            sheet.pen.arc(box, start, start + rng.choice((90, 180, 270)), fill=ink, width=pen)
        else:
            sheet.pen.ellipse((x1 - pen, y1 - pen, x1 + pen, y1 + pen), fill=ink)


def _letters(sheet: Sheet) -> None:
    """Writes a word or a few letters, as large as the sheet allows."""
    rng, (width, height) = sheet.rng, sheet.size
    name = rng.choice(LETTERS)
    text = word(rng, name, rng.choice((1, 2, 3, 8)))
    size = max(8, round(min(height * 0.8, 1.3 * width / max(1, len(text)))) // 4 * 4)
    sheet.pen.text((width / 2, height / 2), text, fill=sheet.colors[0], font=font(name, size), anchor="mm")
