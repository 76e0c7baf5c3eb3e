"""Describes flags in plain English: with one fixed caption each, or in one of many wordings (wording.toml)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pretraining.demo.flags import Flag, Layer
from pretraining.demo.folding import Band, bands_of, fold, quarters
from pretraining.demo.scene import Region, locate, size_of
from pretraining.demo.writer import Writer

FACTORS = ((1.5, "wider"), (2.0, "double"), (3.0, "triple"), (4.0, "quadruple"), (0.5, "half"))
ENCLOSING = ("crescent", "wreath", "ring", "circle", "garland", "moon")


@dataclass(frozen=True)
class _Part:
    """A noun phrase with its article, and the region it refers to."""

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
    """Describes a flag in plain English: with its fixed caption or, given `rng`, in one of many wordings.

    Random wordings may leave parts out and may end with a clause about the meaning of the colors.

    Raises:
        ValueError: pretraining/demo/wording.toml has no words for an emblem of the flag.

    Example:
        >>> from pretraining.demo.flags import parse
        >>> describe(parse("2:3; bands v green white red"))
        'three equal vertical bands of green (left side), white, and red'
    """
    writer = Writer(rng)
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
    text = " ".join(f"{opening}{text}{closing}".split())
    if writer.chance(0.1):
        text = text[0].upper() + text[1:] + "."
    return text


def _base(writer: Writer, layers: Sequence[Layer]) -> tuple[str, str, list[int]]:
    """Returns the color of a plain field or "", the words for the lowest layers, and the layers left to describe."""
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


def _bands(writer: Writer, layer: Layer) -> str:
    horizontal = layer.words[0] == "h"
    slim, edges = _without_edges(bands_of([layer])[1])
    way = writer.say("word", "horizontal" if horizontal else "vertical")
    weights = [band.end - band.start for band in slim]
    near = 1.4 if edges else 1.1  # the others may be as wide as an edged band with or without its edges
    equal = max(weights) < near * min(weights)
    names, n = [writer.color(band.color) for band in slim], len(slim)
    count, words = writer.number(n), writer.say("word", "bands")
    if n >= 5 and equal and len(set(names)) == 2 and all(names[i] == names[i % 2] for i in range(n)):
        ends = ("(top and bottom)" if horizontal else "(on both sides)") if n % 2 else ""
        text = writer.say("base", "alternating", count=count, way=way, bands=words, a=names[0], b=names[1], ends=ends)
    else:
        colors = _listing(writer, names, [1.0] * n if equal else weights, horizontal)
        even = writer.say("word", "equal" if equal else "unequal") if equal or n > 4 else ""
        three = writer.say("word", "tricolor") if n == 3 else words
        text = writer.say("base", "bands", tricolor=three, count=count, equal=even, way=way, bands=words, colors=colors)
    for color, edge in dict.fromkeys(edges):
        text += "; " + writer.say("base", "edged", color=writer.color(color), edge=writer.color(edge))
    return text


def _without_edges(bands: list[Band]) -> tuple[list[Band], list[tuple[str, str]]]:
    """Merges broad bands with the thin ones around them; returns the bands and the merged colors (broad, thin)."""
    slim, edges, i = bands[:1], [], 1
    while i < len(bands):
        if i + 3 < len(bands) and bands[i].color == bands[i + 2].color and _is_edge(bands, i):
            slim.append(Band(bands[i + 1].color, bands[i].start, bands[i + 2].end))
            edges.append((bands[i + 1].color, bands[i].color))
            i += 3
        else:
            slim.append(bands[i])
            i += 1
    return slim, edges


def _is_edge(bands: Sequence[Band], i: int) -> bool:
    thin, inner = bands[i].end - bands[i].start, bands[i + 1].end - bands[i + 1].start
    last = bands[i + 2].end - bands[i + 2].start
    return thin < 0.45 * inner and last < 0.45 * inner and bands[i - 1].color != bands[i + 1].color


def _listing(writer: Writer, names: Sequence[str], weights: Sequence[float], horizontal: bool) -> str:
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


def _part(writer: Writer, layers: Sequence[Layer], index: int, ratio: float, bands: tuple[bool, list[Band]]) -> _Part:
    layer = layers[index]
    region = locate(layers, index, ratio, bands)
    count = int(layer.options.get("count", "1")) if layer.operation != "star" else len(layer.places())
    if layer.operation == "union":
        return _Part(writer.say("part", "union"), region)
    if layer.operation == "emblem":
        colors = writer.colors_of(layer.words[1:]) + " " if len(layer.words) > 1 and not writer.chance(0.25) else ""
        if layer.words[0] not in writer.words["emblem"]:
            raise ValueError(f"emblem {layer.words[0]!r}: give it words in [emblem] of pretraining/demo/wording.toml")
        noun = writer.say("emblem", layer.words[0], color=colors).replace("  ", " ")
        plural = noun.startswith(("crossed", "two ", "three ")) or noun.split(" ")[-1] in ("spears", "branches")
        size = writer.say("word", f"size-{size_of(layer, ratio)}") if size_of(layer, ratio) == "big" else ""
        bare = plural or noun.endswith(("script", "text", "writing", "words", "letters", "initials", "calligraphy"))
        return _Part(size + noun if bare else _article(size + noun), region, plural)
    plural = count > 1 or layer.operation == "stars"
    noun = _noun(writer, layer, region, ratio, plural)
    if layer.operation == "stars":
        stars = f"{writer.number(int(layer.number('n', 5)))} {noun}"
        return _Part(_grouped(writer, stars, layer.options.get("layout", "circle")), region, True)
    if layer.operation == "star" and count > 1:
        return _Part(_grouped(writer, f"{writer.number(count)} {noun}", region.layout), region, True)
    if layer.operation == "waves":
        return _Part(noun, region, True)
    return _Part(f"{writer.number(count)} {noun}" if plural else _article(noun), region, plural)


def _grouped(writer: Writer, stars: str, layout: str) -> str:
    stars = writer.say("part", layout, stars=stars)
    return stars.replace(" a pair of ", " two ").replace("of a pair of", "of two")


def _noun(writer: Writer, layer: Layer, region: Region, ratio: float, plural: bool) -> str:
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


def _merged(writer: Writer, parts: Sequence[_Part]) -> list[_Part]:
    """Joins parts in the same place, such as a crescent and a star; four or more become an emblem."""
    runs: list[list[_Part]] = []
    for part in parts:
        if runs and runs[-1][-1].region.beside(part.region) and not writer.chance(0.1):
            if part.noun not in [other.noun for other in runs[-1]]:
                runs[-1].append(part)
        else:
            runs.append([part])
    return [_together(writer, run) for run in runs]


def _together(writer: Writer, run: Sequence[_Part]) -> _Part:
    first = run[0]
    if len(run) == 1:
        return first
    if len(run) > 3:
        return _Part(_article(writer.say("emblem", "coat", color="")), first.region)
    if len(run) == 3:
        return _Part(_join([part.noun for part in run]), first.region, True)
    around = any(word in first.noun for word in ENCLOSING) and writer.chance(0.5)
    return _Part(writer.say("part", "nested" if around else "pair", a=first.noun, b=run[1].noun), first.region, True)


def _where(writer: Writer, region: Region) -> str:
    holder = region.holder
    if region.color and (holder == "band" or not writer.chance(0.35)):
        holder = f"{writer.color(region.color)} {holder}"
    return writer.say("place", region.place, holder=f"{region.which}{holder}".strip())


def _assemble(writer: Writer, color: str, base: str, parts: Sequence[_Part]) -> str:
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


def _sentence(writer: Writer, part: _Part, where: str) -> str:
    verbs = {"is": "are" if part.plural else "is", "sits": writer.say("word", "sit" if part.plural else "sits")}
    if where.startswith(("that ", "(", "extending", "shifted", "dividing", "starting")):
        return f"{writer.pick(['there ' + verbs['is'], 'it has'])} {part.noun} {where}"
    return writer.say("part", "sentence", noun=part.noun, where=where, **verbs)


def _closing(writer: Writer, layers: Sequence[Layer]) -> str:
    if writer.rng is None:
        return ""
    names = [w for layer in layers for w in layer.words if w.split("*")[0].split("#")[0] in writer.words["color"]]
    names = list(dict.fromkeys(writer.color(name) for name in names))
    verbs = ["stands for", "represents", "symbolizes", "is for"]
    stands = _join([f"{name} {writer.rng.choice(verbs)} {writer.say('word', 'virtue')}" for name in names])
    return writer.say("word", "closing", stands=stands)
