"""Captions: fixed ones worked out by hand, and random ones that keep the facts."""

from __future__ import annotations

import random

import pytest

from pretraining.demo.colors import COLORS
from pretraining.demo.describe import describe
from pretraining.demo.flags import load_flags, parse
from pretraining.demo.things import EMBLEMS

CAPTIONS = {
    "2:3; bands v green white red": "three equal vertical bands of green (left side), white, and red",
    "2:3; field white; disc red r=.3": "white with a large red disk in the center",
    "1:2; bands h red white black; triangle green depth=.333": (
        "three equal horizontal bands of red (top), white, and black, "
        "with a green isosceles triangle based on the left side"
    ),
    "2:3; bands h red yellow*2 red": "three horizontal bands of red (top), yellow (double-width), and red",
    "2:3; bands h blue white blue white blue": (
        "five equal horizontal stripes of blue (top and bottom) alternating with white"
    ),
    "2:3; field red; cross white at=.36,.5 width=.25; cross blue at=.36,.5 width=.12": (
        "red with a blue cross edged in white extending to the edges of the flag "
        "and shifted to the left in the style of the Nordic cross"
    ),
    "2:3; bands h black*6 white red*6 white green*6": (
        "three equal horizontal bands of black (top), red, and green; the red band is edged in white"
    ),
    "1:2; field blue; union": "blue with the UK flag in the upper-left corner",
    "2:3; bands h red white blue; emblem eagle gold": (
        "three equal horizontal bands of red (top), white, and blue, with a gold eagle centered on the white band"
    ),
    "2:3; split green#00aa11 black dir=down": (
        "divided diagonally from the upper-left corner to the lower-right corner; "
        "the upper triangle is green and the lower triangle is black"
    ),
    "2:3; field white; rect red box=.5,0,1,.5; rect blue box=0,.5,.5,1": (
        "divided into four equal rectangles of white (upper left), red (upper right), "
        "blue (lower left), and white (lower right)"
    ),
}


@pytest.mark.parametrize("line", CAPTIONS)
def test_fixed_caption(line: str) -> None:
    assert describe(parse(line)) == CAPTIONS[line]


def test_drawn_wordings_are_many_and_repeatable() -> None:
    flag = parse("2:3; bands v green white red; emblem coat red gold")
    texts = [describe(flag, random.Random(seed)) for seed in range(200)]
    assert len(set(texts)) > 190
    assert texts[7] == describe(flag, random.Random(7))
    assert all("{" not in text and "[" not in text and "  " not in text for text in texts)


def test_drawn_wordings_keep_the_order_of_bands() -> None:
    flag = parse("2:3; bands v green white black")
    for seed in range(100):
        words = describe(flag, random.Random(seed)).split("; green stands")[0]
        assert words.find("green") < words.find("black")


def test_every_emblem_has_words_and_every_color_has_synonyms() -> None:
    for kind in EMBLEMS:
        text = describe(parse(f"2:3; field teal; emblem {kind} white"))
        assert text.startswith("teal with") and text.endswith("in the center")
    for name in COLORS:
        flag = parse(f"2:3; field {name}")
        assert len({describe(flag, random.Random(seed)) for seed in range(60)}) > 8


def test_unknown_emblem_is_refused() -> None:
    with pytest.raises(ValueError, match="emblem 'teapot'"):
        describe(parse("2:3; field red; emblem teapot white"))


def test_flags_of_the_world() -> None:
    flags = load_flags()
    assert describe(flags["fr"]).endswith(" (left side), white, and red")
    assert describe(flags["lv"]) == "three horizontal bands of maroon (top), white (half-width), and maroon"
    captions = [describe(flag) for flag in flags.values()]
    assert len(set(captions)) > 0.9 * len(captions)
    for code, flag in flags.items():
        assert describe(flag, random.Random(code))
