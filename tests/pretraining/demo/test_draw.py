from __future__ import annotations

import tomllib

import numpy as np
import pytest

from pretraining.demo.colors import COLORS, color
from pretraining.demo.draw import draw
from pretraining.demo.flags import FLAGS_FILE, load_flags, parse
from pretraining.demo.painters import OPERATIONS
from pretraining.demo.things import EMBLEMS

FLAGS = load_flags()
RED, WHITE, BLUE, GREEN = (206, 17, 38), (255, 255, 255), (0, 80, 170), (0, 135, 62)


def pixel(line: str, x: float, y: float, height: int = 100) -> tuple[int, int, int]:
    """The color at a place given in fractions of the flag."""
    image = draw(parse(line), height)
    r, g, b = np.asarray(image)[int(y * image.height), int(x * image.width)]
    return int(r), int(g), int(b)


def test_color() -> None:
    assert color("red") == RED
    assert color("red#0a0Bff") == (10, 11, 255)
    assert len(COLORS) == 23
    for word, message in (("mauve", "unknown color 'mauve'"), ("red#12345", "six hexadecimal"), ("x#112233", "'x'")):
        with pytest.raises(ValueError, match=message):
            color(word)


def test_size_follows_the_ratio() -> None:
    assert draw(parse("2:3; field red"), 160).size == (240, 160)
    assert draw(parse("11:28; field red"), 110).size == (280, 110)
    assert draw(parse("1:1; field red"), 1).size == (1, 1)
    assert draw(parse("1:2; field red")).size == (320, 160)
    assert draw(parse("1:2; field red")).mode == "RGB"


def test_bands() -> None:
    italy = "2:3; bands v green white red"
    assert [pixel(italy, x, 0.5) for x in (1 / 6, 1 / 2, 5 / 6)] == [GREEN, WHITE, RED]
    spain = "2:3; bands h red white*2 blue"  # borders at 1/4 and 3/4
    assert [pixel(spain, 0.5, y) for y in (0.24, 0.26, 0.74, 0.76)] == [RED, WHITE, WHITE, BLUE]


def test_disc_reaches_its_radius() -> None:
    japan = "2:3; field white; disc red r=.3"  # 60 pixels across at height 100, from x = 45 to 105
    row = np.asarray(draw(parse(japan), 100))[50]
    assert tuple(row[75]) == RED
    reds = np.flatnonzero(row[:, 1] < 128)
    assert abs(int(reds[0]) - 45) <= 1
    assert abs(int(reds[-1]) - 104) <= 1


def test_nordic_cross() -> None:
    # Norway: 6 red, 1 white, 2 blue, 1 white, 12 red of 22 across; the same unit, 6-1-2-1-6 of 16, down
    norway = "16:22; field red; cross blue at=.3636,.5 width=.125 edge=white edgewidth=.0625"
    row, column = np.asarray(draw(parse(norway), 160))[10], np.asarray(draw(parse(norway), 160))[:, 200]
    for unit, expected in ((3, RED), (6.5, WHITE), (8, BLUE), (9.5, WHITE), (15, RED)):
        assert tuple(row[int(unit * 10)]) == expected
    for unit, expected in ((3, RED), (6.5, WHITE), (8, BLUE), (9.5, WHITE), (13, RED)):
        assert tuple(column[int(unit * 10)]) == expected


