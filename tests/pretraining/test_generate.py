"""Made-up flags: valid, varied, and twins that differ."""

from __future__ import annotations

import random
import re

from pretraining.charges import Studio
from pretraining.demo.draw import draw
from pretraining.demo.flags import parse
from pretraining.generate import format_flag, random_flag, similar_flag
from tests.paths import ROOT

DOCUMENT = ROOT / "pretraining" / "demo" / "README.md"


def test_random_flags_survive_a_round_trip() -> None:
    rng = random.Random(1)
    for _ in range(300):
        flag = random_flag(rng)
        line = format_flag(flag)
        assert parse(line).layers == flag.layers and abs(parse(line).ratio - flag.ratio) < 1e-4
        assert 1.0 <= flag.ratio <= 2.0


def test_a_color_contrasts_with_the_first_when_none_contrasts_with_all() -> None:
    for seed in range(20):
        rest = ("black", "white", "yellow", "green", "blue", "lightblue")
        name = Studio(random.Random(seed)).color("red", *rest).partition("#")[0]
        assert name not in ("red", "darkred", "maroon", "brown", "pink")


def test_random_flags_repeat_for_a_seed() -> None:
    assert format_flag(random_flag(random.Random(5))) == format_flag(random_flag(random.Random(5)))
    assert len({format_flag(random_flag(random.Random(seed))) for seed in range(100)}) > 95


def test_random_flags_cover_the_documented_language() -> None:
    operations = set(re.findall(r"^\| `([a-z]+)", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert len(operations) > 20
    rng = random.Random(2)
    used = {layer.operation for _ in range(3000) for layer in random_flag(rng).layers}
    assert operations - used == set() and used - operations == set()


def test_twins_differ_a_little() -> None:
    rng = random.Random(3)
    for _ in range(300):
        flag = random_flag(rng)
        twin = similar_flag(flag, rng)
        assert format_flag(twin) != format_flag(flag)
        assert abs(len(twin.layers) - len(flag.layers)) <= 2 and twin.ratio == flag.ratio


def test_a_plain_field_has_twins() -> None:
    assert {len(similar_flag(parse("2:3; field red"), random.Random(seed)).layers) for seed in range(40)} >= {1, 2}


def test_random_flags_and_twins_can_be_drawn() -> None:
    rng = random.Random(4)
    for _ in range(120):
        flag = random_flag(rng)
        for each in (flag, similar_flag(flag, rng)):
            image = draw(each, 24)
            assert image.mode == "RGB" and image.height == 24
