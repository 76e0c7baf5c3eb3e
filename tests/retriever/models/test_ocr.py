"""Text is drawn, photographed as it were, and read back; the networks are the published ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from retriever.base_models import TEXT_READER, find_base
from retriever.images import load_image
from retriever.models.ocr import OCR
from retriever.types import Crop, TextLine
from tests.paths import ROOT

pytestmark = pytest.mark.skipif(
    not (find_base(TEXT_READER).carrier or find_base(TEXT_READER).folder.is_dir()),
    reason=f"the package {find_base(TEXT_READER).package} is not installed",
)
DISH = ROOT / "pretraining" / "demo" / "dishes" / "apple-strudel.jpg"


@cache
def reader() -> OCR:
    return OCR.load()


def texts(image: Image.Image) -> list[str]:
    return [line.text for line in reader().read([image])[0]]


def written(
    text: str, size: int, color: str = "black", ground: Image.Image | None = None, at: tuple[int, int] = (20, 20)
) -> tuple[Image.Image, tuple[float, float, float, float]]:
    """Returns an image with a text, and where it stands, in pixels."""
    font = ImageFont.load_default(size)
    probe = ImageDraw.Draw(Image.new("RGB", (1, 1))).textbbox(at, text, font=font)
    image = Image.new("RGB", (int(probe[2]) + 20, int(probe[3]) + 20), "white") if ground is None else ground.copy()
    draw = ImageDraw.Draw(image)
    draw.text(at, text, fill=color, font=font)
    return image, draw.textbbox(at, text, font=font)


def photograph(width: int, height: int, seed: int = 0) -> Image.Image:
    """Returns something with the colors and the grain of a photograph, out of focus."""
    dish = load_image(DISH).resize((width, height)).filter(ImageFilter.GaussianBlur(max(width, height) / 20))
    noise = np.random.default_rng(seed).normal(0, 6, (height, width, 3))
    return Image.fromarray((np.asarray(dish, np.float32) + noise).clip(0, 255).astype(np.uint8))


@pytest.mark.parametrize("size", [12, 18, 32, 60, 140])
@pytest.mark.parametrize(("color", "ground"), [("black", "white"), ("white", "#b00020"), ("#ffd54f", "#1a237e")])
def test_sizes_and_colors(size: int, color: str, ground: str) -> None:
    text = "Earl Grey 250 g"
    image, _ = written(text, size, color, Image.new("RGB", (9 * size + 40, 2 * size + 40), ground))
    assert texts(image) == [text]


@pytest.mark.parametrize("angle", [-20, -12, -5, 5, 12, 20, 90, 270])
def test_rotations(angle: int) -> None:
    image, _ = written("Botanical Garden", 30)
    assert texts(image.rotate(angle, expand=True, fillcolor="white", resample=Image.Resampling.BICUBIC)) == [
        "Botanical Garden"
    ]


@pytest.mark.parametrize(
    "text", ["Mild lättyoghurt", "Crème brûlée", "Smørrebrød", "Jalapeño", "Gruß aus Köln", "Żurek", "Größe 42 €"]
)
def test_latin_letters(text: str) -> None:
    font = ImageFont.truetype(str(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")), 36)
    image = Image.new("RGB", (500, 90), "white")
    ImageDraw.Draw(image).text((20, 20), text, fill="black", font=font)
    assert texts(image) == [text]


def test_on_a_photograph() -> None:
    image, _ = written("Strudel", 50, "white", photograph(400, 300), at=(60, 40))
    ImageDraw.Draw(image).text((60, 200), "with apples, 4.50", fill="#fff3c0", font=ImageFont.load_default(28))
    assert texts(image) == ["Strudel", "with apples, 4.50"]


def test_images_without_text() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8)
    images = [Image.new("RGB", (300, 200), "teal"), Image.fromarray(noise), photograph(300, 200), load_image(DISH)]
    assert reader().read(images) == [[], [], [], []]
    assert reader().read([]) == []


@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (3000, 1), (7, 5)])
def test_tiny_and_thin_images(size: tuple[int, int]) -> None:
    assert texts(Image.new("RGB", size, "white")) == []


def test_a_large_image() -> None:
    image, _ = written("Platform 9", 160, "navy", Image.new("RGB", (4000, 3000), "#eee"), at=(2500, 2000))
    [line] = reader().read([image])[0]
    assert line.text == "Platform 9"
    assert line.box == pytest.approx((2500 / 4000, 2000 / 3000, 3300 / 4000, 2190 / 3000), abs=0.03)


def test_small_print_on_a_large_image() -> None:
    image = Image.new("RGB", (2000, 1500), "#eee")
    lines = [f"{number} Emergency exit" for number in range(11, 23)]
    for row, text in enumerate(lines):
        ImageDraw.Draw(image).text((100, 100 + 107 * row), text, fill="navy", font=ImageFont.load_default(24))
    assert texts(image) == lines
    assert OCR.load(side=320).read([image]) == [[]]


def test_modes() -> None:
    image, _ = written("Museum", 40)
    clear = Image.new("RGBA", image.size)
    clear.paste("black", mask=image.convert("L").point(lambda value: 255 - value))
    for other in (image.convert("L"), image.convert("P"), image.convert("CMYK"), clear):
        assert texts(other) == ["Museum"]


def test_lines_are_in_the_order_of_reading() -> None:
    image = Image.new("RGB", (500, 240), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(30)
    for at, text in {(20, 150): "third", (260, 40): "second", (20, 38): "first", (260, 154): "fourth"}.items():
        draw.text(at, text, fill="black", font=font)
    assert texts(image) == ["first", "second", "third", "fourth"]


def test_a_batch_gives_what_single_images_give() -> None:
    images = [written(text, size)[0] for text, size in (("Alpha", 24), ("Beta and gamma", 40), ("Delta 3", 18))]
    images += [photograph(200, 300), Image.new("L", (50, 50))]
    batch = reader().read(images)
    assert [lines for image in images for lines in reader().read([image])] == batch
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda image: reader().read([image])[0], images)) == batch


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.sampled_from(["Oolong", "PEPPER", "Made in Peru", "No. 471", "best before"]),
    st.integers(20, 44),
    st.integers(0, 150),
    st.integers(0, 200),
    st.integers(0, 1000),
)
def test_boxes_are_in_the_image_and_contain_the_text(text: str, size: int, x: int, y: int, seed: int) -> None:
    ground = Image.blend(photograph(450, 280, seed), Image.new("RGB", (450, 280), "white"), 0.5)
    image, drawn = written(text, size, "#101010", ground, at=(x, y))
    [line] = reader().read([image])[0]
    assert line.text.replace(" ", "") == text.replace(" ", "") and 0.5 <= line.confidence <= 1
    assert all(0 <= value <= 1 for value in line.box) and line.box[0] < line.box[2] and line.box[1] < line.box[3]
    assert contained((drawn[0] / 450, drawn[1] / 280, drawn[2] / 450, drawn[3] / 280), line.box)


def contained(inner: Crop, outer: Crop) -> bool:
    """Returns whether a crop is in another, but for a hundredth of the image."""
    pairs = zip(inner, outer, (1, 1, -1, -1), strict=True)
    return all((inside - outside) * sign >= -0.01 for inside, outside, sign in pairs)


def test_the_fingerprint_is_of_networks_and_settings() -> None:
    assert OCR.load().fingerprint == reader().fingerprint != OCR.load(side=480).fingerprint
    assert OCR.load(threads=2).fingerprint == reader().fingerprint


def test_what_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="base model 'tesseract' is unknown: use one of"):
        OCR.load("tesseract")
    with pytest.raises(ValueError, match="'efficientnet-lite0' does not read text in images: use pp-ocr-v6-small"):
        OCR.load("efficientnet-lite0")
    with pytest.raises(ValueError, match="side must be at least 32, got 31"):
        OCR.load(side=31)


def test_a_text_line_is_data() -> None:
    image, _ = written("Tea", 40)
    [line] = reader().read([image])[0]
    assert line == TextLine("Tea", line.confidence, line.box) and type(line.confidence) is float
    assert {type(value) for value in line.box} == {float}


def test_the_thread_keeps_its_denormal_numbers() -> None:
    reader().read([written("Tea", 40)[0]])
    assert np.full(8, 1e-40, np.float32).sum() > 0


@pytest.mark.slow
def test_of_a_page_only_the_largest_lines_are_read_to_search_by() -> None:
    page, _ = written("OAT DRINK", 90, ground=Image.new("RGB", (900, 1200), "white"))
    for number in range(30):
        text = f"Line {number} of many that say little about what this is"
        page, _ = written(text, 22, ground=page, at=(20, 160 + 34 * number))
    [lines] = reader().read([page], 448)
    [every] = reader().read([page])
    assert lines[0].text == "OAT DRINK" and len(lines) < 10 and len(every) > 25  # and not the first ones by chance
    assert sum((box[2] - box[0]) * 900 / ((box[3] - box[1]) * 1200) for box in (line.box for line in lines)) < 100
    label, _ = written("OAT DRINK", 60, ground=Image.new("RGB", (640, 480), "white"))
    for number, text in enumerate(("barista", "organic", "1 liter")):
        label, _ = written(text, 40, ground=label, at=(20, 120 + 80 * number))
    assert [line.text for line in reader().read([label], 448)[0]] == [line.text for line in reader().read([label])[0]]


@pytest.mark.parametrize("ground", ["white", "#d0d0a0", "#203040"])
def test_what_a_line_has_outside_the_image_is_no_letter(ground: str) -> None:
    """Boxes are larger than their texts, so those at an edge reach beyond it."""
    color = "black" if ground != "#203040" else "white"
    for text in ("Oolong", "PEPPER", "100 ml"):
        image, (left, top, right, bottom) = written(text, 40, color, Image.new("RGB", (300, 120), ground), (60, 40))
        for box in ((left - 1, 0, 300, 120), (0, 0, right + 1, 120), (left - 1, top - 1, right + 1, bottom + 1)):
            assert texts(image.crop(tuple(map(int, box)))) == [text]  # type: ignore[arg-type]
    photo = Image.blend(photograph(450, 280, 1), Image.new("RGB", (450, 280), "white"), 0.5)
    image, _ = written("Oolong", 40, "#101010", photo, at=(0, 40))
    assert texts(image) == ["Oolong"]