@pytest.mark.parametrize(
    ("line", "points"),
    [
        ("1:1; split red blue", {(0.2, 0.2): RED, (0.8, 0.8): BLUE}),
        ("1:1; split red blue dir=down", {(0.8, 0.2): RED, (0.2, 0.8): BLUE}),
        ("1:1; field white; bend red width=.2", {(0.5, 0.5): RED, (0.9, 0.1): RED, (0.1, 0.1): WHITE}),
        ("1:1; field white; bend red dir=down", {(0.1, 0.1): RED, (0.9, 0.1): WHITE}),
        ("1:1; field white; triangle red depth=.5", {(0.1, 0.5): RED, (0.45, 0.5): RED, (0.55, 0.5): WHITE}),
        ("1:1; field white; triangle red depth=.5 edge=blue", {(0.52, 0.5): BLUE, (0.45, 0.5): RED}),
        ("1:1; field white; rect red box=.5,0,1,.5", {(0.51, 0.49): RED, (0.49, 0.49): WHITE, (0.51, 0.51): WHITE}),
        ("1:1; field white; diamond red", {(0.5, 0.15): RED, (0.15, 0.15): WHITE, (0.15, 0.5): RED}),
        ("1:1; field white; border red width=.1", {(0.05, 0.5): RED, (0.95, 0.5): RED, (0.15, 0.5): WHITE}),
        ("1:1; field white; saltire red", {(0.5, 0.5): RED, (0.03, 0.03): RED, (0.97, 0.03): RED, (0.5, 0.1): WHITE}),
        ("1:1; field white; plus red r=.3 width=.2", {(0.5, 0.25): RED, (0.5, 0.15): WHITE, (0.3, 0.3): WHITE}),
        ("1:1; field white; ring red r=.3 width=.1", {(0.5, 0.5): WHITE, (0.25, 0.5): RED, (0.15, 0.5): WHITE}),
        ("1:1; field white; star red r=.4", {(0.5, 0.5): RED, (0.5, 0.15): RED, (0.5, 0.85): WHITE}),
        ("1:1; field white; stars red n=4 spread=.3", {(0.5, 0.2): RED, (0.8, 0.5): RED, (0.5, 0.5): WHITE}),
        ("1:1; field white; stars red n=2 layout=line", {(0.25, 0.5): RED, (0.75, 0.5): RED, (0.5, 0.25): WHITE}),
        ("1:1; field white; stars red n=3 layout=arc", {(0.25, 0.5): RED, (0.5, 0.25): RED, (0.5, 0.75): WHITE}),
        ("1:1; field white; crescent red r=.4", {(0.13, 0.5): RED, (0.6, 0.5): WHITE, (0.88, 0.5): WHITE}),
        ("1:1; field white; sun red r=.4", {(0.5, 0.5): RED, (0.5, 0.12): RED, (0.5, 0.05): WHITE}),
        ("1:1; field red; serrated white x=.3 points=1 depth=.2", {(0.38, 0.5): WHITE, (0.38, 0.05): RED}),
        ("1:1; field white; pall red", {(0.9, 0.5): RED, (0.05, 0.05): RED, (0.1, 0.5): WHITE, (0.9, 0.1): WHITE}),
        ("1:1; wedge red white blue green", {(0.2, 0.1): RED, (0.8, 0.1): WHITE, (0.9, 0.3): BLUE, (0.9, 0.8): GREEN}),
        ("1:1; field white; waves red box=0,.5,1,1 n=1", {(0.5, 0.75): RED, (0.5, 0.2): WHITE}),
        ("1:1; field white; union", {(0.25, 0.25): (200, 16, 46), (0.75, 0.75): WHITE}),
        ("1:1; field white; poly red at=0,0/.5,0/0,.5", {(0.1, 0.1): RED, (0.3, 0.3): WHITE}),
        ("1:1; field white; emblem shield red at=.5,.5 r=.4", {(0.5, 0.5): RED, (0.1, 0.5): WHITE}),
    ],
)
def test_operation(line: str, points: dict[tuple[float, float], tuple[int, int, int]]) -> None:
    for (x, y), expected in points.items():
        assert pixel(line, x, y) == expected, (x, y)


def test_grid_of_fifty_stars() -> None:
    # 5 rows of 6 alternating with 4 rows of 5: the second row fills the gaps of the first
    line = "1:1; field blue; stars white n=50 layout=grid rows=9 spread=.4 tall=.4 r=.02"
    assert pixel(line, 0.1, 0.1, 200) == WHITE
    assert pixel(line, 0.1, 0.2, 200) == BLUE
    assert pixel(line, 0.18, 0.2, 200) == WHITE
    assert pixel(line, 0.9, 0.9, 200) == WHITE


def test_red_of_the_union_flag_turns_counterclockwise() -> None:
    # near the upper hoist corner the broad white is above the red, near the upper fly corner below it
    image = np.asarray(draw(parse("1:2; union box=0,0,1,1"), 300)).astype(int)
    upper_hoist, upper_fly = image[:, 60], image[:, 539]
    assert tuple(upper_hoist[20]) == WHITE
    assert tuple(upper_hoist[40]) == (200, 16, 46)
    assert tuple(upper_fly[40]) == WHITE
    assert tuple(upper_fly[22]) == (200, 16, 46)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("blob red", "unknown operation 'blob'"),
        ("emblem unicorn red", "emblem: unknown kind 'unicorn'"),
        ("emblem lion", "lion needs at least one color"),
        ("field mauve", "field: unknown color 'mauve'"),
        ("field", "field: needs a color"),
        ("split red", "split: needs 2 words"),
        ("disc red radius=.2", "disc: unknown option 'radius'"),
        ("bands x red", "bands: the first word must be h or v"),
        ("bend red dir=left", "bend: dir=left"),
        ("rect red box=0,0,1", "rect: box=0,0,1"),
        ("stars red layout=heap", "stars: layout=heap"),
        ("crescent red shift=5", "crescent"),
        ("poly red at=0,0/1,1", "poly: needs at least three points"),
    ],
)
def test_bad_layer_is_named(layer: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(parse(f"2:3; {layer}"))


def test_height_must_be_positive() -> None:
    with pytest.raises(ValueError, match="height must be at least 1 pixel, got 0"):
        draw(parse("2:3; field red"), 0)


def test_emblems_look_different() -> None:
    drawings = {
        kind: np.asarray(draw(parse(f"1:1; field white; emblem {kind} black r=.48"), 48)).astype(int)
        for kind in EMBLEMS
    }
    for first, a in drawings.items():
        assert (a < 128).any(), first
        for second, b in drawings.items():
            assert first == second or np.abs(a - b).mean() > 5, (first, second)


def test_every_flag_draws() -> None:
    assert len(FLAGS) == len(tomllib.loads(FLAGS_FILE.read_text(encoding="utf-8"))) == 196
    drawings = {}
    for code, flag in FLAGS.items():
        image = draw(flag, 32)
        assert image.size == (round(32 * flag.ratio), 32), code
        drawings[code] = image.resize((48, 32)).tobytes()
    # Romania and Chad, and Indonesia and Monaco, differ only in shade or proportions, but they do differ
    assert len(set(drawings.values())) == 196


def test_flags_use_every_common_operation() -> None:
    used = {layer.operation for flag in FLAGS.values() for layer in flag.layers}
    assert used == set(OPERATIONS)
