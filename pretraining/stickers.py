"""Training batches of stickers: marks without a background, as an index renders them and placed on anything."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import torch
from PIL import Image, ImageColor
from torch import Tensor
from torch.nn import functional

from indexes.builder.grounds import COLORS
from pretraining.camera import Camera, soften
from pretraining.demo.photo import to_pixels
from pretraining.designs import (
    Design,
    DesignBatch,
    DesignLayer,
    alike,
    cut_out,
    paint,
    photograph_squares,
    random_color,
    random_design,
    random_ground,
    random_layer,
    with_twins,
)
from pretraining.ink import Sheet, font, word
from pretraining.layers import FIGURES, LETTERING, plain

PLAIN_DESIGN = 0.4  # share of marks that are ordinary designs without their ground
WORDMARKS = 0.15
ICONS = 0.45  # share of the others that are drawn with a pen of constant width
MARGIN = 0.06  # around a design, of its longer side: 0.3 to 1.5 times this, twice
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


SIDE = 128  # of a sticker, squeezed to a square
LEAST = 0.03  # minimum opaque share of a sticker
SLIMMEST = 0.3  # minimum ratio of its shorter to its longer side
WHITE_KEYS = 0.4  # share of keys on white; the others are on any of the colors that an index uses
FLAT = 0.55  # share of query stickers that are drawn directly on their ground instead of photographed
ON_SCENE = 0.35  # share of these on a scene; the others are on one color
TRIMMED = 0.75  # share of those on one color whose border is cropped
CONTRAST = 0.15  # desired mean difference, in 0..1, of a sticker from a ground of one color
TURN = 0.2  # radians

_KEY_COLORS = torch.tensor([ImageColor.getrgb(color) for color in COLORS]) / 255


class StickerBatches:
    """Generates the batch of a step from (seed, step) alone: stickers, half of them near twins of the other half.

    Args:
        camera: Takes the photographs, S pixels wide and high.
        count: Stickers N per batch.
        seed: Seed of everything random.
        small: Share of photographs in which the sticker fills less of the frame.
    """

    def __init__(self, camera: Camera, count: int, seed: int = 0, small: float = 0.0):
        self.camera, self.count, self.seed, self.small = camera, count, seed, small

    def __call__(self, step: int) -> DesignBatch:
        """Returns the batch of `step`: keys on a color that an index uses, queries on any ground."""
        rng = random.Random(f"stickers {self.seed} {step}")
        generator = torch.Generator().manual_seed(rng.getrandbits(62))
        stickers, ratios = stickers_of(self.count, rng)
        inks = stickers[:, :3].flatten(2).sum(2) / stickers[:, 3:].flatten(2).sum(2)
        size, count = self.camera.size, self.count
        colors = _KEY_COLORS[torch.randint(len(_KEY_COLORS), (count, 4), generator=generator)]
        colors[torch.rand(count, generator=generator) < WHITE_KEYS, 0] = _KEY_COLORS[0]
        grounds = seen_on(inks, colors).view(-1, 3, 1, 1).expand(-1, 3, size, size)
        keys = stick(stickers, ratios, grounds, generator, turn=0.02, loose=0.25)
        flat = round(FLAT * count)
        queries = torch.cat(
            [
                self._drawn(stickers[:flat], ratios[:flat], inks[:flat], generator),
                self._photographed(stickers[flat:], ratios[flat:], inks[flat:], rng, generator),
            ]
        )
        on_white = stickers[:, :3] + 1 - stickers[:, 3:]
        return DesignBatch(keys, queries, alike((on_white * 255).round().to(torch.uint8)))

    def _drawn(self, stickers: Tensor, ratios: Tensor, inks: Tensor, generator: torch.Generator) -> Tensor:
        count, size = len(stickers), self.camera.size
        colors = seen_on(inks, torch.rand(count, 4, 3, generator=generator)).view(-1, 3, 1, 1)
        scenes = self.camera.scenes(count, generator).float() / 255
        behind = torch.rand(count, generator=generator) < ON_SCENE
        grounds = torch.where(behind.view(-1, 1, 1, 1), scenes, colors.expand(-1, 3, size, size))
        loose = torch.where(behind, 1.0, 1 - TRIMMED)
        return soften(stick(stickers, ratios, grounds, generator, turn=TURN, loose=loose), generator)

    def _photographed(
        self, stickers: Tensor, ratios: Tensor, inks: Tensor, rng: random.Random, generator: torch.Generator
    ) -> Tensor:
        count = len(stickers)
        scenes = self.camera.scenes(count, generator)
        colors = seen_on(inks, torch.rand(count, 4, 3, generator=generator)).view(-1, 3, 1, 1)
        grounds = colors.expand(-1, 3, SIDE, SIDE).clone()
        for number in range(count):
            if rng.random() < 0.6:  # the ground continues into the background
                scenes[number] = (colors[number] * 255).round().to(torch.uint8)
            elif rng.random() < 0.5:
                ground = paint(Design(1.0, (random_ground(rng),)), SIDE // 2).resize((SIDE, SIDE))
                grounds[number] = to_pixels(ground).float() / 255
        printed = stick(stickers, ratios, grounds, generator, turn=0.0, loose=0.15)
        squares = (printed * 255).round().to(torch.uint8)
        return photograph_squares(self.camera, squares, ratios, scenes, generator, self.small)


def stickers_of(count: int, rng: random.Random) -> tuple[Tensor, Tensor]:
    """Returns stickers cropped to their visible part and squeezed to squares, and their width over height.

    Returns:
        Premultiplied RGB and alpha, float32 [N, 4, h, h] in 0..1; width over height, float [N].
    """
    found: list[Tensor] = []
    ratios: list[float] = []
    while len(found) < count:
        for mark in with_twins(random_mark, 2, rng):
            image = cut_out(mark, SIDE)
            alpha = image.getchannel("A")
            box = alpha.point(lambda level: 255 if level > 16 else 0).getbbox()
            if box is None:
                continue
            image = image.crop(box)
            ratio = image.width / image.height
            square = np.asarray(image.convert("RGBa").resize((SIDE, SIDE), Image.Resampling.BILINEAR))
            if SLIMMEST < ratio < 1 / SLIMMEST and (square[..., 3] > 127).mean() > LEAST:
                found.append(torch.from_numpy(square.copy()).permute(2, 0, 1).float() / 255)
                ratios.append(ratio)
    return torch.stack(found[:count]), torch.tensor(ratios[:count])


def stick(
    stickers: Tensor,
    ratios: Tensor,
    grounds: Tensor,
    generator: torch.Generator,
    *,
    turn: float,
    loose: float | Tensor,
) -> Tensor:
    """Returns stickers on grounds, in a frame squeezed to a square, float32 [N, 3, S, S] in 0..1.

    Args:
        stickers: Premultiplied RGB and alpha, float32 [N, 4, h, h].
        ratios: Width over height of each, float [N].
        grounds: float32 [N, 3, S, S] in 0..1.
        generator: Source of randomness.
        turn: Largest angle in radians.
        loose: Share of stickers whose frame is up to twice as wide and high; the others fill it except for a margin.
    """
    count, side = len(stickers), grounds.shape[-1]

    def uniform(low: float, high: float) -> Tensor:
        return torch.empty(count).uniform_(low, high, generator=generator)

    angle = uniform(-turn, turn)
    cos, sin = angle.cos(), angle.sin()
    wide, high = ratios * cos + sin.abs(), ratios * sin.abs() + cos  # half of its bounding box; its height is 2
    is_loose = torch.rand(count, generator=generator) < loose
    factor = torch.where(is_loose, 1 / uniform(0.5, 1), 1)
    margin = 2 * MARGIN * torch.maximum(wide, high) * uniform(0.3, 1.5)
    frame_wide, frame_high = (wide + margin) * factor, (high + margin) * factor
    right, down = (frame_wide - wide) * uniform(-1, 1), (frame_high - high) * uniform(-1, 1)
    right, down = torch.where(is_loose, right, 0), torch.where(is_loose, down, 0)
    places = torch.stack(
        [
            torch.stack([frame_wide * cos, frame_high * sin, -right * cos - down * sin], -1) / ratios.view(-1, 1),
            torch.stack([-frame_wide * sin, frame_high * cos, right * sin - down * cos], -1),
        ],
        1,
    )
    grid = functional.affine_grid(places, [count, 4, side, side], align_corners=False)
    shown = functional.grid_sample(stickers, grid, padding_mode="zeros", align_corners=False)
    return shown[:, :3] + grounds * (1 - shown[:, 3:])


def seen_on(inks: Tensor, candidates: Tensor) -> Tensor:
    """Returns the first candidate that differs enough from a sticker's mean color, else the last one, [N, 3].

    Args:
        inks: Mean colors [N, 3] in 0..1.
        candidates: Colors [N, K, 3] in 0..1.
    """
    differs = (candidates - inks[:, None]).abs().mean(-1) > CONTRAST
    differs[:, -1] = True
    first = differs.int().argmax(1)
    return candidates[torch.arange(len(inks)), first]
