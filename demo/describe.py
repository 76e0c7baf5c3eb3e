"""Flags in plain English: one fixed caption each, or any of very many wordings (demo/wording.toml)."""

from __future__ import annotations

import functools
import random
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.flags import Flag, Layer
from demo.scene import Band, Region, bands_of, fold, locate, quarters, size_of

Wordings = dict[str, dict[str, list[str]]]
Tree = tuple[Any, ...]  # ("text", str) | ("name", str) | ("either", trees) in a row

FACTORS = ((1.5, "wider"), (2.0, "double"), (3.0, "triple"), (4.0, "quadruple"), (0.5, "half"))
STAR_LAYOUTS = ("circle", "arc", "line", "column", "grid")


@functools.cache
def _wordings() -> Wordings:
    return tomllib.loads(Path(__file__).with_name("wording.toml").read_text(encoding="utf-8"))


@functools.cache
def _tree(text: str) -> Tree:
    """The parsed form of a wording with `[a|b]` choices and `{name}` references."""
    rows: list[list[list[Any]]] = [[[]]]
    start = 0
    for at, sign in enumerate(text):
        if sign not in "[|]{}" or (sign == "|" and len(rows) == 1):
            continue
        if at > start:
            rows[-1][-1].append(("name" if sign == "}" else "text", text[start:at]))
        start = at + 1
        if sign == "[":
            rows.append([[]])
        elif sign == "|":
            rows[-1].append([])
        elif sign == "]":
            choices = rows.pop()
            rows[-1][-1].append(("either", [tuple(choice) for choice in choices]))
    if start < len(text):
        rows[-1][-1].append(("text", text[start:]))
    return tuple(rows[0][0])


class _Writer:
    """Chooses wordings: always the first one, or with `rng` any, the earlier ones more often."""

    def __init__(self, rng: random.Random | None) -> None:
        self.rng = rng
        self.words = _wordings()
        self.colors: dict[str, str] = {}

    def chance(self, probability: float) -> bool:
        return self.rng is not None and self.rng.random() < probability

    def pick(self, options: Sequence[Any]) -> Any:
        return options[0] if self.rng is None else options[int(len(options) * self.rng.random() ** 1.3)]

    def say(self, section: str, key: str, **values: str) -> str:
        return self.expand(_tree(self.pick(self.words[section][key])), values)

    def expand(self, tree: Tree, values: dict[str, str]) -> str:
        parts = []
        for kind, value in tree:
            if kind == "text":
                parts.append(value)
            elif kind == "either":
                parts.append(self.expand(self.pick(value), values))
            elif value in values:
                parts.append(values[value])
            else:
                parts.append(self.expand(_tree(self.pick(self.words["word"][value])), values))
        return "".join(parts)

    def color(self, word: str) -> str:
        name = word.split("*")[0].split("#")[0]
        if name not in self.colors or self.chance(0.12):
            options = self.words["color"].get(name, [name])
            self.colors[name] = options[0] if self.chance(0.5) else self.pick(options)
        return self.colors[name]

    def colors_of(self, words: Sequence[str]) -> str:
        names = list(dict.fromkeys(self.color(word) for word in words))
        if len(names) > 2 or self.chance(0.5):
            return "-and-".join(names[:2])
        return " and ".join(names)

    def number(self, n: int) -> str:
        return str(self.pick(self.words["number"].get(str(n), [str(n)])))

    def points(self, n: int) -> str:
        """`five-pointed `, or nothing."""
        word = self.number(n) if n < 14 else str(n)
        return self.say("word", "points", n="two" if word == "a pair of" else word)


@dataclass(frozen=True)
class _Part:
    """A noun phrase with its article, and the region that it is in."""

    noun: str
    region: Region
    plural: bool = False


def _join(items: Sequence[str], oxford: bool = True) -> str:
    if len(items) < 3:
        return " and ".join(items)
    return ", ".join(items[:-1]) + (", and " if oxford else " and ") + items[-1]


def _article(noun: str) -> str:
    noun = noun.strip()
    vowel = noun[:1].lower() in "aeio" or noun.startswith(("11-", "8-", "18-", "um", "up", "un ", "under", "ul"))
    return ("an " if vowel and not noun.startswith(("one", "Eu")) else "a ") + noun


