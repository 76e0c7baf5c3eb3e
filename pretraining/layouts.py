"""Layouts of random flags: functions that return lines of the flag language."""

from __future__ import annotations

from collections.abc import Callable

from pretraining.charges import Studio, at, charge, emblem, star_group

FIELDS = {"navy": 4, "blue": 8, "darkblue": 6, "red": 8,
          "lightblue": 4, "white": 4, "green": 5, "yellow": 2, "black": 1}  # fmt: skip
POLYGONS = ("1,0/.25,.5/1,1", ".2,0/.8,0/.8,1", "0,1/.5,.2/1,1", "0,0/.3,.25/.3,.75/0,1", ".5,.1/.7,.9/.3,.9")


def _bands(s: Studio) -> list[str]:
    """Returns bands of equal or unequal width, often with something on the middle one."""
    way, n = s.draw({"h": 64, "v": 36}), int(s.draw({"2": 22, "3": 62, "4": 5, "5": 8, "6": 2, "7": 2}))
    colors = s.colors(n)
    if n in (3, 5, 7) and s.chance(0.3 if n == 3 else 0.7):
        colors = [*colors[: n // 2 + 1], *colors[: n // 2][::-1]]
    weights = [""] * n
    if s.chance(0.22):
        weights[n // 2 if s.chance(0.7) else 0] = s.rng.choice(["*2", "*2", "*3", "*1.5", "*.5", "*.7"])
    words = [c + w for c, w in zip(colors, weights, strict=True)]
    if n == 3 and s.chance(0.12):
        rim = s.color(*colors)
        words = [f"{colors[0]}*6", f"{rim}*.8", f"{colors[1]}*6", f"{rim}*.8", f"{colors[2]}*6"]
    layers = [f"bands {way} {' '.join(words)}"]
    if s.chance(0.5):
        x, y = 0.5, 0.5
        if way == "h":
            x = s.rng.choice([0.5, 0.5, 0.5, 0.32, 0.25])
            y = s.rng.choice([0.5, 0.5, 0.5, 0.5, 0.5 / n])
        elif s.chance(0.15):
            x = 0.5 / n
        on = colors[min(n - 1, int((y if way == "h" else x) * n))]
        layers += charge(s, x, y, s.rng.choice([0.3, 0.2, 0.16, 0.14]) if n < 4 else 0.18, on)
    return layers


def _alternating(s: Studio) -> list[str]:
    a, b = s.colors(2)
    n = s.rng.choice([5, 6, 7, 9, 9, 10, 11, 13, 13, 14])
    layers = [f"bands {s.draw({'h': 9, 'v': 1})} {' '.join([a, b][i % 2] for i in range(n))}"]
    if s.chance(0.75):
        layers += _canton(s, b, depth=s.rng.choice([0.385, 0.54, 0.556, 0.455]))
    return layers


def _canton(s: Studio, *on: str, depth: float = 0.5) -> list[str]:
    c, width = s.color(*on), s.rng.choice([0.3, 0.36, 0.4, 0.5])
    layers = [f"rect {c} box=0,0,{width},{depth}"]
    if s.chance(0.2):
        n = s.rng.randint(9, 50)
        layers.append(f"stars {s.color(c)} n={n} layout=grid {at(width / 2, depth / 2)} spread=.2 r=.02")
    elif s.chance(0.15):
        layers.append(f"plus {s.color(c)} {at(width / 2, depth / 2)} r={depth * 0.35:.3g} width=.1")
    elif s.chance(0.85):
        layers += charge(s, width / 2, depth / 2, depth * 0.36, c)
    return layers


def _hoist_triangle(s: Studio) -> list[str]:
    n = int(s.draw({"2": 25, "3": 60, "4": 6, "5": 9}))
    colors = s.colors(n)
    layers = [f"bands h {' '.join(colors)}"]
    c, depth = s.color(*colors), s.rng.uniform(0.28, 0.52)
    if s.chance(0.15):
        layers.append(f"triangle {s.color(c)} depth={s.rng.choice([1.0, depth + 0.15]):.3g}")
    layers.append(f"triangle {c} depth={depth:.3g}" + (f" edge={s.color(c, *colors)}" if s.chance(0.2) else ""))
    if s.chance(0.5):
        layers += charge(s, depth * 0.36, 0.5, 0.15, c)
    elif s.chance(0.2):
        layers += charge(s, 0.55, 0.5, 0.15, colors[n // 2])
    return layers


def _hoist_band(s: Studio) -> list[str]:
    colors = s.colors(s.rng.choice([1, 2, 2, 3, 3]))
    base = f"field {colors[0]}" if len(colors) == 1 else f"bands h {' '.join(colors)}"
    c, width = s.color(*colors), s.rng.choice([0.25, 0.33, 0.4, 0.3, 0.2])
    layers = [base]
    if s.chance(0.22):
        return [*layers, f"serrated {c} x={width} points={s.rng.choice([5, 7, 9])}"]
    layers.append(f"rect {c} box=0,0,{width},1")
    if s.chance(0.4):
        layers += charge(s, width / 2, s.rng.choice([0.5, 0.5, 0.2]), 0.15, c)
    elif s.chance(0.4):
        layers += charge(s, (1 + width) / 2, 0.5, 0.24, colors[len(colors) // 2])
    return layers


def _nordic(s: Studio) -> list[str]:
    field, c = s.colors(2)
    x, width = s.rng.choice([0.36, 0.36, 0.36, 0.33, 0.5]), s.rng.uniform(0.12, 0.26)
    edge = f" edge={s.color(c, field)} edgewidth={s.real(0.03, 0.07)}" if s.chance(0.5) else ""
    layers = [f"field {field}", f"cross {c} {at(x, 0.5)} width={width:.3g}{edge}"]
    if x == 0.5 and s.chance(0.5):
        layers += charge(s, 0.5, 0.5, 0.2, c)
    return layers


def _ensign(s: Studio) -> list[str]:
    field = s.shade(s.draw(FIELDS))
    layers = [f"field {field}", "union"]
    kind = s.draw({"coat": 45, "stars": 20, "cross": 20, "charge": 15})
    c = s.charge_color(field)
    if kind == "coat":
        layers.append(emblem(s, 0.75, 0.5, 0.26, field))
        if s.chance(0.6):
            layers[-1] = "emblem coat " + " ".join(layers[-1].split(" ")[2:])
    elif kind == "stars":
        layers.append(star_group(s, 0.75, 0.5, 0.28, c))
    elif kind == "cross":
        points = s.rng.choice([5, 7])
        fifth = "/.82,.55" if s.chance(0.4) else ""
        edge = f" edge={s.color(c, field)}" if s.chance(0.3) else ""
        layers.append(f"star {c} at=.75,.18/.62,.43/.88,.4/.75,.8{fifth} r=.06 points={points}{edge}")
        if s.chance(0.4):
            layers.append(f"star {c} at=.25,.75 r=.13 points={points}")
    else:
        layers += charge(s, 0.75, 0.5, 0.25, field)
    return layers


def _diagonal(s: Studio) -> list[str]:
    a, b = s.colors(2)
    way = s.draw({"up": 70, "down": 30})
    layers = [f"field {a}" if s.chance(0.3) else f"split {a} {b} dir={way}"]
    if s.chance(0.7):
        c = s.color(a, b)
        edge = f" edge={s.color(a, b, c)} edgewidth={s.real(0.02, 0.06)}" if s.chance(0.55) else ""
        layers.append(f"bend {c} dir={way} width={s.real(0.1, 0.32)}{edge}")
        if s.chance(0.4):
            layers += charge(s, 0.2, 0.25 if way == "up" else 0.78, 0.15, a)
    elif s.chance(0.7):
        layers += charge(s, 0.5, 0.5, 0.28, a, b)
    if s.chance(0.2):
        layers.append(star_group(s, 0.78, 0.72 if way == "up" else 0.25, 0.14, s.color(b)))
    return layers


def _saltire(s: Studio) -> list[str]:
    a, b = s.colors(2)
    layers = [f"field {a}"]
    if s.chance(0.5):
        side = s.color(a, b)
        layers += [f"poly {side} at=0,0/.5,.5/0,1", f"poly {side} at=1,0/.5,.5/1,1"]
    edge = f" edge={s.color(b, a)} edgewidth=.03" if s.chance(0.25) else ""
    layers.append(f"saltire {b} width={s.real(0.08, 0.22)}{edge}")
    if s.chance(0.35):
        c = s.color(b)
        layers += [f"disc {c} r={s.real(0.15, 0.26)}", *charge(s, 0.5, 0.5, 0.12, c)]
    return layers


def _plain(s: Studio) -> list[str]:
    """Returns a plain field with one or two charges."""
    field = s.color()
    x = s.rng.choice([0.5, 0.5, 0.5, 0.5, 0.42, 0.3])
    layers = [f"field {field}"]
    layers += charge(s, x, 0.5, s.rng.uniform(0.2, 0.36), field)
    if s.chance(0.15):
        layers += charge(s, s.rng.choice([0.17, 0.83]), s.rng.choice([0.2, 0.8]), 0.13, field)
    if s.chance(0.12):
        layers.append(f"border {s.color(field)} width={s.real(0.04, 0.13)}")
    return layers


def _disc(s: Studio) -> list[str]:
    colors = s.colors(s.rng.choice([1, 1, 2, 3]))
    base = f"field {colors[0]}" if len(colors) == 1 else f"bands {s.draw({'h': 3, 'v': 1})} {' '.join(colors)}"
    c, x = s.color(*colors), s.rng.choice([0.5, 0.5, 0.5, 0.44, 0.4])
    edge = f" edge={s.color(c)}" if s.chance(0.12) else ""
    layers = [base, f"disc {c} {at(x, 0.5)} r={s.real(0.2, 0.38)}{edge}"]
    return layers + (charge(s, x, 0.5, 0.16, c) if s.chance(0.45) else [])


def _corner(s: Studio) -> list[str]:
    """Returns a field, or two bands, with a canton or a charge in the upper hoist corner."""
    colors = s.colors(s.rng.choice([1, 1, 2]))
    layers = [f"field {colors[0]}" if len(colors) == 1 else f"bands h {' '.join(colors)}"]
    if s.chance(0.6):
        return layers + _canton(s, *colors)
    layers += charge(s, 0.2, 0.27, 0.18, colors[0])
    if s.chance(0.3):
        y = s.rng.choice([0.6, 0.7, 0.8])
        layers.append(f"rect {s.color(*colors)} box=0,{y},1,{y + 0.09:.3g}")
    return layers


def _stripes(s: Studio) -> list[str]:
    """Returns a field with narrow stripes across it, often with a charge."""
    field = s.color()
    c = s.color(field)
    if s.chance(0.5):
        y, h = s.rng.uniform(0.03, 0.14), s.rng.uniform(0.06, 0.2)
        layers = [f"field {field}", f"rect {c} box=0,{y:.3g},1,{y + h:.3g}"]
        layers.append(f"rect {c} box=0,{1 - y - h:.3g},1,{1 - y:.3g}")
    else:
        h = s.rng.uniform(0.05, 0.16)
        layers = [f"field {field}", f"rect {s.color(field, c)} box=0,{0.47 - h:.3g},1,{0.53 + h:.3g}"]
        layers.append(f"rect {c} box=0,{0.5 - h:.3g},1,{0.5 + h:.3g}")
    return layers + (charge(s, 0.5, 0.5, 0.2, field if len(layers) == 3 else c) if s.chance(0.5) else [])


def _quarters(s: Studio) -> list[str]:
    a, b, c, d = s.colors(4)
    if s.chance(0.4):
        d = a
    layers = [f"field {a}", f"rect {b} box=.5,0,1,.5", f"rect {c} box=0,.5,.5,1", f"rect {d} box=.5,.5,1,1"]
    if s.chance(0.4):
        layers.append(f"cross {s.color(a, b, c)} width={s.real(0.1, 0.25)}")
    return layers + (charge(s, 0.25, 0.25, 0.13, a) if s.chance(0.5) else [])


def _odd(s: Studio) -> list[str]:
    """Returns one of the rarer layouts: rays, palls, diamonds, waves, frames, panels."""
    a, b, c = s.colors(3)
    kind = s.rng.choice(["wedge", "pall", "diamond", "waves", "border", "panel", "panels", "poly", "side", "sunrise"])
    if kind == "wedge":
        return [f"wedge {' '.join(s.colors(s.rng.choice([3, 4, 5, 5, 6])))}"]
    if kind == "pall":
        edge = f" edge={s.color(c)} edgewidth=.04" if s.chance(0.7) else ""
        layers = [f"bands h {a} {b}", f"triangle {s.color(a, b, c)} depth=.36"]
        layers.append(f"pall {c} width={s.real(0.12, 0.24)}{edge}")
        return layers + (charge(s, 0.13, 0.5, 0.12, c) if s.chance(0.35) else [])
    if kind == "diamond":
        return [f"field {a}", f"diamond {b} box=.06,.08,.94,.92", *charge(s, 0.5, 0.5, 0.24, b)]
    if kind == "waves":
        top = s.rng.choice([0.5, 0.55, 0.6])
        field = [f"field {a}"] if s.chance(0.4) else [f"bands h {a} {b}"]
        return [*field, f"waves {s.color(b, a)} box=0,{top},1,1 n={s.rng.choice([2, 3, 3, 4, 6])}",
                *charge(s, 0.5, 0.25, 0.2, a)]  # fmt: skip
    if kind == "border":
        return [f"field {a}", f"border {b} width={s.real(0.05, 0.14)}", *charge(s, 0.5, 0.5, 0.25, a)]
    if kind == "panel":
        return [f"field {a}", f"rect {b} box=.2,.18,.8,.82", *charge(s, 0.5, 0.5, 0.22, b)]
    if kind == "panels":
        layers = [f"field {a}", f"rect {b} box=.05,.09,.19,.91", f"rect {c} box=.19,.09,.33,.91"]
        panel = s.color(a)
        return [*layers, f"rect {panel} box=.38,.09,.95,.91", *charge(s, 0.67, 0.5, 0.26, panel)]
    if kind == "poly":
        shape = s.rng.choice(POLYGONS)
        return [f"field {a}", f"poly {b} at={shape}", *(charge(s, 0.75, 0.5, 0.15, a) if s.chance(0.5) else [])]
    if kind == "side":
        width = s.rng.choice([0.2, 0.25])
        sides = [f"rect {b} box=0,0,{width},1", f"rect {b} box={1 - width},0,1,1"]
        return [f"field {a}", *sides, *charge(s, 0.5, 0.5, 0.3, a)]
    return [f"bands h {a} {b}", f"sun {c} at=.5,.48 r=.22 rays={s.rng.choice([12, 17, 24])}", f"rect {b} box=0,.5,1,1"]


LAYOUTS: dict[Callable[[Studio], list[str]], float] = {
    _bands: 34, _alternating: 4, _hoist_triangle: 10, _hoist_band: 7, _nordic: 7, _ensign: 10, _diagonal: 7,
    _saltire: 3, _plain: 12, _disc: 5, _corner: 6, _stripes: 4, _quarters: 2, _odd: 9,
}  # fmt: skip
