"""Charges of random flags (emblems, stars, discs, moons) and their colors."""

from __future__ import annotations

import random
from collections.abc import Mapping

from pretraining.demo.colors import COLORS

COLOR_WEIGHTS = {
    "red": 30, "white": 27, "blue": 14, "green": 16, "yellow": 13, "gold": 6, "black": 9, "darkblue": 6, "navy": 5,
    "lightblue": 5, "skyblue": 3, "darkgreen": 4, "orange": 4, "saffron": 1.5, "maroon": 2, "darkred": 2,
    "lightgreen": 2, "teal": 1.5, "lightyellow": 0.6, "purple": 0.6, "pink": 0.4, "brown": 0.6, "gray": 0.7,
}  # fmt: skip
FAMILIES = (
    ("red", "darkred", "maroon", "brown", "pink"),
    ("orange", "saffron", "gold", "yellow", "lightyellow"),
    ("green", "darkgreen", "lightgreen", "teal"),
    ("blue", "darkblue", "navy", "purple"),
    ("lightblue", "skyblue", "teal"),
    ("white", "lightyellow", "gray"),
)
EMBLEM_WEIGHTS = {
    "coat": 30, "shield": 6, "eagle": 8, "bird": 6, "lion": 4, "dragon": 2, "tree": 4, "palm": 3, "leaf": 4,
    "wheel": 3, "crown": 3, "sword": 3, "weapon": 3, "wreath": 4, "hat": 1.5, "script": 4, "map": 2.5, "castle": 3,
    "book": 1.5, "ship": 4, "sun-face": 3, "mountain": 2, "spears": 2.5, "globe": 2, "knot": 4, "trident": 2,
    "gear": 2.5, "flower": 3, "snake": 1.5, "triskelion": 1.5, "double-eagle": 3,
    "checkers": 2, "keys": 2, "taegeuk": 1.5, "ornament": 2,
}  # fmt: skip
LIGHT = ("white", "yellow", "gold", "white")


class Studio:
    """Draws numbers and colors for one flag: each color name has one shade, and neighbors contrast."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.shades: dict[str, str] = {}

    def chance(self, probability: float) -> bool:
        """Returns True with this probability."""
        return self.rng.random() < probability

    def draw(self, weights: Mapping[str, float] | Mapping[float, float]) -> str:
        """Returns a key, drawn by its weight."""
        return str(self.rng.choices(list(weights), list(weights.values()))[0])

    def real(self, low: float, high: float) -> str:
        """Returns a number between the two, as text."""
        return f"{self.rng.uniform(low, high):.3g}"

    def shade(self, name: str) -> str:
        """Returns the name with this flag's shade of the color, slightly off the usual one."""
        if name not in self.shades:
            spread = 4 if name in ("white", "black") else 13
            light = self.rng.gauss(1, 0.12)
            tint = [min(255, max(0, round(v * light + self.rng.gauss(0, spread)))) for v in COLORS[name]]
            self.shades[name] = name + "#" + "".join(f"{v:02x}" for v in tint) if self.chance(0.75) else name
        return self.shades[name]

    def color(self, *others: str) -> str:
        """Returns a color that contrasts with all `others`, or at least with the first if none contrasts with all."""
        near = {name for other in others for name in _family(other.partition("#")[0])}
        used = [name for name in self.shades if name not in near]
        if used and self.chance(0.35):
            return self.shades[self.rng.choice(used)]
        weights = {name: weight for name, weight in COLOR_WEIGHTS.items() if name not in near}
        return self.shade(self.draw(weights)) if weights else self.color(*others[:-1])

    def charge_color(self, *others: str) -> str:
        """Returns a color that contrasts with `others`, favoring white and yellow, as most real charges have."""
        near = {name for other in others for name in _family(other.partition("#")[0])}
        name = self.rng.choice(LIGHT)
        return self.shade(name) if name not in near and self.chance(0.55) else self.color(*others)

    def colors(self, n: int) -> list[str]:
        """Returns `n` colors, adjacent ones different."""
        found = [self.color()]
        while len(found) < n:
            far = [found[0]] if len(found) == 2 and self.chance(0.75) else []
            found.append(self.color(found[-1], *far))
        return found