def describe(flag: Flag, rng: random.Random | None = None) -> str:
    """Returns the flag in plain English: the fixed caption or, with `rng`, one of very many wordings.

    Drawn wordings may leave parts out and may end with a clause on what the colors stand for.

    Raises:
        ValueError: demo/wording.toml has no words for an emblem of the flag.

    Example:
        >>> from demo.flags import parse
        >>> describe(parse("2:3; bands v green white red"))
        'three equal vertical bands of green (left side), white, and red'
    """
    writer = _Writer(rng)
    layers = fold(flag.layers)
    color, base, rest = _base(writer, layers)
    bands = bands_of(layers)
    parts = [_part(writer, layers, index, flag.ratio, bands) for index in rest]
    if len(parts) > 1:
        parts = [part for part in parts if not writer.chance(0.06)] or parts
    parts = _merged(writer, parts)
    if rng is not None and writer.chance(0.15):
        rng.shuffle(parts)
    text = _assemble(writer, color, base, parts)
    opening, closing = writer.say("word", "opening"), _closing(writer, layers)
    text = f"{opening}{text}{closing}"
    if writer.chance(0.1):
        text = text[0].upper() + text[1:] + "."
    return text


def _base(writer: _Writer, layers: Sequence[Layer]) -> tuple[str, str, list[int]]:
    """The color of a plain field or "", the words for what lies at the bottom, and the layers still to be told."""
    first, rest = layers[0], list(range(1, len(layers)))
    four = quarters(layers)
    if four:
        a, b, c, d = (writer.color(word) for word in four[0])
        return "", writer.say("base", "quarters", a=a, b=b, c=c, d=d), rest[four[1] :]
    if first.operation == "field":
        color = writer.color(first.words[0])
        return color, writer.say("base", "field", color=color), rest
    if first.operation == "bands":
        return "", _bands(writer, first), rest
    if first.operation == "split":
        line = writer.say("place", first.options.get("dir", "up"))
        if not line.startswith("from"):
            line = writer.words["place"][first.options.get("dir", "up")][0]
        a, b = (writer.color(word) for word in first.words[:2])
        return "", writer.say("base", "split", line=line, a=a, b=b), rest
    if first.operation == "wedge":
        colors = _join([writer.color(word) for word in first.words], not writer.chance(0.3))
        return "", writer.say("base", "wedge", count=writer.number(len(first.words)), colors=colors), rest
    return "", "", [0, *rest]


def _bands(writer: _Writer, layer: Layer) -> str:
    horizontal = layer.words[0] == "h"
    bands, edges = bands_of([layer])[1], []
    slim: list[Band] = []
    for i, band in enumerate(bands):  # a thin band between two broad ones is their edge
        inner = 0 < i < len(bands) - 1
        if inner and i + 2 < len(bands) - 1 and bands[i + 2].color == band.color and _is_edge(bands, i):
            continue
        if inner and i >= 3 and bands[i - 2].color == band.color and _is_edge(bands, i - 2):
            edges.append((bands[i - 1].color, band.color))
            continue
        slim.append(band)
    way = writer.say("word", "horizontal" if horizontal else "vertical")
    weights = [band.end - band.start for band in slim]
    equal = max(weights) < 1.1 * min(weights)
    names, n = [writer.color(band.color) for band in slim], len(slim)
    count, words = writer.number(n), writer.say("word", "bands")
    if n >= 5 and equal and len(set(names)) == 2 and all(names[i] == names[i % 2] for i in range(n)):
        ends = ("(top and bottom)" if horizontal else "(on both sides)") if n % 2 else ""
        text = writer.say("base", "alternating", count=count, way=way, bands=words, a=names[0], b=names[1], ends=ends)
        text = text.replace("  ", " ")
    else:
        colors = _listing(writer, names, weights, horizontal)
        even = writer.say("word", "equal" if equal else "unequal") if equal or n > 4 else ""
        text = writer.say("base", "bands", count=count, equal=even, way=way, bands=words, colors=colors)
    for color, edge in dict.fromkeys(edges):
        text += "; " + writer.say("base", "edged", color=writer.color(color), edge=writer.color(edge))
    return text


