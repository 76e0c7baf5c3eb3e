"""Procedural, cluttered backgrounds: piles of fruit, shelves of cartons, walls, skies, leaves."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from pretraining.demo.colors import RGB

Size = tuple[int, int]

FRUIT: tuple[tuple[RGB, float], ...] = (  # color, length over width
    ((190, 40, 35), 1.0), ((210, 60, 40), 1.1), ((235, 130, 25), 1.0), ((230, 170, 40), 1.0), ((225, 205, 60), 1.3),
    ((235, 200, 50), 2.8), ((150, 180, 60), 1.1), ((70, 120, 40), 2.6), ((90, 150, 50), 1.0), ((225, 110, 30), 3.4),
    ((90, 30, 60), 1.0), ((120, 40, 45), 1.2), ((60, 45, 60), 1.7), ((190, 145, 90), 1.3), ((150, 105, 65), 1.2),
    ((235, 230, 215), 1.0), ((70, 70, 40), 1.4), ((215, 150, 110), 1.0), ((160, 190, 120), 1.2), ((230, 90, 70), 1.0),
)  # fmt: skip


def background(rng: random.Random, size: Size = (320, 256)) -> Image.Image:
    """Paints a random RGB background of `size` (width, height)."""
    paint = rng.choices(list(PAINTERS), list(PAINTERS.values()))[0]
    image = paint(rng, size)
    if rng.random() < 0.25:
        _hand(rng, image)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        _tag(rng, image)
    if rng.random() < 0.6:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.0005, 0.009) * size[1]))
    return image


def _tint(rng: random.Random, color: RGB, spread: float = 18.0) -> RGB:
    light = rng.uniform(0.75, 1.2)
    r, g, b = (min(255, max(0, round(v * light + rng.gauss(0, spread)))) for v in color)
    return r, g, b


def _any_color(rng: random.Random) -> RGB:
    if rng.random() < 0.35:
        gray = rng.randint(90, 245)
        return _tint(rng, (gray, gray, gray), 8)
    r, g, b = rng.randint(20, 250), rng.randint(20, 240), rng.randint(20, 240)
    gray, dull = (r + g + b) // 3, rng.uniform(0, 0.7)
    return round(r + (gray - r) * dull), round(g + (gray - g) * dull), round(b + (gray - b) * dull)


@cache
def _ball() -> tuple[np.ndarray, np.ndarray, Image.Image]:
    """Returns the shading, the highlight and the mask of a lit sphere."""
    pixels = 48
    y, x = np.mgrid[-1 : 1 : pixels * 1j, -1 : 1 : pixels * 1j]
    depth = np.sqrt(np.clip(1 - x * x - y * y, 0, 1))
    light = np.clip(-0.35 * x - 0.55 * y + 0.75 * depth, 0, 1)
    mask = np.clip((1 - np.hypot(x, y)) * pixels / 2, 0, 1)
    shine = np.exp(-((x + 0.3) ** 2 + (y + 0.4) ** 2) / 0.025)
    return 0.25 + 0.85 * light, shine, Image.fromarray((mask * 255).astype(np.uint8))


def _fruit(
    rng: random.Random, color: RGB, length: float, breadth: float, gloss: float
) -> tuple[Image.Image, Image.Image]:
    """Paints one fruit; returns its image and its mask."""
    shade, shine, mask = _ball()
    pixels = np.clip(shade[..., None] * np.array(color) + (gloss * 255) * shine[..., None], 0, 255)
    box = max(3, round(length)), max(3, round(breadth))
    image = Image.fromarray(pixels.astype(np.uint8)).resize(box)
    if box[0] == box[1]:
        return image, mask.resize(box)
    angle = rng.uniform(0, 180)
    return image.rotate(angle, expand=True), mask.resize(box).rotate(angle, expand=True)


def _heap(rng: random.Random, size: Size) -> Image.Image:
    """Paints a pile of fruit of one or two kinds."""
    width, height = size
    kinds = rng.sample(FRUIT, rng.choice((1, 1, 2)))
    image = Image.new("RGB", size, _tint(rng, (50, 40, 35)))
    breadth, gloss = height * rng.uniform(0.07, 0.3), rng.uniform(0, 0.8)
    sprites = []
    for _ in range(10):
        color, length = rng.choice(kinds)
        one = breadth * rng.uniform(0.85, 1.15)
        sprites.append(_fruit(rng, _tint(rng, color), one * length, one, gloss))
    step = breadth * rng.uniform(0.6, 0.85)
    top = rng.choice((0.0, 0.0, 0.0, 0.3)) * height
    if top:
        image.paste(_shelf(rng, size))
    y = top
    while y < height + breadth:
        x = -breadth * rng.random()
        while x < width + breadth:
            fruit, mask = rng.choice(sprites)
            left = x + rng.gauss(0, 0.2) * step - fruit.width / 2
            image.paste(fruit, (round(left), round(y + rng.gauss(0, 0.2) * step - fruit.height / 2)), mask)
            x += step * 1.15
        y += step
    return image


def _shelf(rng: random.Random, size: Size) -> Image.Image:
    """Paints rows of cartons with labels, tilted."""
    width, height = size
    image = Image.new("RGB", (width * 3 // 2, height * 3 // 2), _tint(rng, (110, 105, 100), 12))
    pen = ImageDraw.Draw(image)
    row, y = height * rng.uniform(0.25, 0.6), 0.0
    while y < image.height:
        x = 0.0
        color = _any_color(rng)
        while x < image.width:
            if rng.random() < 0.3:
                color = _any_color(rng)
            w, h = row * rng.uniform(0.25, 0.7), row * rng.uniform(0.6, 0.88)
            _carton(rng, pen, (x, y + row * 0.9 - h, x + w, y + row * 0.9), color)
            x += w * rng.uniform(1.02, 1.2)
        pen.rectangle((0, y + row * 0.9, image.width, y + row), fill=_tint(rng, (200, 195, 190), 15))
        y += row
    image = image.rotate(rng.gauss(0, 14), Image.Resampling.BILINEAR)
    left, top = width // 4, height // 4
    return image.crop((left, top, left + width, top + height))


def _carton(rng: random.Random, pen: ImageDraw.ImageDraw, box: tuple[float, float, float, float], color: RGB) -> None:
    x0, y0, x1, y1 = box
    pen.rectangle(box, fill=_tint(rng, color, 5))
    r, g, b = color
    pen.rectangle((x0 + (x1 - x0) * 0.82, y0, x1, y1), fill=_tint(rng, (r * 3 // 4, g * 3 // 4, b * 3 // 4), 5))
    for _ in range(rng.randint(0, 4)):
        y = rng.uniform(y0, y1)
        left, right = sorted((rng.uniform(x0, x1), rng.uniform(x0, x1)))
        shape = (left, y, right, min(y1, y + rng.uniform(0.03, 0.3) * (y1 - y0)))
        (pen.ellipse if rng.random() < 0.3 else pen.rectangle)(shape, fill=_any_color(rng))


def _gradient(rng: random.Random, size: Size) -> Image.Image:
    """Paints a sky or a wall: a gradient between two colors."""
    width, height = size
    a, b = np.array(_any_color(rng), float), np.array(_any_color(rng), float)
    if rng.random() < 0.5:
        b = 0.65 * a + 0.35 * b
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    mix = np.clip(y * rng.uniform(0, 1) + x * rng.uniform(-0.5, 0.5) + rng.uniform(0, 0.5), 0, 1)[..., None]
    return Image.fromarray(np.clip(a + (b - a) * mix, 0, 255).astype(np.uint8))


def _cloud(rng: random.Random, size: Size) -> Image.Image:
    """Paints leaves, grass or clouds: noise at several scales in two colors."""
    noise = np.random.default_rng(rng.getrandbits(32))
    total = np.zeros((size[1], size[0]), np.float32)
    for cells, weight in ((3, 1.0), (8, 0.7), (24, 0.6), (60, rng.uniform(0.1, 0.8))):
        grid = Image.fromarray(noise.random((cells, max(2, cells * rng.choice((1, 1, 3)))), np.float32))
        total += weight * np.asarray(grid.resize(size, Image.Resampling.BICUBIC))
    total = (total - total.min()) / (np.ptp(total) + 1e-6)
    a = np.array(_tint(rng, rng.choice(((40, 80, 30), (60, 60, 60), (120, 160, 220), (90, 70, 50)))), np.float32)
    b = np.array(_tint(rng, rng.choice(((130, 170, 70), (220, 220, 225), (180, 150, 110)))), np.float32)
    return Image.fromarray((a + (b - a) * total[..., None]).clip(0, 255).astype(np.uint8))


def _tiles(rng: random.Random, size: Size) -> Image.Image:
    """Paints a tiled or latticed surface, tilted."""
    image = _gradient(rng, size)
    pen, step = ImageDraw.Draw(image), size[1] * rng.uniform(0.06, 0.3)
    line, thick, slope = _any_color(rng), max(1, round(size[1] * rng.uniform(0.005, 0.03))), rng.gauss(0, 0.3)
    for i in range(-20, 40):
        at = i * step
        pen.line((at, 0, at + slope * size[1], size[1]), fill=line, width=thick)
        pen.line((0, at, size[0], at - slope * size[0]), fill=line, width=thick)
    return image


def _clutter(rng: random.Random, size: Size) -> Image.Image:
    """Paints blobs, balls and boxes of all colors and sizes."""
    image = _gradient(rng, size)
    pen = ImageDraw.Draw(image)
    for _ in range(rng.randint(8, 40)):
        x, y, r = rng.uniform(0, size[0]), rng.uniform(0, size[1]), size[1] * rng.uniform(0.03, 0.25)
        form = rng.random()
        if form < 0.4:
            ball, mask = _fruit(rng, _any_color(rng), 2 * r, 2 * r * rng.uniform(0.5, 1), rng.random())
            image.paste(ball, (round(x - r), round(y - r)), mask)
        elif form < 0.7:
            _carton(rng, pen, (x - r, y - r * 0.7, x + r, y + r * 0.7), _any_color(rng))
        else:
            corners = [(x + rng.uniform(-r, r), y + rng.uniform(-r, r)) for _ in range(5)]
            pen.polygon(corners, fill=_any_color(rng))
    return image


def _hand(rng: random.Random, image: Image.Image) -> None:
    """Paints a hand that reaches in from below and holds a box."""
    width, height = image.size
    pen, skin = ImageDraw.Draw(image), _tint(rng, rng.choice(((215, 165, 140), (190, 135, 110), (120, 80, 60))), 6)
    x, y = rng.uniform(0.2, 0.8) * width, rng.uniform(0.55, 0.95) * height
    w = width * rng.uniform(0.12, 0.25)
    _carton(rng, pen, (x - w / 2, y - w, x + w / 2, y + w * 0.5), _any_color(rng))
    pen.polygon([(x - w, height), (x - w * 0.6, y), (x + w * 0.1, y + w * 0.3), (x, height)], fill=skin)
    for i in range(4):
        at = y + (i - 1.5) * w * 0.18
        pen.ellipse((x - w * 0.7, at, x + w * 0.2, at + w * 0.2), fill=_tint(rng, skin, 3))


def _tag(rng: random.Random, image: Image.Image) -> None:
    """Paints a price tag: a light card with dark marks."""
    w, h = max(6, round(image.width * rng.uniform(0.08, 0.25))), max(4, round(image.height * rng.uniform(0.05, 0.18)))
    card = Image.new("RGB", (w, h), _tint(rng, rng.choice(((245, 245, 240), (250, 215, 40))), 4))
    pen = ImageDraw.Draw(card)
    for _ in range(3):
        x, y = rng.uniform(0, w * 0.6), rng.uniform(0, h * 0.7)
        pen.rectangle((x, y, x + w * 0.3, y + h * 0.15), fill=(30, 30, 30))
    angle = rng.gauss(0, 15)
    mask = Image.new("L", (w, h), 255).rotate(angle, expand=True)
    spot = round(rng.uniform(-0.1, 0.9) * image.width), round(rng.uniform(-0.1, 0.9) * image.height)
    image.paste(card.rotate(angle, expand=True), spot, mask)


PAINTERS: dict[Callable[[random.Random, Size], Image.Image], float] = {
    _heap: 45, _shelf: 25, _clutter: 12, _gradient: 6, _cloud: 8, _tiles: 6,
}  # fmt: skip