def _family(name: str) -> set[str]:
    return {name}.union(*(family for family in FAMILIES if name in family))


def at(x: float, y: float) -> str:
    """Returns the option that places a layer at x, y."""
    return f"at={x:.3g},{y:.3g}"


def charge(s: Studio, x: float, y: float, r: float, *on: str) -> list[str]:
    """Returns the layers of a charge with a radius of about `r`, in a color that contrasts with those it is `on`."""
    place, c, size = at(x, y), s.charge_color(*on), f"r={r * s.rng.uniform(0.75, 1.2):.3g}"
    kind = s.draw({"emblem": 40, "star": 22, "disc": 8, "moon": 8, "sun": 7, "stars": 9, "seal": 6, "plus": 2,
                   "ring": 2, "diamond": 2})  # fmt: skip
    edge = f" edge={s.color(c, *on)}" if s.chance(0.12) else ""
    if kind == "star":
        points = s.draw({"5": 75, "6": 8, "7": 6, "8": 4, "4": 2, "12": 2, "9": 1, "14": 1})
        return [f"star {c} {place} {size} points={points}{edge}"]
    if kind == "disc":
        return [f"disc {c} {place} {size}{edge}"]
    if kind == "moon":
        star = f"star {c} {at(x + r * s.rng.uniform(0.2, 0.5), y)} r={r * s.rng.uniform(0.3, 0.5):.3g}"
        angle = s.draw({"90": 80, "45": 8, "0": 12})
        moon = f"crescent {c} {place} r={r:.3g} angle={angle} inner={s.real(0.72, 0.86)}"
        return [moon, star] if angle == "90" and s.chance(0.8) else [moon]
    if kind == "sun":
        return [f"sun {c} {place} {size} rays={s.draw({'8': 2, '12': 2, '16': 4, '24': 2, '32': 1})}"]
    if kind == "stars":
        return [star_group(s, x, y, r, c)]
    if kind == "seal":
        return [f"disc {c} {place} r={r:.3g}{edge}", emblem(s, x, y, r * s.rng.uniform(0.55, 0.85), c)]
    if kind == "diamond":
        return [f"diamond {c} box={x - r / 2:.3g},{y - r:.3g},{x + r / 2:.3g},{y + r:.3g}"]
    if kind == "emblem":
        return [emblem(s, x, y, r * s.rng.uniform(0.85, 1.25), *on)]
    return [f"{kind} {c} {place} {size}"]


def emblem(s: Studio, x: float, y: float, r: float, *on: str) -> str:
    """Returns an emblem in one to three colors."""
    kind = s.draw(EMBLEM_WEIGHTS)
    first = s.color(*on)
    many = s.rng.choice((2, 3, 3)) if kind == "coat" else s.rng.choice((1, 1, 1, 2, 3))
    words = [first, *(s.color(first) for _ in range(many - 1))]
    return f"emblem {kind} {' '.join(words)} {at(x, y)} r={r:.3g}"


def star_group(s: Studio, x: float, y: float, r: float, c: str) -> str:
    """Returns a group of stars, about 2 r wide."""
    layout = s.draw({"circle": 40, "arc": 20, "line": 20, "column": 8, "grid": 12})
    low, high = {"grid": (6, 30), "column": (2, 5)}.get(layout, (3, 15))
    n = s.rng.randint(low, high)
    small = min(0.09, 1.6 * r / n) if layout in ("line", "column") else min(0.1, 2.2 * r / n)
    points = s.draw({"5": 85, "6": 6, "7": 4, "8": 2})
    size = max(0.016, small if layout != "grid" else r / n**0.5 * 0.7)
    more = f" sweep={s.rng.choice([90, 120, 180])}" if layout == "arc" and s.chance(0.5) else ""
    if layout == "grid" and s.chance(0.5):
        more = f" rows={s.rng.choice([2, 3, 4, 5])} tall={r * s.rng.uniform(0.6, 1):.3g}"
    return f"stars {c} n={n} layout={layout} {at(x, y)} spread={r:.3g} r={size:.3g} points={points}{more}"
