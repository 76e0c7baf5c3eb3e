"""Generates random designs, and batches of them: endless logos, labels, posters, patterns, and near twins of them."""

from __future__ import annotations

import colorsys
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor
from torch.nn import functional

from pretraining.camera import Camera
from pretraining.demo.colors import RGB
from pretraining.demo.photo import to_pixels
from pretraining.ink import Sheet
from pretraining.layers import FIGURES, GROUNDS, LETTERING, Painter, plain
from training.augment import vary

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


SIDE = 128  # of a painted design, squeezed to a square
CUT_OUT = 0.45  # share of designs on a different ground in the photograph
SEAMLESS = 0.6  # share of these whose ground is one color that continues into the background
PRINTED = 0.7  # share of designs printed on something stiff; the others wave like a flag
ONE_COLOR = 0.3  # share of photographs with a background of one color
SQUEEZED = 0.5  # share of designs whose proportions change, as when a whole image is squeezed to a square
ALIKE = 0.01  # mean difference, in 0..1, below which two designs are not negatives of each other


@dataclass(frozen=True)
class DesignBatch:
    """Two images of each of N designs.

    Attributes:
        keys: The designs as painted or, sometimes, another photograph; float32 [N, 3, S, S] in 0..1.
        photographs: float32 [N, 3, S, S] in 0..1.
        alike: Pairs of different designs that look alike, bool [N, N].
    """

    keys: Tensor
    photographs: Tensor
    alike: Tensor


class DesignBatches:
    """Generates the batch of a step from (seed, step) alone.

    Args:
        camera: Takes the photographs, S pixels wide and high.
        count: Designs N per batch; half of them are near twins of the other half.
        seed: Seed of everything random.
        photographed: Share of keys that are also photographs.
        cut_out: Share of designs on a different ground in the photograph, as happens to logos without a background.
        small: Share of photographs in which the design fills less of the frame.
    """

    def __init__(
        self,
        camera: Camera,
        count: int,
        seed: int = 0,
        photographed: float = 0.3,
        cut_out: float = CUT_OUT,
        small: float = 0.0,
    ):
        self.camera, self.count, self.seed, self.photographed = camera, count, seed, photographed
        self.cut_out, self.small = cut_out, small

    def __call__(self, step: int) -> DesignBatch:
        """Returns the batch of `step`."""
        rng = random.Random(f"designs {self.seed} {step}")
        generator = torch.Generator().manual_seed(rng.getrandbits(62))
        designs = with_twins(random_design, self.count, rng)
        clean = torch.stack([_square(design) for design in designs])
        shown, scenes = _shown(self.camera, designs, clean, rng, generator, self.cut_out)
        ratios = torch.tensor([design.ratio for design in designs])
        keys = vary(clean, self.camera.size, generator, strength=0.3)
        again = torch.rand(self.count, generator=generator) < self.photographed
        if again.any():
            behind = _scenes(self.camera, int(again.sum()), generator)
            keys[again] = photograph_squares(self.camera, clean[again], ratios[again], behind, generator)
        photographs = photograph_squares(self.camera, shown, ratios, scenes, generator, self.small)
        return DesignBatch(keys, photographs, alike(clean))


def joined(first: DesignBatch, second: DesignBatch) -> DesignBatch:
    """Joins two batches, whose designs become negatives of each other."""
    return DesignBatch(
        torch.cat([first.keys, second.keys]),
        torch.cat([first.photographs, second.photographs]),
        torch.block_diag(first.alike, second.alike),
    )


def photograph_designs(
    camera: Camera, designs: Sequence[Design], rng: random.Random, cut_out: float = CUT_OUT
) -> Tensor:
    """Returns a photograph of each design, float32 [N, 3, S, S] in 0..1; a share `cut_out` is on a different ground."""
    generator = torch.Generator().manual_seed(rng.getrandbits(62))
    clean = torch.stack([_square(design) for design in designs])
    shown, scenes = _shown(camera, designs, clean, rng, generator, cut_out)
    ratios = torch.tensor([design.ratio for design in designs])
    return photograph_squares(camera, shown, ratios, scenes, generator)


def _shown(
    camera: Camera,
    designs: Sequence[Design],
    clean: Tensor,
    rng: random.Random,
    generator: torch.Generator,
    cut_out: float = CUT_OUT,
) -> tuple[Tensor, Tensor]:
    """Returns designs, some on a different ground, and their backgrounds: uint8 [N, 3, h, h] and [N, 3, S, S].

    Args:
        camera: Supplies the scenes.
        designs: N designs.
        clean: The designs as painted, uint8 [N, 3, h, h].
        rng: Source of randomness for painting.
        generator: Source of randomness for photographing.
        cut_out: Share of designs on a different ground.
    """
    shown, scenes = clean.clone(), _scenes(camera, len(designs), generator)
    for number, design in enumerate(designs):
        if rng.random() < cut_out:
            seamless = rng.random() < SEAMLESS
            ground = one_color(rng) if seamless else random_ground(rng)
            shown[number] = _square(replace(design, layers=(ground, *design.layers[1:])))
            if seamless:
                scenes[number] = torch.tensor(ground.colors[0], dtype=torch.uint8).view(3, 1, 1)
    return shown, scenes


def _scenes(camera: Camera, count: int, generator: torch.Generator) -> Tensor:
    scenes = camera.scenes(count, generator)
    colors = torch.randint(256, (count, 3, 1, 1), generator=generator, dtype=torch.uint8)
    return torch.where(torch.rand(count, 1, 1, 1, generator=generator) < ONE_COLOR, colors, scenes)


def photograph_squares(
    camera: Camera,
    drawings: Tensor,
    ratios: Tensor,
    scenes: Tensor,
    generator: torch.Generator,
    small: float = 0.0,
) -> Tensor:
    """Returns one photograph of each design, squeezed to a square, float32 [N, 3, S, S] in 0..1."""
    squeezed = torch.rand(len(ratios), generator=generator) < SQUEEZED
    others = torch.empty(len(ratios)).uniform_(0.8, 1.8, generator=generator)
    ratios = torch.where(squeezed, others, ratios)
    return camera.photograph(drawings, ratios, generator, scenes=scenes, flat=PRINTED, small=small)


def alike(drawings: Tensor) -> Tensor:
    """Returns which pairs of different drawings, uint8 [N, 3, h, w], look alike, bool [N, N]."""
    small = functional.adaptive_avg_pool2d(drawings.float() / 255, 16).flatten(1)
    near = torch.cdist(small, small, p=1) / small.shape[1] < ALIKE
    return near & ~torch.eye(len(near), dtype=torch.bool)


def _square(design: Design) -> Tensor:
    return to_pixels(paint(design, SIDE).resize((SIDE, SIDE)))
