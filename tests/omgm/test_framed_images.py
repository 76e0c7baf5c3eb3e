"""Every image of an index finds itself, on whatever ground and however large, with the embedded models."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from io import BytesIO

import httpx2 as httpx
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from omgm import OMGM
from retriever.images import encoded
from serving.app import create_app
from serving.settings import ServingSettings
from tests.fakes.service import listening
from tests.fakes.world import FakeGenerator

GROUNDS = ("white", "black", "gray", "transparent")
SHARES = (0.3, 0.45, 0.6, 0.75, 0.9, 1.0)
PLACES = ((0.5, 0.5), (0.2, 0.7))
RECOGNIZED = 0.5  # the threshold of the embedded profile


def texture(rng: np.random.Generator, side: int) -> Image.Image:
    """Returns light and color that change slowly, with finer and finer detail, as in photographs."""
    pixels = np.zeros((side, side, 3), np.float32)
    for cells in (3, 7, 16, 40):
        cell = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), np.uint8))
        pixels += np.asarray(cell.resize((side, side), Image.Resampling.BICUBIC), np.float32) * (2 / cells) ** 0.5
    low, high = pixels.min(), pixels.max()
    return Image.fromarray(((pixels - low) / (high - low) * 255).astype(np.uint8))


def cutout(rng: np.random.Generator, side: int, share: float) -> Image.Image:
    """Returns a thing with an outline of its own, as wide as this share of the frame, with transparency around it."""
    frame, within = Image.new("RGBA", (side, side)), round(side * share)
    reach = within / 2 * rng.uniform(0.6, 0.98, 9)
    angles = [2 * math.pi * number / 9 for number in range(9)]
    outline = [
        (within / 2 + r * math.cos(angle), within / 2 + r * math.sin(angle))
        for r, angle in zip(reach.tolist(), angles, strict=True)
    ]
    mask = Image.new("L", (within, within))
    ImageDraw.Draw(mask).polygon(outline, fill=255)
    place = (side - within) // 2
    frame.paste(texture(rng, within), (place, place), mask.filter(ImageFilter.GaussianBlur(1)))
    return frame


def flattened(image: Image.Image, ground: str) -> Image.Image:
    return Image.alpha_composite(Image.new("RGBA", image.size, ground), image).convert("RGB")


def pictures() -> list[Image.Image]:
    """Returns two scenes, things cut out on white and black, and things on nothing at all."""
    rng = np.random.default_rng(7)
    scenes = [texture(rng, 300) for _ in range(2)]
    white = [flattened(cutout(rng, 400, share), "white") for share in (0.34, 0.6, 0.95)]
    return [*scenes, *white, flattened(cutout(rng, 400, 0.6), "black"), cutout(rng, 400, 0.4), cutout(rng, 400, 0.8)]


def framed(image: Image.Image, ground: str, share: float, place: tuple[float, float]) -> bytes:
    """Returns the file of an image that takes this share of a frame's sides."""
    size = round(image.width / share), round(image.height / share)
    frame = Image.new("RGBA", size, (0, 0, 0, 0) if ground == "transparent" else ground)
    left, top = ((outer - inner) * at for outer, inner, at in zip(size, image.size, place, strict=True))
    frame.alpha_composite(image.convert("RGBA"), (round(left), round(top)))
    return encoded(frame if ground == "transparent" else frame.convert("RGB"))


@pytest.fixture(scope="module")
def omgm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OMGM]:
    folder = tmp_path_factory.mktemp("framed")
    kb = folder / "kb"
    kb.mkdir()
    for number, image in enumerate(pictures()):
        image.save(kb / f"{number}.png")
        text = f"# Thing {number}\n\n![]({number}.png)\n\nIt was found in the year {1900 + number}.\n"
        (kb / f"{number}.md").write_text(text, encoding="utf-8")
    with OMGM.build(kb, folder / "index") as door:
        yield door


CASES = [
    (number, GROUNDS[ground], SHARES[size], PLACES[(number + ground) // 2 % 2 if SHARES[size] < 1 else 0])
    for number, ground, size in itertools.product(range(8), range(len(GROUNDS)), range(len(SHARES)))
    if size == 0 or (number + ground + size) % 2 == 0
]
"""Every image on every ground at the smallest size, and all pairs of an image, a ground, a size and a place."""


@pytest.mark.slow
def test_every_image_finds_itself_on_any_ground(omgm: OMGM) -> None:
    own = pictures()
    lost = []
    for start in range(0, len(CASES), 16):
        part = CASES[start : start + 16]
        found = omgm.retrieve(
            [(framed(own[number], ground, share, place), "What is it?") for number, ground, share, place in part]
        )
        for case, one in zip(part, found, strict=True):
            if (one.recognized or 0.0) < RECOGNIZED or one.candidates[0].title != f"Thing {case[0]}":
                lost.append((*case, one.recognized, one.candidates[0].title, one.candidates[0].sim_c))
    assert lost == []


def test_the_service_says_the_same(omgm: OMGM) -> None:
    own = pictures()
    with listening(create_app(omgm.retriever, FakeGenerator(), ServingSettings())) as url:
        for number, ground, share, place in CASES[5::13]:
            file = BytesIO(framed(own[number], ground, share, place))
            answer = httpx.post(
                f"{url}/retrieve", files={"image": file}, data={"question": "What is it?"}, timeout=20
            ).json()
            assert answer["recognized"] >= RECOGNIZED and answer["candidates"][0]["title"] == f"Thing {number}"
