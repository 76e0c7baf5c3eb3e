"""The layers of a design: grounds that fill the sheet, figures on top, and lettering."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw

from pretraining.demo.background import background
from pretraining.demo.pen import Pen
from pretraining.demo.shapes import Point, arc, placed, star
from pretraining.demo.things import EMBLEMS
from pretraining.ink import FONTS, SYMBOLS, Sheet, blob, curve, font, gradient, stripes, word

Painter = Callable[[Sheet], None]


def plain(sheet: Sheet) -> None:
    """Fills the sheet with the first color."""
    sheet.image.paste(sheet.colors[0], (0, 0, *sheet.size))


def _white(sheet: Sheet) -> None:
    sheet.image.paste((255, 255, 255), (0, 0, *sheet.size))


def _gradient(sheet: Sheet) -> None:
    sheet.image.paste(gradient(sheet.size, sheet.colors[0], sheet.colors[-1], sheet.rng))


def _stripes(sheet: Sheet) -> None:
    sheet.image.paste(stripes(sheet.size, sheet.colors[0], sheet.colors[-1], sheet.rng))


def _clouds(sheet: Sheet) -> None:
    """Mixes two colors with noise at several scales."""
    noise = np.zeros((64, 64))
    source = np.random.default_rng(sheet.rng.getrandbits(32))
    rough = sheet.rng.uniform(0.3, 0.9)
    for power in range(2, 7):
        grain = source.random((2**power, 2**power), dtype=np.float32)
        noise += rough**power * np.asarray(Image.fromarray(grain).resize((64, 64), Image.Resampling.BICUBIC))
    low, high = np.quantile(noise, (0.05, 0.95))
    share = np.clip((noise - low) / (high - low + 1e-6), 0, 1)[..., None]
    if sheet.rng.random() < 0.3:  # marble and wood
        share = 0.5 + 0.5 * np.sin(share * sheet.rng.uniform(6, 30))
    mixed = np.array(sheet.colors[0]) * share + np.array(sheet.colors[-1]) * (1 - share)
    sheet.image.paste(Image.fromarray(mixed.astype(np.uint8)).resize(sheet.size, Image.Resampling.BICUBIC))


def _tiles(sheet: Sheet) -> None:
    """Repeats a small figure in rows and columns."""
    rng, (width, height) = sheet.rng, sheet.size
    plain(sheet)
    pitch = sheet.unit * rng.uniform(0.08, 0.35)
    kind, size, shift = rng.randrange(4), rng.uniform(0.2, 0.48), rng.choice((0, 0, 0.5))
    ink = sheet.colors[-1]
    for row in range(math.ceil(height / pitch) + 1):
        for column in range(math.ceil(width / pitch) + 1):
            x, y = (column + shift * (row % 2)) * pitch, row * pitch
            r = size * pitch
            if kind == 0:
                sheet.pen.ellipse((x - r, y - r, x + r, y + r), fill=ink)
            elif kind == 1:
                sheet.pen.rectangle((x, y, x + pitch * size * 2 - 1, y + pitch * size - 1), fill=ink)
            elif kind == 2:
                sheet.pen.polygon(placed(star(rng.choice((4, 5)), 0.45, 0), x, y, r), fill=ink)
            elif (row + column) % 2:
                sheet.pen.rectangle((x, y, x + pitch - 1, y + pitch - 1), fill=ink)


def _leaves(sheet: Sheet) -> None:
    """Scatters overlapping shapes of all sizes."""
    rng, (width, height) = sheet.rng, sheet.size
    for _ in range(rng.randint(25, 70)):
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        r = sheet.unit * 0.04 / max(rng.random(), 0.1)
        color = tuple(min(255, max(0, v + rng.randint(-35, 35))) for v in sheet.color())
        if rng.random() < 0.4:
            sheet.pen.ellipse((x - r, y - r * rng.uniform(0.4, 1), x + r, y + r), fill=color)
        else:
            points = placed(star(rng.randint(3, 7), rng.uniform(0.4, 1), rng.uniform(0, 90)), x, y, r)
            sheet.pen.polygon(points, fill=color)


def _scene(sheet: Sheet) -> None:
    sheet.image.paste(background(sheet.rng, (160, 128)).resize(sheet.size, Image.Resampling.BILINEAR))


def _blob(sheet: Sheet) -> None:
    sheet.fill(blob(*sheet.place(), sheet.unit * sheet.rng.uniform(0.1, 0.5), sheet.rng))


def _rosette(sheet: Sheet) -> None:
    fold = sheet.rng.choice((2, 3, 3, 4, 5, 6, 8))
    sheet.fill(blob(*sheet.place(), sheet.unit * sheet.rng.uniform(0.15, 0.5), sheet.rng, fold))


def _polygon(sheet: Sheet) -> None:
    rng = sheet.rng
    (x, y), r = sheet.place(), sheet.unit * rng.uniform(0.1, 0.5)
    if rng.random() < 0.5:
        sheet.fill(placed(star(rng.randint(3, 9), rng.choice((0.4, 0.6, 0.8, 1)), rng.uniform(0, 120)), x, y, r))
    else:
        angles = sorted(rng.uniform(0, 2 * math.pi) for _ in range(rng.randint(3, 7)))
        sheet.fill([(x + r * math.cos(a) * rng.uniform(0.4, 1), y + r * math.sin(a)) for a in angles])


def _round(sheet: Sheet) -> None:
    rng = sheet.rng
    (x, y), rx = sheet.place(), sheet.unit * rng.uniform(0.1, 0.5)
    ry = rx if rng.random() < 0.6 else rx * rng.uniform(0.4, 1)
    kind = rng.random()
    box = (x - rx, y - ry, x + rx, y + ry)
    if kind < 0.5:
        sheet.fill(arc(x, y, rx, ry, 0, 360, 40))
    elif kind < 0.75:
        start = rng.uniform(0, 360)
        width = max(2, round(rx * rng.uniform(0.1, 0.6)))
        sheet.pen.arc(box, start, start + rng.uniform(60, 359), fill=sheet.colors[0], width=width)
    elif kind < 0.9:
        start = rng.uniform(0, 360)
        sheet.pen.pieslice(box, start, start + rng.uniform(40, 320), fill=sheet.colors[0])
    else:
        for share in (1, 0.75, 0.5, 0.25):
            part = (x - rx * share, y - ry * share, x + rx * share, y + ry * share)
            sheet.pen.ellipse(part, fill=sheet.color())


def _bar(sheet: Sheet) -> None:
    rng, (width, height) = sheet.rng, sheet.size
    x, y = sheet.place()
    w, h = width * rng.uniform(0.1, 1), height * rng.uniform(0.06, 0.5)
    if rng.random() < 0.3:
        w, h = h, w
    sides = (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
    if rng.random() < 0.4:
        sheet.pen.rounded_rectangle(sides, radius=min(w, h) * rng.uniform(0.1, 0.5), fill=sheet.colors[0])
    else:
        sheet.fill([(sides[0], sides[1]), (sides[2], sides[1]), (sides[2], sides[3]), (sides[0], sides[3])])


def _scribble(sheet: Sheet) -> None:
    rng, (x, y) = sheet.rng, sheet.place(0.25)
    r = sheet.unit * rng.uniform(0.2, 0.5)
    points = [(x + r * rng.uniform(-1, 1), y + r * rng.uniform(-1, 1)) for _ in range(rng.randint(3, 8))]
    line = curve(points, rng.random() < 0.4) if rng.random() < 0.7 else points
    width = max(2, round(sheet.unit * rng.uniform(0.015, 0.1)))
    sheet.pen.line(line, fill=sheet.colors[0], width=width, joint="curve")


def _mirrored(sheet: Sheet) -> None:
    """Draws a figure and its mirror image, as in many emblems."""
    (x, y), r, rng = sheet.place(), sheet.unit * sheet.rng.uniform(0.15, 0.5), sheet.rng
    right: list[Point] = [(x, y - r)]
    right += [(x + r * rng.uniform(0.05, 1), y - r + 2 * r * (i + rng.random()) / 6) for i in range(rng.randint(2, 6))]
    right.append((x, y + r * rng.uniform(0.3, 1)))
    if rng.random() < 0.5:
        right = curve(right)
    sheet.fill([*right, *((2 * x - px, py) for px, py in reversed(right))])


def _emblem(sheet: Sheet) -> None:
    x, y = sheet.place(0.2)
    r, angle = sheet.unit * sheet.rng.uniform(0.12, 0.42), sheet.rng.choice((0, 0, 0, sheet.rng.uniform(-40, 40)))
    EMBLEMS[sheet.rng.choice(list(EMBLEMS))](Pen(sheet.pen, x, y, r, angle, sheet.colors))


def _symbol(sheet: Sheet) -> None:
    size = max(8, round(sheet.unit * sheet.rng.uniform(0.3, 1.1)))
    ink = font("DejaVuSans", size)
    sheet.pen.text(sheet.place(0.25), sheet.rng.choice(SYMBOLS), fill=sheet.colors[0], font=ink, anchor="mm")


def _solid(sheet: Sheet) -> None:
    """Draws a ball, a box or a can, lit from one side, with its shadow."""
    rng, (x, y) = sheet.rng, sheet.place(0.25)
    r, base = sheet.unit * rng.uniform(0.12, 0.4), sheet.colors[0]
    lit = tuple(min(255, v + 70) for v in base)
    dark = tuple(v // 3 for v in base)
    shadow = tuple(v // 4 for v in sheet.image.getpixel((int(x) % sheet.size[0], int(y) % sheet.size[1])))  # type: ignore[union-attr]
    side = rng.choice((-1, 1))
    sheet.pen.ellipse((x - r + side * r * 0.5, y + r * 0.6, x + r + side * r * 0.7, y + r * 1.2), fill=shadow)
    kind = rng.randrange(3)
    if kind == 0:
        for step in range(8):
            share = step / 8
            ink = tuple(round(d + (a - d) * share) for d, a in zip(dark, lit, strict=True))
            cx, cy, cr = x - side * r * 0.35 * share, y - r * 0.35 * share, r * (1 - share)
            sheet.pen.ellipse((cx - cr, cy - cr, cx + cr, cy + cr), fill=ink)
    elif kind == 1:
        w, h, d = r * rng.uniform(0.5, 1), r * rng.uniform(0.6, 1.2), r * rng.uniform(0.2, 0.5)
        sheet.pen.rectangle((x - w, y - h, x + w, y + h), fill=base)
        sheet.pen.polygon([(x - w, y - h), (x - w + d, y - h - d), (x + w + d, y - h - d), (x + w, y - h)], fill=lit)
        sheet.pen.polygon([(x + w, y - h), (x + w + d, y - h - d), (x + w + d, y + h - d), (x + w, y + h)], fill=dark)
    else:
        w, h = r * rng.uniform(0.4, 0.8), r * rng.uniform(0.7, 1.2)
        for step in range(10):
            share = abs(step / 9 - (0.3 if side > 0 else 0.7))
            ink = tuple(round(a + (d - a) * min(1, 1.4 * share)) for d, a in zip(dark, lit, strict=True))
            sheet.pen.rectangle((x - w + 2 * w * step / 10, y - h, x - w + 2 * w * (step + 1) / 10, y + h), fill=ink)
        sheet.pen.ellipse((x - w, y - h - w * 0.3, x + w, y - h + w * 0.3), fill=base)


def _headline(sheet: Sheet) -> None:
    """Writes one or a few large words, upright or rotated."""
    rng, (width, height) = sheet.rng, sheet.size
    name = rng.choice(FONTS)
    text = "\n".join(word(rng, name) for _ in range(rng.choice((1, 1, 1, 2, 3))))
    longest = max(len(line) for line in text.split("\n"))
    size = round(min(height * 0.7, rng.uniform(0.6, 1.5) * width / max(2, longest)))
    size = max(8, size // 4 * 4)
    ink = font(name, size)
    stroke = rng.choice((0, 0, 0, max(1, size // 16)))
    if rng.random() < 0.8:
        sheet.pen.multiline_text(
            sheet.place(0.3), text, fill=sheet.colors[0], font=ink, anchor="mm", align="center",
            stroke_width=stroke, stroke_fill=sheet.colors[-1],
        )  # fmt: skip
        return
    mask = Image.new("L", sheet.size)
    ImageDraw.Draw(mask).multiline_text((width / 2, height / 2), text, fill=255, font=ink, anchor="mm", align="center")
    sheet.image.paste(sheet.colors[0], (0, 0), mask.rotate(rng.choice((90, 270, rng.uniform(-40, 40)))))


def _small_print(sheet: Sheet) -> None:
    """Writes a column of small lines."""
    rng, (width, height) = sheet.rng, sheet.size
    name = rng.choice(FONTS)
    size = max(8, round(sheet.unit * rng.uniform(0.045, 0.1)) // 2 * 2)
    lines = [" ".join(word(rng, name) for _ in range(rng.randint(1, 5))) for _ in range(rng.randint(2, 7))]
    place = (width * rng.uniform(0.02, 0.5), height * rng.uniform(0.02, 0.75))
    sheet.pen.multiline_text(place, "\n".join(lines), fill=sheet.colors[0], font=font(name, size))


GROUNDS: dict[Painter, float] = {
    _white: 5, plain: 6, _gradient: 3, _stripes: 1, _clouds: 2, _tiles: 1.5, _leaves: 1.5, _scene: 2,
}  # fmt: skip
FIGURES: dict[Painter, float] = {
    _blob: 4, _rosette: 3, _polygon: 4, _round: 5, _bar: 4, _scribble: 4, _mirrored: 3, _emblem: 4, _symbol: 4,
    _solid: 3,
}  # fmt: skip
LETTERING: dict[Painter, float] = {_headline: 4, _small_print: 1}
