"""Draws what the moving picture is made of: ten notes about teas, each with its label, and a photograph of one tin.

Everything is drawn by this file, so that the picture belongs to the project.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import get_data_path
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont

LABEL = (480, 600)
PHOTO = (1200, 900)
QUESTIONS = ("How long does it steep?", "Where did I buy it?")


class Tea(NamedTuple):
    """A note about one tea, and the colors and mark of its label."""

    name: str
    kind: str
    ground: str
    ink: str
    mark: str
    origin: str
    brewing: str
    bought: str


TEAS = (
    Tea("Fox & Fern", "black tea, Assam", "#7c2d12", "#fde7c3", "fox",
        "A malty black tea from a small estate near Jorhat in Assam. The leaves were picked in June.",
        "It steeps for four minutes in boiling water. Take two teaspoons for the blue pot, and a little milk.",
        "I bought it at the station kiosk in Basel for 11 francs. The owner also sells it in bags of 250 grams."),
    Tea("Harbor Mist", "green tea, Uji", "#14532d", "#e5f3df", "waves",
        "A steamed green tea from Uji, south of Kyoto. It smells of seaweed and fresh grass.",
        "It steeps for 90 seconds at 70 degrees. A second infusion takes only 20 seconds.",
        "A present from Hanna. She found it in the market hall of Bergen."),
    Tea("Night Train", "smoked black tea", "#111827", "#f3c969", "moon",
        "Dried over pine wood in the Wuyi mountains. The smoke is strong at first and turns sweet.",
        "It steeps for three minutes just below boiling. Longer makes it bitter.",
        "Ordered from the tea house in Hamburg, 14 euros for 100 grams."),
    Tea("Old Orchard", "apple and rooibos", "#b91c1c", "#fff1d6", "apple",
        "Rooibos from the Cederberg with pieces of dried apple and a little cinnamon. It has no caffeine.",
        "It steeps for eight minutes in boiling water and never turns bitter.",
        "From the farm shop behind the church in Altnau."),
    Tea("Snow Finch", "white tea", "#e7eef5", "#27506e", "bird",
        "Young buds from Fuding with white down. The color in the cup is pale yellow.",
        "It steeps for five minutes at 80 degrees. The buds can be used three times.",
        "Bought in Lyon on the last day of the trip."),
    Tea("Seven Hills", "oolong", "#5b3a8c", "#f2e8ff", "hills",
        "A half-oxidized oolong from Nantou in Taiwan, rolled into small balls.",
        "It steeps for two minutes at 90 degrees. Rinse the leaves once before.",
        "From the tea fair in Zurich, stand 42."),
    Tea("Sun Gate", "lemon verbena", "#f2b705", "#3b2a00", "sun",
        "Whole leaves of lemon verbena from the garden of a monastery near Arles.",
        "It steeps for ten minutes. Cold water overnight works too.",
        "My sister brought it from Arles in August."),
    Tea("Blue Anchor", "breakfast blend", "#1e3a8a", "#eef3ff", "anchor",
        "A strong blend of Kenyan and Ceylon tea for hard water.",
        "It steeps for three and a half minutes. One bag makes two cups.",
        "The supermarket at the corner, 80 bags for 4 pounds."),
    Tea("Quiet Leaf", "mint", "#0f766e", "#dcfff6", "leaf",
        "Dried Nana mint from Morocco, cut coarsely.",
        "It steeps for six minutes. Add sugar before the water, not after.",
        "From the spice shop in Marseille."),
    Tea("Red Lantern", "ripe pu-erh", "#8f1239", "#ffe4e6", "lantern",
        "A cake of 357 grams from Menghai, pressed in 2014.",
        "It steeps for 15 seconds, then a little longer each time, up to twelve times.",
        "Swapped with Jun for a bag of coffee."),
)  # fmt: skip


def write_notes(folder: Path) -> None:
    """Writes the notes as Markdown files, each with the image of its label."""
    (folder / "labels").mkdir(parents=True)
    for tea in TEAS:
        name = tea.name.lower().replace(" & ", "-").replace(" ", "-")
        label(tea).save(folder / "labels" / f"{name}.png")
        text = f"# {tea.name}\n\n![Label](labels/{name}.png)\n\nA tin of {tea.kind}.\n\n## Origin\n\n{tea.origin}\n"
        text += f"\n## Brewing\n\n{tea.brewing}\n\n## Where I bought it\n\n{tea.bought}\n"
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def font(size: int, style: str = "DejaVuSerif-Bold") -> ImageFont.FreeTypeFont:
    """Returns one of the fonts that come with matplotlib."""
    return ImageFont.truetype(f"{get_data_path()}/fonts/ttf/{style}.ttf", size)


def label(tea: Tea) -> Image.Image:
    """Draws the label of a tea."""
    width, height = LABEL
    image = Image.new("RGB", LABEL, tea.ground)
    draw = ImageDraw.Draw(image)
    draw.rounded_rectangle((18, 18, width - 18, height - 18), 26, outline=tea.ink, width=6)
    draw.line((70, 420, width - 70, 420), fill=tea.ink, width=4)
    mark(draw, tea.mark, tea.ink, tea.ground)
    for text, y, size, style in ((tea.name, 470, 54, "DejaVuSerif-Bold"), (tea.kind, 535, 27, "DejaVuSans")):
        draw.text((width / 2, y), text, fill=tea.ink, font=font(size, style), anchor="mm")
    return image


def mark(draw: ImageDraw.ImageDraw, kind: str, ink: str, ground: str) -> None:
    """Draws the mark of a label around its place at (240, 230)."""
    x, y = 240, 230
    if kind == "fox":
        draw.polygon([(120, 110), (190, 165), (290, 165), (360, 110), (345, 250), (240, 370), (135, 250)], fill=ink)
        draw.polygon([(175, 240), (215, 255), (240, 330), (265, 255), (305, 240), (240, 370)], fill=ground)
        for eye in (195, 285):
            draw.ellipse((eye - 13, 205, eye + 13, 231), fill=ground)
    elif kind == "waves":
        for row in range(4):
            points = [(90 + step, y - 90 + 60 * row + 22 * math.sin(step / 24)) for step in range(0, 301, 6)]
            draw.line(points, fill=ink, width=18)
    elif kind == "moon":
        draw.ellipse((130, 110, 370, 350), fill=ink)
        draw.ellipse((195, 85, 405, 295), fill=ground)
        for star in ((320, 150), (365, 230), (300, 260)):
            draw.regular_polygon((*star, 16), 4, fill=ink)
    elif kind == "apple":
        draw.ellipse((120, 140, 270, 360), fill=ink)
        draw.ellipse((210, 140, 360, 360), fill=ink)
        draw.line((240, 160, 262, 90), fill=ink, width=16)
        draw.ellipse((262, 80, 350, 125), fill=ink)
    elif kind == "bird":
        draw.pieslice((130, 130, 370, 350), 20, 200, fill=ink)
        draw.ellipse((290, 110, 370, 190), fill=ink)
        draw.polygon([(365, 140), (420, 155), (365, 170)], fill=ink)
        draw.ellipse((322, 135, 340, 153), fill=ground)
    elif kind == "hills":
        for left, top, right in ((70, 190, 250), (150, 120, 350), (260, 200, 420)):
            draw.polygon([(left, 360), ((left + right) / 2, top), (right, 360)], fill=ink, outline=ground, width=8)
    elif kind == "sun":
        for ray in range(16):
            angle = math.tau * ray / 16
            draw.line((x, y, x + 140 * math.cos(angle), y + 140 * math.sin(angle)), fill=ink, width=14)
        draw.ellipse((x - 82, y - 82, x + 82, y + 82), fill=ink, outline=ground, width=10)
    elif kind == "anchor":
        draw.ellipse((210, 90, 270, 150), outline=ink, width=16)
        draw.line((240, 150, 240, 350), fill=ink, width=20)
        draw.line((175, 195, 305, 195), fill=ink, width=18)
        draw.arc((120, 180, 360, 360), 10, 170, fill=ink, width=20)
    elif kind == "leaf":
        draw.chord((130, 100, 390, 360), 130, 320, fill=ink)
        draw.chord((90, 110, 350, 370), -50, 140, fill=ink)
        draw.line((140, 350, 340, 130), fill=ground, width=10)
    else:
        draw.rounded_rectangle((150, 130, 330, 320), 80, fill=ink)
        for rib in (195, 240, 285):
            draw.line((rib, 135, rib, 315), fill=ground, width=6)
        draw.rectangle((195, 100, 285, 132), fill=ink)
        draw.line((240, 320, 240, 375), fill=ink, width=14)


def photograph(tea: Tea, seed: int = 3) -> Image.Image:
    """Paints a photograph of a tin with the label: on a wooden table, seen at an angle, in warm light."""
    random = np.random.default_rng(seed)
    width, height = PHOTO
    image = table(random)
    shadow = Image.new("L", PHOTO, 0)
    ImageDraw.Draw(shadow).ellipse((330, 690, 980, 840), fill=150)
    image.paste(Image.new("RGB", PHOTO, "#1c0f06"), mask=shadow.filter(ImageFilter.GaussianBlur(28)))
    tin, mask = tin_of(label(tea))
    tin = tin.rotate(-2, Image.Resampling.BICUBIC, expand=True)
    mask = mask.rotate(-2, Image.Resampling.BICUBIC, expand=True)
    image.paste(tin, ((width - tin.width) // 2 + 20, height - tin.height - 80), mask)
    light = Image.new("L", PHOTO, 0)
    ImageDraw.Draw(light).ellipse((-300, -500, 900, 700), fill=90)
    image.paste(Image.new("RGB", PHOTO, "#fff2d8"), mask=light.filter(ImageFilter.GaussianBlur(220)))
    pixels = np.asarray(image, np.float32) + random.normal(0, 5, (height, width, 1))
    photo = Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(0.8))
    return ImageEnhance.Contrast(photo).enhance(0.94)


def table(random: np.random.Generator) -> Image.Image:
    """Paints a wall above a table of planks, out of focus."""
    width, height = PHOTO
    wood = np.zeros((height, width, 3), np.float32)
    grain = np.cumsum(random.normal(0, 1, (height, 1)), axis=0)
    grain = grain + np.cumsum(random.normal(0, 0.12, (height, width)), axis=1)
    wood[:] = np.array([142, 98, 60], np.float32) + 2.2 * (grain - grain.mean())[:, :, None].clip(-16, 16)
    for plank in range(3):
        wood[520 + plank * 130 : 524 + plank * 130] *= 0.6
    wall = np.linspace(206, 176, 430, dtype=np.float32)[:, None, None] * np.array([1, 0.97, 0.9], np.float32)
    wood[:430] = np.broadcast_to(wall, (430, width, 3))
    image = Image.fromarray(wood.clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    draw.ellipse((60, 430, 330, 640), fill="#d9dfe4")  # a cup
    draw.rectangle((60, 330, 330, 535), fill="#e6ebef")
    draw.ellipse((60, 280, 330, 380), fill="#f4f6f8")
    draw.ellipse((85, 296, 305, 366), fill="#7a4a1e")
    draw.arc((295, 360, 400, 490), -80, 80, fill="#dfe5ea", width=24)
    return image.filter(ImageFilter.GaussianBlur(7))


def tin_of(face: Image.Image) -> tuple[Image.Image, Image.Image]:
    """Bends a label around a tin; returns the tin and its mask."""
    width, height = 560, 640
    across = np.linspace(-1, 1, width)
    source = ((np.arcsin(across * 0.92) / np.arcsin(0.92) + 1) / 2 * (face.width - 1)).astype(int)
    bent = np.asarray(face.resize((face.width, height)), np.float32)[:, source]
    bent *= (0.45 + 0.55 * np.sqrt(1 - (across * 0.93) ** 2) + 0.12 * np.exp(-(((across + 0.4) / 0.15) ** 2)))[:, None]
    tin = Image.new("RGB", (width, height + 120), "#000")
    mask = Image.new("L", tin.size, 0)
    draw = ImageDraw.Draw(mask)
    draw.rectangle((0, 60, width - 1, height + 60), fill=255)
    draw.ellipse((0, 0, width - 1, 119), fill=255)
    draw.ellipse((0, height, width - 1, height + 119), fill=255)
    depth = (60 * np.sqrt(1 - across**2)).astype(int)  # the lower edge of a cylinder seen from above
    pixels = np.asarray(tin).copy()
    for column in range(width):
        top = 60 + depth[column]
        pixels[top : top + height - 0, column] = bent[: pixels.shape[0] - top, column].clip(0, 255)
    tin = Image.fromarray(pixels)
    lid = ImageDraw.Draw(tin)
    lid.ellipse((0, 0, width - 1, 119), fill="#c9b98f", outline="#8d7d55", width=5)
    lid.ellipse((40, 14, width - 41, 105), outline="#a4946a", width=4)
    return tin, mask