def _is_edge(bands: Sequence[Band], i: int) -> bool:
    thin, inner = bands[i].end - bands[i].start, bands[i + 1].end - bands[i + 1].start
    last = bands[i + 2].end - bands[i + 2].start
    return thin < 0.45 * inner and last < 0.45 * inner and bands[i - 1].color != bands[i + 1].color


def _listing(writer: _Writer, names: Sequence[str], weights: Sequence[float], horizontal: bool) -> str:
    usual = min(Counter(round(w, 3) for w in weights).items(), key=lambda item: (-item[1], item[0]))[0]
    style = writer.pick(["first", "first", "first", "none", "ends", "order", "reverse"])
    low, high = ("(top)", "(bottom)") if horizontal else (f"({writer.say('word', 'left')})", "(right side)")
    items = []
    for i, (name, weight) in enumerate(zip(names, weights, strict=True)):
        if weight > 1.2 * usual or weight < 0.8 * usual:
            near = min(FACTORS, key=lambda item: abs(item[0] - weight / usual))
            key = near[1] if abs(near[0] - weight / usual) < 0.3 else ("wider" if weight > usual else "narrower")
            name += writer.say("word", key)
        if i in {"first": (0,), "ends": (0, len(names) - 1)}.get(style, ()):
            name = f"{name} {low if i == 0 else high}".replace(") (", ", ")
        items.append(name)
    text = _join(items, not writer.chance(0.25))
    if style == "order":
        text += " from top to bottom" if horizontal else " from left to right"
    elif style == "reverse" and len(items) == 3 and writer.chance(0.5):
        first, second, third = items
        ends = ("on top", "at the bottom") if horizontal else ("on the left", "on the right")
        text = f"{first} {ends[0]}, {second} in the middle, and {third} {ends[1]}"
    return text


def _part(
    writer: _Writer, layers: Sequence[Layer], index: int, ratio: float, bands: tuple[bool, list[Band]]
) -> _Part:
    layer = layers[index]
    region = locate(layers, index, ratio, bands)
    count = int(layer.options.get("count", "1")) if layer.operation != "star" else len(layer.places())
    if layer.operation == "union":
        return _Part(writer.say("part", "union"), region)
    if layer.operation == "emblem":
        colors = writer.colors_of(layer.words[1:]) + " " if len(layer.words) > 1 and not writer.chance(0.25) else ""
        if layer.words[0] not in writer.words["emblem"]:
            raise ValueError(f"emblem {layer.words[0]!r}: give it words in [emblem] of demo/wording.toml")
        noun = writer.say("emblem", layer.words[0], color=colors).replace("  ", " ")
        plural = noun.startswith(("crossed", "two ", "three ")) or noun.split(" ")[-1] in ("spears", "branches")
        size = writer.say("word", f"size-{size_of(layer, ratio)}") if size_of(layer, ratio) == "big" else ""
        bare = plural or noun.endswith(("script", "text", "writing", "words", "letters", "initials", "calligraphy"))
        return _Part(size + noun if bare else _article(size + noun), region, plural)
    plural = count > 1 or layer.operation == "stars"
    noun = _noun(writer, layer, region, ratio, count, plural)
    if layer.operation == "stars":
        stars = f"{writer.number(int(layer.number('n', 5)))} {noun}"
        return _Part(_grouped(writer, stars, layer.options.get("layout", "circle")), region, True)
    if layer.operation == "star" and count > 1:
        return _Part(_grouped(writer, f"{writer.number(count)} {noun}", region.layout), region, True)
    if layer.operation == "waves":
        return _Part(noun, region, True)
    return _Part(f"{writer.number(count)} {noun}" if plural else _article(noun), region, plural)


def _grouped(writer: _Writer, stars: str, layout: str) -> str:
    stars = writer.say("part", layout, stars=stars)
    return stars.replace(" a pair of ", " two ").replace("of a pair of", "of two")


