"""Generates random flags: an endless supply of plausible ones, and near twins of given ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from pretraining.charges import EMBLEM_WEIGHTS, Studio, charge
from pretraining.demo.colors import COLORS
from pretraining.demo.flags import Flag, Layer, parse
from pretraining.layouts import LAYOUTS

RATIOS = {1.5: 46, 2.0: 24, 5 / 3: 16, 1.9: 4, 1.75: 4, 1.6: 4, 1.4: 4, 1.25: 2, 4 / 3: 3, 1.0: 2}


def format_flag(flag: Flag) -> str:
    """Returns the line that `parse` reads back into the same flag."""
    parts = [f"1:{flag.ratio:g}"]
    for layer in flag.layers:
        parts.append(" ".join([layer.operation, *layer.words, *(f"{k}={v}" for k, v in layer.options.items())]))
    return "; ".join(parts)


def random_flag(rng: random.Random) -> Flag:
    """Returns a random flag: common layouts more often, every part of the flag language sometimes."""
    studio = Studio(rng)
    ratio = studio.draw(RATIOS)
    layout = rng.choices(list(LAYOUTS), list(LAYOUTS.values()))[0]
    return parse("; ".join([f"1:{float(ratio):g}", *layout(studio)]))


def similar_flag(flag: Flag, rng: random.Random) -> Flag:
    """Returns a near twin of `flag` that differs in one respect, such as a color, a position or a count."""
    while True:
        edit = rng.choice(EDITS)
        twin = replace(flag, layers=tuple(edit(list(flag.layers), rng)))
        if format_flag(twin) != format_flag(flag) and twin.layers:
            return twin


def _is_color(word: str) -> bool:
    return word.split("*")[0].split("#")[0] in COLORS


def _names(layers: Sequence[Layer]) -> list[str]:
    words = [w for layer in layers for w in (*layer.words, layer.options.get("edge", "")) if _is_color(w)]
    return list(dict.fromkeys(word.split("*")[0] for word in words))


def _repainted(layers: Sequence[Layer], paint: dict[str, str]) -> list[Layer]:
    def swap(word: str) -> str:
        name, star, weight = word.partition("*")
        return paint.get(name, name) + star + weight

    return [
        Layer(
            layer.operation,
            tuple(swap(word) for word in layer.words),
            {key: swap(value) if key == "edge" else value for key, value in layer.options.items()},
        )
        for layer in layers
    ]


def _swap_colors(layers: list[Layer], rng: random.Random) -> list[Layer]:
    names = _names(layers)
    if len(names) < 2:
        return layers
    a, b = rng.sample(names, 2)
    return _repainted(layers, {a: b, b: a})


def _change_color(layers: list[Layer], rng: random.Random) -> list[Layer]:
    names = _names(layers)
    if not names:
        return layers
    old = rng.choice(names)
    return _repainted(layers, {old: Studio(rng).color(*names)} if len(names) < 4 else {old: Studio(rng).color(old)})


def _equal(a: str, b: str) -> bool:
    if "/" in a + b or not a or not b:
        return a == b
    return [float(v) for v in a.split(",")] == [float(v) for v in b.split(",")]


def _change(operations: dict[str, str], key: str, options: Sequence[str]) -> Callable[..., list[Layer]]:
    """Returns an edit that sets option `key` of one of `operations` (each with its default) to another value."""

    def edit(layers: list[Layer], rng: random.Random) -> list[Layer]:
        places = [i for i, layer in enumerate(layers) if layer.operation in operations]
        if not places:
            return layers
        i = rng.choice(places)
        old = layers[i].options.get(key, operations[layers[i].operation])
        value = rng.choice([option for option in options if not _equal(option, old)])
        return [*layers[:i], replace(layers[i], options={**layers[i].options, key: value}), *layers[i + 1 :]]

    return edit


def _turn(layers: list[Layer], rng: random.Random) -> list[Layer]:
    first = layers[0]
    if first.operation == "bands":
        way = "v" if first.words[0] == "h" else "h"
        return [replace(first, words=(way, *first.words[1:])), *layers[1:]]
    return [
        replace(layer, options={**layer.options, "dir": "up" if layer.options.get("dir", "up") == "down" else "down"})
        if layer.operation in ("bend", "split")
        else layer
        for layer in layers
    ]


def _reorder(layers: list[Layer], rng: random.Random) -> list[Layer]:
    first = layers[0]
    if first.operation not in ("bands", "wedge"):
        return layers
    fixed = 1 if first.operation == "bands" else 0
    words = list(first.words[fixed:])
    rng.shuffle(words)
    return [replace(first, words=(*first.words[:fixed], *words)), *layers[1:]]


def _remove(layers: list[Layer], rng: random.Random) -> list[Layer]:
    return layers[:-1] if len(layers) > 1 else layers


def _add(layers: list[Layer], rng: random.Random) -> list[Layer]:
    x, y = rng.choice([(0.5, 0.5), (0.5, 0.5), (0.2, 0.25), (0.3, 0.5), (0.75, 0.5)])
    line = "; ".join(["1:1", *charge(Studio(rng), x, y, rng.choice([0.15, 0.2, 0.25]), *_names(layers)[:2])])
    return [*layers, *parse(line).layers]


def _another_emblem(layers: list[Layer], rng: random.Random) -> list[Layer]:
    kinds = [kind for kind in EMBLEM_WEIGHTS if all(kind not in layer.words for layer in layers)]
    kind = rng.choice(kinds)
    return [
        replace(layer, words=(kind, *layer.words[1:])) if layer.operation == "emblem" else layer for layer in layers
    ]


_POINTED = {"star": "5", "stars": "5"}
_PLACED = dict.fromkeys(("disc", "crescent", "sun", "emblem", "plus"), ".5,.5")
EDITS: tuple[Callable[[list[Layer], random.Random], list[Layer]], ...] = (
    _swap_colors, _swap_colors, _change_color, _change_color, _turn, _reorder, _remove, _add, _another_emblem,
    _change(_POINTED, "points", ("5", "6", "7", "8")),
    _change({"stars": ""}, "n", ("3", "4", "5", "6", "7", "8", "9", "10", "12", "15")),
    _change(_PLACED, "at", (".5,.5", ".25,.5", ".75,.5", ".2,.25", ".8,.25", ".4,.5")),
    _change({"crescent": "90"}, "angle", ("0", "90", "270")),
    _change({"cross": ".5,.5"}, "at", (".5,.5", ".36,.5")),
)  # fmt: skip
