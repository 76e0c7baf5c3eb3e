"""Emblems of arms, buildings, tools and signs: a few polygons, ellipses and lines inside a circle of radius 1."""

from __future__ import annotations

from math import cos, pi, sin

from pretraining.demo.colors import RGB
from pretraining.demo.nature import NATURE, SHIELD, laurel
from pretraining.demo.pen import Painter, Pen
from pretraining.demo.shapes import Point, arc, mirrored, outline, placed, rotated, star

GREEN: RGB = (40, 130, 60)
DARK: RGB = (60, 45, 35)
OVAL_SHIELD = arc(0, 0, 0.5, 1, 0, 360, 24)
SWORD = outline("-.05,-1 .05,-1 .07,.5 .3,.5 .3,.6 .07,.6 .07,.9 .12,1 -.12,1 -.07,.9 -.07,.6 -.3,.6 -.3,.5 -.07,.5")
RIFLE = outline("-.1,-1 0,-1 0,-.3 .08,-.3 .28,-.12 .2,-.04 .06,-.14 .1,.2 .24,.3 .14,.4 .1,.35 .22,.9 -.1,.98 -.1,.2")
CROWN = mirrored(outline("0,-.7 .18,-.25 .45,-.62 .55,-.2 .95,-.5 .75,.35 .75,.6 0,.6"))
CASTLE = mirrored(
    outline(
        "0,-.75 .09,-.5 .2,-.2 .3,-.05 .36,-.32 .46,-.5 .56,-.32 .62,.05 .8,.05 .8,.25 .95,.25 .95,.45 1,.45 1,.6 0,.6"
    )
)
LAND = outline(
    "-.95,.15 -.72,-.02 -.6,-.28 -.25,-.26 0,-.38 .25,-.33 .5,-.45 .98,-.65 .66,-.3 .42,-.15 .5,.05 .3,.15 .34,.36"
    " .1,.36 -.1,.55 -.35,.45 -.5,.52 -.62,.3 -.85,.36"
)


def _coat(pen: Pen) -> None:
    laurel(pen, GREEN, 0.86, 140, 0.17)
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
            if row > 2:  # the shield narrows: cut off the corners outside its outline
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


THINGS: dict[str, Painter] = {
    "coat": _coat,
    "shield": _shield,
    "wheel": _wheel,
    "crown": _crown,
    "sword": _sword,
    "weapon": _weapon,
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
    "triskelion": _triskelion,
    "checkers": _checkers,
    "keys": _keys,
    "taegeuk": _taegeuk,
    "ornament": _ornament,
}


EMBLEMS: dict[str, Painter] = NATURE | THINGS
