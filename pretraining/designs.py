"""Generates random designs: an endless supply of logos, labels, posters and patterns, and near twins of given ones."""

from __future__ import annotations

import colorsys
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageDraw

from omgm.demo.colors import RGB
from pretraining.ink import Sheet
from pretraining.layers import FIGURES, GROUNDS, LETTERING, Painter, plain

RATIOS = (1.0, 1.0, 1.0, 1.33, 0.75, 1.6, 0.6, 2.2)
FINE = 2  # designs are painted at this multiple of their size and then downscaled, which smooths edges


@dataclass(frozen=True, slots=True)
class DesignLayer:
    """A painter with everything it depends on except what it paints on."""

    paint: Painter
    colors: tuple[RGB, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Design:
    """A ground with layers on it."""

    ratio: float
    layers: tuple[DesignLayer, ...]


def random_design(rng: random.Random) -> Design:
    """Returns a random design: a ground, up to five figures, and often lettering."""
    palette = [random_color(rng) for _ in range(rng.randint(2, 5))]
    layers = [random_layer(GROUNDS, palette, rng)]
    layers += [random_layer(FIGURES, palette, rng) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 5)))]
    layers += [random_layer(LETTERING, palette, rng) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]
    if len(layers) == 1:
        layers.append(random_layer(FIGURES, palette, rng))
    return Design(rng.choice(RATIOS) * rng.uniform(0.9, 1.1), tuple(layers))


def similar_design(design: Design, rng: random.Random) -> Design:
    """Returns a near twin of `design`, with one layer other than the ground redrawn, recolored or removed."""
    layers = list(design.layers)
    number = rng.randrange(1, len(layers))
    edit = rng.random()
    if edit < 0.2 and len(layers) > 2:
        del layers[number]
    elif edit < 0.5:
        layers[number] = replace(layers[number], colors=tuple(random_color(rng) for _ in layers[number].colors))
    else:
        layers[number] = replace(layers[number], seed=rng.getrandbits(48))
    return replace(design, layers=tuple(layers))


def with_twins(draw: Callable[[random.Random], Design], count: int, rng: random.Random) -> list[Design]:
    """Returns designs from `draw`, with every second one replaced by a near twin of its predecessor."""
    designs: list[Design] = []
    for number in range(count):
        designs.append(similar_design(designs[-1], rng) if number % 2 else draw(rng))
    return designs


def random_ground(rng: random.Random) -> DesignLayer:
    """Returns the ground of a random design."""
    return random_layer(GROUNDS, [random_color(rng) for _ in range(2)], rng)


def one_color(rng: random.Random) -> DesignLayer:
    """Returns a ground of one color."""
    return DesignLayer(plain, (random_color(rng),), 0)


def paint(design: Design, height: int = 128) -> Image.Image:
    """Paints a design as an RGB image, `height` pixels high."""
    size = (round(height * design.ratio) * FINE, height * FINE)
    image = Image.new("RGB", size, (255, 255, 255))
    pen = ImageDraw.Draw(image)
    for layer in design.layers:
        layer.paint(Sheet(image, pen, layer.colors, random.Random(layer.seed)))
    return image.reduce(FINE)


def cut_out(design: Design, height: int = 128) -> Image.Image:
    """Paints a design without its ground as RGBA: alpha follows from the difference on black and on white ground."""
    black, white = (
        np.asarray(
            paint(replace(design, layers=(DesignLayer(plain, (color,), 0), *design.layers[1:])), height), np.float32
        )
        for color in ((0, 0, 0), (255, 255, 255))
    )
    alpha = 1 - (white - black).mean(axis=2, keepdims=True) / 255
    colors = black / np.maximum(alpha, 1 / 255)  # on black, a pixel's value is its color times alpha
    return Image.fromarray(np.concatenate([colors, 255 * alpha], axis=2).round().clip(0, 255).astype(np.uint8))


def random_layer(painters: Mapping[Painter, float], palette: list[RGB], rng: random.Random) -> DesignLayer:
    """Returns a layer by a random one of the painters, in the colors of `palette`."""
    painter = rng.choices(list(painters), list(painters.values()))[0]
    return DesignLayer(painter, tuple(rng.sample(palette, len(palette))), rng.getrandbits(48))


def random_color(rng: random.Random) -> RGB:
    """Draws a color: often saturated, sometimes white or nearly black."""
    kind = rng.random()
    if kind < 0.12:
        return 255, 255, 255
    if kind < 0.24:
        dark = rng.randint(0, 50)
        return dark, dark, dark
    saturation = rng.uniform(0.5, 1) if kind < 0.8 else rng.uniform(0, 0.5)
    red, green, blue = colorsys.hsv_to_rgb(rng.random(), saturation, rng.uniform(0.3, 1))
    return round(255 * red), round(255 * green), round(255 * blue)
