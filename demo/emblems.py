"""Emblems as simple pictograms: every kind is a few polygons, ellipses and lines inside a circle of radius 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi, sin

from PIL import ImageDraw

from demo.shapes import Point, arc, mirrored, outline, placed, rotated, star

RGB = tuple[int, int, int]
GREEN: RGB = (40, 130, 60)
DARK: RGB = (60, 45, 35)


@dataclass(frozen=True, slots=True)
class Pen:
    """Paints in an emblem's own units: (0, 0) is its middle, 1 its radius, `y` points down.

    Args:
        canvas: Where to paint.
        x: Middle of the emblem in pixels.
        y: Middle of the emblem in pixels.
        r: Radius of the emblem in pixels.
        angle: Clockwise turn in degrees.
        inks: The emblem's colors; an index beyond the last one starts again at the first.
    """

    canvas: ImageDraw.ImageDraw
    x: float
    y: float
    r: float
    angle: float
    inks: tuple[RGB, ...]

    def ink(self, index: int | RGB) -> RGB:
        """Returns color `index` of the emblem; an RGB color is returned as it is."""
        return self.inks[index % len(self.inks)] if isinstance(index, int) else index

    def _pixels(self, points: Sequence[Point]) -> list[Point]:
        return placed(rotated(points, self.angle) if self.angle else points, self.x, self.y, self.r)

    def polygon(self, ink: int | RGB, points: Sequence[Point]) -> None:
        """Fills a polygon."""
        self.canvas.polygon(self._pixels(points), fill=self.ink(ink))

    def oval(self, ink: int | RGB, x: float, y: float, rx: float, ry: float, tilt: float = 0) -> None:
        """Fills an ellipse, turned clockwise by `tilt` degrees around its own middle."""
        self.polygon(ink, placed(rotated(arc(0, 0, rx, ry, 0, 360, 20), tilt), x, y, 1))

    def disc(self, ink: int | RGB, x: float, y: float, r: float) -> None:
        """Fills a circle."""
        [(px, py)] = self._pixels([(x, y)])
        size = r * self.r
        self.canvas.ellipse((px - size, py - size, px + size, py + size), fill=self.ink(ink))

    def line(self, ink: int | RGB, width: float, points: Sequence[Point]) -> None:
        """Draws a line through all points."""
        self.canvas.line(self._pixels(points), fill=self.ink(ink), width=max(1, round(width * self.r)), joint="curve")

    def inner(self, x: float, y: float, scale: float, *inks: int | RGB, angle: float = 0) -> Pen:
        """Returns a pen for a smaller emblem inside this one; without `inks` it has the same colors."""
        [(px, py)] = self._pixels([(x, y)])
        chosen = tuple(self.ink(ink) for ink in inks) or self.inks
        return Pen(self.canvas, px, py, self.r * scale, self.angle + angle, chosen)


SHIELD = mirrored([(0, -0.9), (0.75, -0.9), (0.75, 0.05), *arc(0, 0.05, 0.75, 0.95, 90, 180, 6)])
OVAL_SHIELD = arc(0, 0, 0.5, 1, 0, 360, 24)
EAGLE = mirrored(
    outline(
        "0,-.5 .12,-.5 .16,-.38 .3,-.3 .42,-.62 .6,-.86 .78,-.95 .74,-.7 .95,-.72 .86,-.48 1,-.42 .86,-.22 .95,-.1"
        " .78,.02 .8,.2 .6,.2 .55,.36 .4,.24 .28,.26 .2,.4 .38,.62 .3,.66 .34,.82 .2,.78 .14,.95 .05,.85 0,.98"
    )
)
LION = outline(
    "-.3,-.95 -.55,-.85 -.75,-.7 -.95,-.66 -.9,-.5 -.72,-.46 -.66,-.3 -.9,-.3 -1,-.44 -1,-.2 -.62,-.12 -.5,.1 -.7,.3 -.6,.6 -.78,.8"
    " -.42,.8 -.4,.6 -.4,.4 -.1,.24 .1,.34 .3,.5 .2,.8 .05,.95 .5,.95 .56,.6 .5,.3 .5,.05 .72,.05 .95,-.15 1,-.5"
    " .85,-.75 .65,-.7 .85,-.5 .8,-.2 .6,-.1 .3,-.2 .05,-.3 -.02,-.6 -.1,-.85"
)
DRAGON = outline(
    "-1,.6 -.75,.75 -.55,.7 -.4,.45 -.3,.2 -.1,.1 .05,.2 .2,.3 .38,.22 .42,.05 .3,-.15 .28,-.35 .4,-.52 .6,-.55"
)
DRAGON_HEAD = outline(".4,-.75 .55,-.72 .5,-.95 .7,-.75 .98,-.62 1,-.5 .8,-.5 .95,-.4 .7,-.36 .5,-.4 .38,-.55")
MAPLE = mirrored(
    outline(
        "0,-1 .19,-.62 .38,-.72 .28,-.2 .52,-.46 .58,-.33 .88,-.38 .78,-.1 .95,0 .5,.35 .55,.5 .06,.42 .06,.98"
    )
)
SWORD = outline("-.05,-1 .05,-1 .07,.5 .3,.5 .3,.6 .07,.6 .07,.9 .12,1 -.12,1 -.07,.9 -.07,.6 -.3,.6 -.3,.5 -.07,.5")
SABER = [*arc(0.1, -0.2, 0.95, 0.85, 200, 285, 10), *reversed(arc(0.1, -0.3, 0.85, 0.75, 200, 285, 10))]
RIFLE = outline("-.1,-1 0,-1 0,-.3 .08,-.3 .28,-.12 .2,-.04 .06,-.14 .1,.2 .24,.3 .14,.4 .1,.35 .22,.9 -.1,.98 -.1,.2")
CROWN = mirrored(outline("0,-.7 .18,-.25 .45,-.62 .55,-.2 .95,-.5 .75,.35 .75,.6 0,.6"))
CASTLE = mirrored(
    outline("0,-.75 .09,-.5 .2,-.2 .3,-.05 .36,-.32 .46,-.5 .56,-.32 .62,.05 .8,.05 .8,.25 .95,.25 .95,.45 1,.45 1,.6 0,.6")
)
LAND = outline(
    "-.95,.15 -.72,-.02 -.6,-.28 -.25,-.26 0,-.38 .25,-.33 .5,-.45 .98,-.65 .66,-.3 .42,-.15 .5,.05 .3,.15 .34,.36"
    " .1,.36 -.1,.55 -.35,.45 -.5,.52 -.62,.3 -.85,.36"
)
BIRD = outline(
    "1,-.45 .75,-.5 .62,-.62 .4,-.58 .25,-.4 0,-.3 -.3,-.75 -.75,-.95 -.6,-.65 -.85,-.62 -.62,-.4 -.8,-.28 -.5,-.12"
    " -.65,.15 -.98,.35 -.7,.4 -.8,.62 -.4,.42 -.1,.35 .25,.25 .5,-.05 .6,-.3 .75,-.4"
)


def _laurel(pen: Pen, ink: int | RGB, r: float = 0.85, reach: float = 150, size: float = 0.2) -> None:
    """Two branches that rise from the bottom to `reach` degrees on either side."""
    for side in (-1, 1):
        pen.line(ink, 0.06, [(side * x, y) for x, y in arc(0, 0, r, r, 180, 180 - reach, 10)])
        for i in range(1, 8):
            a = (180 - reach * i / 7) * pi / 180
            for shift, turn in ((-0.09, 25), (0.09, -25)):
                x, y = (r + shift) * sin(a), -(r + shift) * cos(a)
                tilt = 180 / pi * a - 90 + turn + 90
                pen.oval(ink, side * x, y, size * 0.38, size, side * (tilt + 90) if side > 0 else -(tilt + 90))


def _coat(pen: Pen) -> None:
    _laurel(pen, GREEN, 0.86, 140, 0.17)
    body = pen.inner(0, 0, 0.62)
    body.polygon(1, placed(SHIELD, 0, 0, 1.1))
    body.polygon(0, SHIELD)
    body.polygon(2, outline("-.75,-.05 .75,-.05 .75,.15 -.75,.15"))
    for x, y in ((-0.35, -0.5), (0.35, -0.5), (0, 0.5)):
        body.disc(1, x, y, 0.2)
    pen.polygon(3, placed(star(5, 0.382, 0), 0, -0.82, 0.18))


def _shield(pen: Pen) -> None:
    pen.polygon(0, OVAL_SHIELD)
    pen.polygon(1, mirrored(outline("0,-.85 .12,-.5 .05,0 .12,.5 0,.85")))
    for side in (-1, 1):
        pen.polygon(2, [(side * x, y) for x, y in arc(0.5, 0, 0.22, 0.5, 180, 360, 10)])


def _eagle(pen: Pen) -> None:
    pen.polygon(0, EAGLE)
    pen.disc(0, 0.03, -0.62, 0.17)
    pen.polygon(1, outline(".14,-.72 .38,-.58 .14,-.54"))
    pen.polygon(1, mirrored(outline("0,-.2 .16,-.2 .16,.1 0,.3")))


def _double_eagle(pen: Pen) -> None:
    pen.polygon(0, EAGLE)
    for side in (-1, 1):
        pen.polygon(0, [(side * x, y) for x, y in outline("0,-.35 .1,-.85 .25,-.98 .42,-.85 .58,-.74 .36,-.7 .2,-.45")])
    if len(pen.inks) > 1:
        pen.inner(0, 0.0, 0.28, 1).polygon(0, SHIELD)


def _bird(pen: Pen) -> None:
    pen.polygon(0, BIRD)
    pen.polygon(1, outline("0,-.3 -.3,-.75 -.75,-.95 -.6,-.65 -.4,-.4 -.2,-.1"))
    pen.disc(2, 0.55, -0.48, 0.06)


def _lion(pen: Pen) -> None:
    pen.polygon(0, LION)
    pen.disc(0, -0.42, -0.6, 0.3)
    pen.line(1, 0.09, outline("-.85,-.25 -.95,-.98"))


def _dragon(pen: Pen) -> None:
    for foot in ("-.35,.25 -.55,.05 -.75,.1", "-.15,.15 -.1,.45 -.25,.6", ".3,.25 .55,.4 .5,.65", ".35,0 .6,-.1 .85,.05"):
        pen.line(0, 0.12, outline(foot))
        pen.disc(0, *outline(foot)[-1], 0.13)
    pen.line(0, 0.24, DRAGON)
    for x, y in DRAGON[1:-1]:
        pen.polygon(0, [(x - 0.12, y - 0.05), (x - 0.06, y - 0.26), (x + 0.1, y - 0.05)])
    pen.polygon(0, DRAGON_HEAD)
    pen.disc(1, 0.66, -0.6, 0.05)


def _tree(pen: Pen) -> None:
    pen.polygon(1, outline("-.1,.2 .1,.2 .16,.95 -.16,.95"))
    pen.polygon(0, mirrored(outline("0,-1 .22,-.62 .12,-.62 .45,-.25 .28,-.25 .7,.12 .45,.12 .9,.5 .2,.55 0,.5")))


def _palm(pen: Pen) -> None:
    pen.polygon(1, outline("-.02,-.3 .1,-.3 .16,.4 .3,.98 .02,.98 .02,.4"))
    for turn in (-110, -65, -25, 20, 60, 105):
        frond = [(0.0, 0.0), *arc(0, -0.38, 0.2, 0.42, 200, 360, 6), *arc(0, -0.38, 0.06, 0.4, 360, 200, 6)]
        pen.polygon(0, placed(rotated(frond, turn), 0.03, -0.3, 0.85))


def _leaf(pen: Pen) -> None:
    pen.polygon(0, MAPLE)


def _wheel(pen: Pen) -> None:
    pen.line(0, 0.14, arc(0, 0, 0.92, 0.92, 0, 365, 40))
    for i in range(12):
        a = i * pi / 12
        pen.line(0, 0.06, [(-0.9 * sin(a), -0.9 * cos(a)), (0.9 * sin(a), 0.9 * cos(a))])
    pen.disc(0, 0, 0, 0.2)


def _crown(pen: Pen) -> None:
    pen.polygon(0, CROWN)
    for x, y in ((0, -0.75), (-0.47, -0.66), (0.47, -0.66), (-0.95, -0.55), (0.95, -0.55)):
        pen.disc(0, x, y, 0.1)
    pen.polygon(1, outline("-.72,.3 .72,.3 .72,.42 -.72,.42"))


def _sword(pen: Pen) -> None:
    pen.polygon(0, SWORD)
    pen.polygon(1, outline("-.07,.6 .07,.6 .12,1 -.12,1"))


def _weapon(pen: Pen) -> None:
    pen.polygon(0, rotated(RIFLE, 40))
    pen.polygon(1, rotated(outline("-.06,1 .06,1 .06,-.4 .3,-.45 .5,-.7 .1,-.95 -.06,-.9"), -40))


def _wreath(pen: Pen) -> None:
    _laurel(pen, 0)
    if len(pen.inks) > 1:
        pen.polygon(1, outline("-.2,.75 .2,.75 .3,1 0,.88 -.3,1"))


def _hat(pen: Pen) -> None:
    pen.polygon(0, mirrored(outline("0,-.7 .1,-.55 .3,0 .75,.45 .66,.6 0,.7")))
    pen.line(0, 0.12, arc(0, -0.75, 0.14, 0.14, 0, 365, 12))
    pen.line(1, 0.08, outline("-.36,.05 -.15,.15 .15,.15 .36,.05"))


def _script(pen: Pen) -> None:
    for x in (-0.9, -0.55, -0.35, -0.1, 0.15, 0.4, 0.7, 0.9):
        pen.line(0, 0.07, [(x, -0.4), (x + 0.04, 0.1)])
    for x, half, depth in ((-0.72, 0.22, 0.25), (-0.2, 0.2, 0.3), (0.28, 0.2, 0.22), (0.78, 0.18, 0.3)):
        pen.line(0, 0.08, arc(x, 0.05, half, depth, 80, 280, 10))
    for x in (-0.45, 0.05, 0.55):
        pen.line(0, 0.06, arc(x, -0.12, 0.12, 0.12, 0, 320, 8))
    pen.line(0, 0.05, outline("-.8,-.3 -.4,-.22 0,-.3 .5,-.2 .8,-.32"))
    for x, y in ((-0.6, 0.42), (-0.45, 0.42), (0.05, 0.4), (0.5, 0.4), (0.6, -0.42), (-0.2, -0.45)):
        pen.disc(0, x, y, 0.05)


def _map(pen: Pen) -> None:
    pen.polygon(0, LAND)


def _castle(pen: Pen) -> None:
    pen.polygon(0, CASTLE)
    for x in (-0.55, -0.18, 0.18, 0.55):
        pen.polygon(1, outline(f"{x - 0.06},.6 {x - 0.06},.32 {x},.22 {x + 0.06},.32 {x + 0.06},.6"))


def _book(pen: Pen) -> None:
    for side in (-1, 1):
        page = [(0, -0.4), *arc(0.5, -0.35, 0.5, 0.22, 270, 450, 6), (1, 0.5), *arc(0.5, 0.55, 0.5, 0.2, 90, -90, 6)]
        pen.polygon(0, [(side * x, y) for x, y in page])
        for y in (-0.25, -0.02, 0.2):
            pen.line(1, 0.05, [(side * 0.15, y), (side * 0.85, y)])
    pen.line(1, 0.06, outline("0,-.4 0,.55"))


def _ship(pen: Pen) -> None:
    pen.polygon(0, outline("-.95,.3 -.6,.35 .6,.35 .95,.2 .7,.85 -.7,.85"))
    pen.line(0, 0.08, outline("0,.4 0,-.95"))
    for x, top in ((-0.5, -0.5), (0.05, -0.85), (0.5, -0.45)):
        pen.polygon(1, [(x - 0.25, top), (x + 0.25, top), (x + 0.32, 0.2), (x - 0.12, 0.2)])


def _sun_face(pen: Pen) -> None:
    pen.polygon(0, star(16, 0.55, 0))
    pen.polygon(0, star(16, 0.5, 11.25))
    face = pen.ink(1) if len(pen.inks) > 1 else DARK
    pen.disc(face, 0, 0, 0.52)
    pen.disc(0, 0, 0, 0.46)
    for x in (-0.17, 0.17):
        pen.disc(face, x, -0.1, 0.07)
    pen.line(face, 0.06, outline("0,-.05 0,.12"))
    pen.line(face, 0.06, arc(0, 0.08, 0.2, 0.18, 240, 120, 6))


def _mountain(pen: Pen) -> None:
    pen.polygon(0, outline("-1,.6 -.5,-.2 -.3,.05 .1,-.75 .5,0 .62,-.15 1,.6"))
    pen.polygon(1, outline("-.08,-.4 .1,-.75 .28,-.4 .15,-.3 .08,-.42 0,-.28"))
    for y in (0.68, 0.86):
        pen.line(2, 0.08, [(i / 8 - 1, y + (0.05 if i % 2 else -0.05)) for i in range(17)])


def _spears(pen: Pen) -> None:
    for turn in (-25, 0, 25):
        pen.polygon(0, rotated(outline("-.035,-.65 .035,-.65 .035,1 -.035,1"), turn))
        pen.polygon(1, rotated(outline("0,-1 .08,-.8 0,-.6 -.08,-.8"), turn))


def _globe(pen: Pen) -> None:
    ink = pen.ink(1) if len(pen.inks) > 1 else pen.ink(0)
    if len(pen.inks) > 1:
        pen.disc(0, 0, 0, 0.95)
    for rx in (0.95, 0.5):
        pen.line(ink, 0.09, arc(0, 0, rx, 0.95, 0, 365, 32))
    pen.line(ink, 0.09, outline("0,-.95 0,.95"))
    for y, half in ((-0.5, 0.8), (0, 0.95), (0.5, 0.8)):
        pen.line(ink, 0.09, [(-half, y), (half, y)])


def _knot(pen: Pen) -> None:
    for turn in (0, 90):
        for side in (-1, 1):
            oval = [(x + side * 0.28, y) for x, y in arc(0, 0, 0.26, 0.92, 0, 365, 24)]
            pen.line(turn // 90, 0.1, rotated(oval, turn))


def _trident(pen: Pen) -> None:
    half = "0,-1 .16,-.68 .08,-.7 .08,0 .42,-.15 .48,-.5 .3,-.48 .72,-.92 .68,.05 .08,.3 .1,1"
    pen.polygon(0, mirrored(outline(half)))


def _gear(pen: Pen) -> None:
    teeth: list[Point] = []
    for i in range(12):
        a = i * 30
        teeth += [arc(0, 0, r, r, a + d, 0, 1)[0] for r, d in ((0.76, -8), (1, -6), (1, 6), (0.76, 8))]
    pen.line(0, 0.24, arc(0, 0, 0.7, 0.7, 0, 370, 36))
    for i in range(0, len(teeth), 4):
        pen.polygon(0, teeth[i : i + 4])
    if len(pen.inks) > 1:
        pen.polygon(1, placed(star(5, 0.382, 0), 0, 0, 0.5))


def _flower(pen: Pen) -> None:
    for i in range(5):
        x, y = arc(0, 0, 0.55, 0.55, i * 72, 0, 1)[0]
        pen.oval(0, x, y, 0.32, 0.42, i * 72)
    pen.disc(1, 0, 0, 0.22)


def _snake(pen: Pen) -> None:
    body = [(0.55 * sin(t / 4 * pi) * (1 - t / 40), 0.95 - t * 0.1) for t in range(18)]
    pen.line(0, 0.2, body)
    pen.oval(0, body[-1][0] + 0.08, body[-1][1], 0.2, 0.12, 20)
    pen.line(1, 0.05, [(body[-1][0] + 0.25, body[-1][1]), (body[-1][0] + 0.45, body[-1][1] - 0.06)])


def _triskelion(pen: Pen) -> None:
    leg = outline("-.13,.05 -.13,-.5 .1,-.62 .55,-.35 .5,-.22 .78,-.3 .74,-.5 .62,-.52 .1,-.85 -.3,-.66 -.3,.1")
    for turn in (0, 120, 240):
        pen.polygon(0, rotated(leg, turn))
    pen.disc(1, 0, 0, 0.16)


def _checkers(pen: Pen) -> None:
    pen.polygon(0, placed(SHIELD, 0, 0, 1.06))
    pen.polygon(1, SHIELD)
    for row in range(5):
        for column in range(row % 2, 5, 2):
            x, y = -0.75 + 0.3 * column, -0.9 + 0.35 * row
            right, low = x + 0.3, y + 0.35
            if row > 2:  # the shield narrows: its corners end where the outline does
                cut = (0.08, 0.32)[row - 3]
                x, right = max(x, -0.75 + cut), min(right, 0.75 - cut)
            if x < right:
                pen.polygon(0, [(x, y), (right, y), (right, low), (x, low)])


def _keys(pen: Pen) -> None:
    for turn, ink in ((-40, 0), (40, 1)):
        pen.polygon(ink, rotated(outline("-.07,-.5 -.07,.55 .07,.55 .07,-.5 .3,-.5 .3,-.9 -.07,-.9"), turn))
        pen.line(ink, 0.1, rotated(arc(0, 0.75, 0.2, 0.2, 0, 370, 16), turn))
    pen.polygon(1, mirrored(outline("0,-1.05 .14,-.95 .28,-.6 .24,-.4 0,-.4")))
    pen.polygon(0, mirrored(outline("0,-.78 .23,-.78 .26,-.66 0,-.66")))


def _taegeuk(pen: Pen) -> None:
    pen.polygon(0, arc(0, 0, 0.53, 0.53, 0, 360, 32))
    tilted = pen.inner(0, 0, 0.53, angle=33.7)
    tilted.polygon(1, arc(0, 0, 1, 1, 90, 270, 24))
    tilted.polygon(0, arc(-0.5, 0, 0.5, 0.5, 0, 360, 20))
    tilted.polygon(1, arc(0.5, 0, 0.5, 0.5, 0, 360, 20))
    # which of the three bars are broken, from the middle outward
    for turn, broken in ((-56.3, ()), (56.3, (0, 2)), (123.7, (0, 1, 2)), (-123.7, (1,))):
        for bar in range(3):
            y = 0.78 + 0.13 * bar
            for x0, x1 in ((-0.27, -0.03), (0.03, 0.27)) if bar in broken else ((-0.27, 0.27),):
                pen.polygon(2, rotated([(x0, -y), (x1, -y), (x1, -y - 0.09), (x0, -y - 0.09)], turn))


def _ornament(pen: Pen) -> None:
    for y in (-0.8, -0.4, 0.0, 0.4, 0.8):
        for ink, size in ((0, 1.0), (1, 0.6), (2, 0.3)):
            pen.polygon(ink, [(0, y - 0.2 * size), (0.13 * size, y), (0, y + 0.2 * size), (-0.13 * size, y)])


EMBLEMS: dict[str, Callable[[Pen], None]] = {
    "coat": _coat,
    "shield": _shield,
    "eagle": _eagle,
    "double-eagle": _double_eagle,
    "bird": _bird,
    "lion": _lion,
    "dragon": _dragon,
    "tree": _tree,
    "palm": _palm,
    "leaf": _leaf,
    "wheel": _wheel,
    "crown": _crown,
    "sword": _sword,
    "weapon": _weapon,
    "wreath": _wreath,
    "hat": _hat,
    "script": _script,
    "map": _map,
    "castle": _castle,
    "book": _book,
    "ship": _ship,
    "sun-face": _sun_face,
    "mountain": _mountain,
    "spears": _spears,
    "globe": _globe,
    "knot": _knot,
    "trident": _trident,
    "gear": _gear,
    "flower": _flower,
    "snake": _snake,
    "triskelion": _triskelion,
    "checkers": _checkers,
    "keys": _keys,
    "taegeuk": _taegeuk,
    "ornament": _ornament,
}
