"""Emblems of animals and plants: a few polygons, ellipses and lines inside a circle of radius 1."""

from __future__ import annotations

from math import cos, pi, sin

from pretraining.demo.colors import RGB
from pretraining.demo.pen import Painter, Pen
from pretraining.demo.shapes import arc, mirrored, outline, placed, rotated

SHIELD = mirrored([(0, -0.9), (0.75, -0.9), (0.75, 0.05), *arc(0, 0.05, 0.75, 0.95, 90, 180, 6)])
EAGLE = mirrored(
    outline(
        "0,-.5 .12,-.5 .16,-.38 .3,-.3 .42,-.62 .6,-.86 .78,-.95 .74,-.7 .95,-.72 .86,-.48 1,-.42 .86,-.22 .95,-.1"
        " .78,.02 .8,.2 .6,.2 .55,.36 .4,.24 .28,.26 .2,.4 .38,.62 .3,.66 .34,.82 .2,.78 .14,.95 .05,.85 0,.98"
    )
)
LION = outline(
    "-.3,-.95 -.55,-.85 -.75,-.7 -.95,-.66 -.9,-.5 -.72,-.46 -.66,-.3 -.9,-.3 -1,-.44 -1,-.2 -.62,-.12 -.5,.1"
    " -.7,.3 -.6,.6 -.78,.8 -.42,.8 -.4,.6 -.4,.4 -.1,.24 .1,.34 .3,.5 .2,.8 .05,.95 .5,.95 .56,.6 .5,.3 .5,.05"
    " .72,.05 .95,-.15 1,-.5 .85,-.75 .65,-.7 .85,-.5 .8,-.2 .6,-.1 .3,-.2 .05,-.3 -.02,-.6 -.1,-.85"
)
DRAGON = outline(
    "-1,.6 -.75,.75 -.55,.7 -.4,.45 -.3,.2 -.1,.1 .05,.2 .2,.3 .38,.22 .42,.05 .3,-.15 .28,-.35 .4,-.52 .6,-.55"
)
DRAGON_HEAD = outline(".4,-.75 .55,-.72 .5,-.95 .7,-.75 .98,-.62 1,-.5 .8,-.5 .95,-.4 .7,-.36 .5,-.4 .38,-.55")
MAPLE = mirrored(
    outline("0,-1 .19,-.62 .38,-.72 .28,-.2 .52,-.46 .58,-.33 .88,-.38 .78,-.1 .95,0 .5,.35 .55,.5 .06,.42 .06,.98")
)
BIRD = outline(
    "1,-.45 .75,-.5 .62,-.62 .4,-.58 .25,-.4 0,-.3 -.3,-.75 -.75,-.95 -.6,-.65 -.85,-.62 -.62,-.4 -.8,-.28 -.5,-.12"
    " -.65,.15 -.98,.35 -.7,.4 -.8,.62 -.4,.42 -.1,.35 .25,.25 .5,-.05 .6,-.3 .75,-.4"
)


def laurel(pen: Pen, ink: int | RGB, r: float = 0.85, reach: float = 150, size: float = 0.2) -> None:
    """Paints two branches that rise from the bottom to `reach` degrees on either side."""
    for side in (-1, 1):
        pen.line(ink, 0.06, [(side * x, y) for x, y in arc(0, 0, r, r, 180, 180 - reach, 10)])
        for i in range(1, 8):
            a = (180 - reach * i / 7) * pi / 180
            for shift, turn in ((-0.09, 25), (0.09, -25)):
                x, y = (r + shift) * sin(a), -(r + shift) * cos(a)
                tilt = 180 / pi * a - 90 + turn + 90
                pen.oval(ink, side * x, y, size * 0.38, size, side * (tilt + 90) if side > 0 else -(tilt + 90))


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
    for foot in (
        "-.35,.25 -.55,.05 -.75,.1",
        "-.15,.15 -.1,.45 -.25,.6",
        ".3,.25 .55,.4 .5,.65",
        ".35,0 .6,-.1 .85,.05",
    ):
        pen.line(0, 0.12, outline(foot))
        pen.disc(0, *outline(foot)[-1], 0.13)
    pen.line(0, 0.24, DRAGON)
    for x, y in DRAGON[1:-1]:
        pen.polygon(0, [(x - 0.12, y - 0.05), (x - 0.06, y - 0.26), (x + 0.1, y - 0.05)])
    pen.polygon(0, DRAGON_HEAD)
    pen.disc(1, 0.66, -0.6, 0.05)


def _snake(pen: Pen) -> None:
    body = [(0.55 * sin(t / 4 * pi) * (1 - t / 40), 0.95 - t * 0.1) for t in range(18)]
    pen.line(0, 0.2, body)
    pen.oval(0, body[-1][0] + 0.08, body[-1][1], 0.2, 0.12, 20)
    pen.line(1, 0.05, [(body[-1][0] + 0.25, body[-1][1]), (body[-1][0] + 0.45, body[-1][1] - 0.06)])


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


def _flower(pen: Pen) -> None:
    for i in range(5):
        x, y = arc(0, 0, 0.55, 0.55, i * 72, 0, 1)[0]
        pen.oval(0, x, y, 0.32, 0.42, i * 72)
    pen.disc(1, 0, 0, 0.22)


def _wreath(pen: Pen) -> None:
    laurel(pen, 0)
    if len(pen.inks) > 1:
        pen.polygon(1, outline("-.2,.75 .2,.75 .3,1 0,.88 -.3,1"))


NATURE: dict[str, Painter] = {
    "eagle": _eagle,
    "double-eagle": _double_eagle,
    "bird": _bird,
    "lion": _lion,
    "dragon": _dragon,
    "tree": _tree,
    "palm": _palm,
    "leaf": _leaf,
    "wreath": _wreath,
    "flower": _flower,
    "snake": _snake,
}
