"""Which images are copies of the same picture, on files of every kind of copy."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from indexes import image_copies
from indexes.image_copies import KnownImages, are_copies, content_names
from tests.paths import SHARED


def photograph(seed: int) -> Image.Image:
    """Draws a picture with soft regions, edges and noise."""
    rng = random.Random(seed)
    image = Image.frombytes("RGB", (6, 4), rng.randbytes(72)).resize((360, 240), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    for _ in range(8):
        x, y = rng.randrange(300), rng.randrange(200)
        draw.ellipse((x, y, x + rng.randrange(20, 120), y + rng.randrange(20, 90)), fill=tuple(rng.randbytes(3)))
    noise = np.random.default_rng(seed).normal(0, 8, (240, 360, 3))
    return Image.fromarray((np.asarray(image) + noise).clip(0, 255).astype(np.uint8))


def upright(image: Image.Image, path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # what is stored is to be turned by 90 degrees clockwise
    image.transpose(Image.Transpose.ROTATE_90).save(path.with_suffix(".jpg"), exif=exif, quality=95)


COPIES: dict[str, Callable[[Image.Image, Path], None]] = {
    "the same pixels": lambda image, path: image.save(path.with_suffix(".png")),
    "saved again": lambda image, path: image.save(path.with_suffix(".jpg"), quality=50),
    "in another format": lambda image, path: image.save(path.with_suffix(".webp"), quality=60),
    "half as large": lambda image, path: image.resize((180, 120)).save(path.with_suffix(".jpg"), quality=80),
    "a thumbnail": lambda image, path: image.resize((96, 64)).save(path.with_suffix(".jpg"), quality=75),
    "twice as large": lambda image, path: image.resize((720, 480)).save(path.with_suffix(".jpg")),
    "turned by its metadata": upright,
}
OTHERS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "mirrored": ImageOps.mirror,
    "cropped": lambda image: image.crop((60, 40, 300, 200)),
    "turned": lambda image: image.rotate(12),
    "darker": lambda image: ImageEnhance.Brightness(image).enhance(0.6),
    "with a part covered": lambda image: ImageOps.expand(image.crop((0, 0, 360, 170)), (0, 0, 0, 70), "white"),
}


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    photograph(1).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_has_the_name_of_the_original(photo: Path, how: str) -> None:
    COPIES[how](Image.open(photo), photo.parent / "copy")
    [copy] = photo.parent.glob("copy.*")
    names = content_names({"a": photo, "b": copy})
    assert names["a"] == names["b"]
    assert KnownImages.of({"b": copy}).copies_in(KnownImages.of({"a": photo.read_bytes()})) == {"b"}


@pytest.mark.parametrize("how", OTHERS)
def test_another_image_has_another_name(photo: Path, how: str) -> None:
    OTHERS[how](Image.open(photo)).save(photo.parent / "other.png")
    names = content_names({"a": photo, "b": photo.parent / "other.png"})
    assert names["a"] != names["b"]


def test_names_do_not_depend_on_ids_order_or_other_images(tmp_path: Path) -> None:
    paths = []
    for seed in range(5):
        paths.append(tmp_path / f"{seed}.png")
        photograph(seed).save(paths[-1])
    names = content_names({path.name: path for path in paths})
    assert len({*names.values()}) == 5
    again = content_names({f"x{path.name}": path for path in reversed(paths[1:])})
    assert {f"x{id}": name for id, name in names.items() if id != "0.png"} == again


def test_an_image_that_cannot_be_read_goes_by_its_id(photo: Path) -> None:
    (photo.parent / "torn.png").write_bytes(photo.read_bytes()[:500])
    names = content_names({"a": photo, "torn": photo.parent / "torn.png", "gone": photo.parent / "gone", "none": None})
    assert (names["torn"], names["gone"], names["none"]) == ("torn", "gone", "none") and len(names["a"]) == 16
    assert KnownImages.of({"torn": photo.parent / "torn.png"}).ids == []


def test_each_content_is_decoded_once(photo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    decoded = list[Path | bytes]()
    read = image_copies._read

    def noted(content: Path | bytes) -> bytes:
        decoded.append(content)
        return read(content)

    monkeypatch.setattr(image_copies, "_read", noted)
    (tmp_path / "renamed.png").write_bytes(photo.read_bytes())
    cache = tmp_path / "cache" / "signatures.sqlite"
    first = KnownImages.of({"a": photo, "b": tmp_path / "renamed.png"}, cache)
    again = KnownImages.of({"c": tmp_path / "renamed.png", "d": photo.read_bytes()}, cache)
    assert len(decoded) == 1 and (first.signatures == again.signatures).all()
    cache.write_bytes(b"no database" * 99)
    assert (KnownImages.of({"a": photo}, cache).signatures == first.signatures[:1]).all() and len(decoded) == 2


def test_any_of_several_images_of_an_id_may_be_the_copy(photo: Path, tmp_path: Path) -> None:
    photograph(2).save(tmp_path / "other.png")
    photograph(1).resize((180, 120)).save(tmp_path / "half.jpg")
    front, back = photo, tmp_path / "other.png"
    index = KnownImages.of({"0": tmp_path / "half.jpg", "1": None})
    for several in ([front, back], [back, None, front]):
        asked = KnownImages.of_several({"both": several, "back": [back], "none": []})
        assert asked.copies_in(index) == {"both"}
        pairs = [("both", "0"), ("back", "0"), ("none", "0"), ("both", "1"), ("both", "2")]
        assert asked.same(index, pairs) == [("both", "0")]


def test_notes_are_read_as_they_were_written(photo: Path, tmp_path: Path) -> None:
    known = KnownImages.of({"Ä/1": photo})
    known.save(tmp_path / "images.npz")
    read = KnownImages.load(tmp_path / "images.npz")
    assert read.ids == ["Ä/1"] and (read.signatures == known.signatures).all()
    nothing = KnownImages.load(tmp_path / "none.npz")
    assert nothing.ids == [] and known.copies_in(nothing) == set() and nothing.copies_in(known) == set()
    assert nothing.names() == {}


@pytest.mark.slow
def test_the_search_finds_what_comparing_all_pairs_finds() -> None:
    rng = np.random.default_rng(0)
    smooth = rng.integers(0, 256, (700, 4, 4, 3)).repeat(4, axis=1).repeat(4, axis=2).reshape(700, -1)
    noise = rng.normal(0, rng.uniform(0, 25, (700, 1)), smooth.shape)
    ones, others = smooth.astype(np.uint8), (smooth + noise).clip(0, 255).astype(np.uint8)[::-1]
    expected = {str(row) for row in range(700) if any(are_copies(np.repeat(ones[row : row + 1], 700, 0), others))}
    ids = [str(row) for row in range(700)]
    assert 100 < len(expected) < 650
    assert KnownImages(ids, ones).copies_in(KnownImages(ids, others)) == expected


@pytest.mark.skipif(not (SHARED / "atlas" / "queries").is_dir(), reason="needs the photographs of flags")
def test_photographs_of_the_same_flag_are_no_copies() -> None:
    paths = sorted((SHARED / "atlas" / "queries").glob("*.jpg"))[:120]
    assert len({*content_names({path.name: path for path in paths}).values()}) == len(paths) == 120