def _noun(writer: _Writer, layer: Layer, region: Region, ratio: float, count: int, plural: bool) -> str:
    options, operation = layer.options, layer.operation
    size = size_of(layer, ratio)
    edge = writer.color(options["edge"]) if "edge" in options else ""
    counted = {"star": "points", "stars": "points", "sun": "rays", "serrated": "points", "waves": "n"}.get(operation)
    n = int(layer.number(counted, {"sun": 16, "waves": 3}.get(operation, 5))) if counted else 0
    points = "" if not counted or operation == "waves" else writer.points(n)
    if operation == "sun":
        points = f"{n} " if not writer.chance(0.5) else ""
    angle = layer.number("angle", 90.0) % 180
    after = writer.say("word", "edge", color=edge) if edge else ""
    values = {
        "size": writer.say("word", f"size-{size}") if size else "",
        "color": writer.colors_of(layer.words[: 2 if operation != "rect" else 1]),
        "points": points,
        "edge": after,
        "edged": writer.say("word", "edged", color=edge) if edge else "",
        "vertical": writer.say("word", "moon" if angle > 45 else "moon-up") if operation == "crescent" else "",
        "s": "s" if plural else "",
        "es": "es" if plural else "",
        "n": writer.number(n),
    }
    if operation == "waves":
        values["s"] = "s"
    text = writer.say("noun", region.shape or operation, **values)
    return text.replace("rhombuss", "rhombuses").replace("diamondes", "diamonds").strip()


def _merged(writer: _Writer, parts: Sequence[_Part]) -> list[_Part]:
    """Parts at the same place told together: a crescent and a star."""
    merged: list[_Part] = []
    for part in parts:
        if merged and merged[-1].region.beside(part.region) and not writer.chance(0.2):
            last = merged.pop()
            noun = writer.say("part", "pair", a=last.noun, b=part.noun)
            merged.append(_Part(noun, last.region, True))
        else:
            merged.append(part)
    return merged


def _where(writer: _Writer, region: Region) -> str:
    holder = region.holder
    if region.color and (holder == "band" or not writer.chance(0.35)):
        holder = f"{writer.color(region.color)} {holder}"
    return writer.say("place", region.place, holder=f"{region.which}{holder}".strip())


def _assemble(writer: _Writer, color: str, base: str, parts: Sequence[_Part]) -> str:
    told = [(part, _where(writer, part.region)) for part in parts]
    plain = [f"{part.noun} {where}" for part, where in told]
    if not plain:
        return base if not color else writer.pick([f"plain {color}", color, f"solid {color}", f"a plain {color} field"])
    if not base:
        return _join(plain)
    style = writer.pick(["with", "with", "sentences", "on", "with", "sentences"])
    if style == "on" and color:
        on = writer.say("base", "on", color=color)
        first = writer.pick([f"{told[0][0].noun} {on}", f"{plain[0]} {on}", f"{on}, {plain[0]}", f"{plain[0]} {on}"])
        return "; ".join([first, *(_sentence(writer, *item) for item in told[1:])])
    if style == "sentences" and not color:
        return "; ".join([base, *(_sentence(writer, *item) for item in told)])
    link = writer.pick([" with ", ", with ", " with ", " and ", " bearing "]) if color else ", with "
    if not color:
        link = writer.pick([link, " with ", "; with ", ", and "])
    if len(plain) == 2 and not writer.chance(0.4):
        return f"{base}{link}{plain[0]} and {plain[1]}"
    return "; ".join([base + link + plain[0], *(_sentence(writer, *item) for item in told[1:])])


def _sentence(writer: _Writer, part: _Part, where: str) -> str:
    verbs = {"is": "are" if part.plural else "is", "sits": writer.say("word", "sit" if part.plural else "sits")}
    if where.startswith(("that ", "(")):
        return f"it has {part.noun} {where}"
    return writer.say("part", "sentence", noun=part.noun, where=where, **verbs)


def _closing(writer: _Writer, layers: Sequence[Layer]) -> str:
    if writer.rng is None:
        return ""
    names = [w for layer in layers for w in layer.words if w.split("*")[0].split("#")[0] in writer.words["color"]]
    names = list(dict.fromkeys(writer.color(name) for name in names))
    verbs = ["stands for", "represents", "symbolizes", "is for"]
    stands = _join([f"{name} {writer.rng.choice(verbs)} {writer.say('word', 'virtue')}" for name in names])
    return writer.say("word", "closing", stands=stands)


