from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from indexes.images import find_image, load_image, thumbnail


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    return path


def test_the_longest_suffix_wins(tmp_path: Path) -> None:
    url = "https://atlas.example/images/flag/fr.jpg?width=300#top"
    assert find_image(tmp_path, url) is None
    short = touch(tmp_path / "fr.jpg")
    assert find_image(tmp_path, url) == short
    middle = touch(tmp_path / "flag" / "fr.jpg")
    assert find_image(tmp_path, url) == middle
    long = touch(tmp_path / "images" / "flag" / "fr.jpg")
    assert find_image(tmp_path, url) == long


def test_percent_decoding_comes_after_the_written_name(tmp_path: Path) -> None:
    decoded = touch(tmp_path / "a" / "Côte d'Ivoire.jpg")
    url = "https://e.example/a/C%C3%B4te%20d'Ivoire.jpg"
    assert find_image(tmp_path, url) == decoded
    written = touch(tmp_path / "a" / "C%C3%B4te%20d'Ivoire.jpg")
    assert find_image(tmp_path, url) == written


def test_nothing_outside_the_folder_is_found(tmp_path: Path) -> None:
    secret = touch(tmp_path / "secret.jpg")
    folder = tmp_path / "images"
    (folder / "flag").mkdir(parents=True)
    (folder / "link.jpg").symlink_to(secret)
    for url in [
        "https://e.example/../secret.jpg",
        "https://e.example/flag/../../secret.jpg",
        "https://e.example/flag/%2e%2e/%2E%2E/secret.jpg",
        "https://e.example/..%2Fsecret.jpg",
        "https://e.example/..%5Csecret.jpg",
        f"file://{secret}",
        str(secret),
        "https://e.example/link.jpg",
        "https://e.example/flag",
        "https://e.example/",
        "https://[broken/secret.jpg",
        "https://e.example/a%00b.jpg",
        "https://e.example/" + "x" * 5000,
        "",
    ]:
        assert find_image(folder, url) is None, url


def test_a_relative_name_and_a_linked_folder(tmp_path: Path) -> None:
    touch(tmp_path / "real" / "flag" / "fr.jpg")
    (tmp_path / "images").symlink_to(tmp_path / "real")
    assert find_image(tmp_path / "images", "flag/fr.jpg") == tmp_path / "images" / "flag" / "fr.jpg"


def test_transparency_becomes_white(tmp_path: Path) -> None:
    rgba = Image.new("RGBA", (2, 1), (255, 0, 0, 255))
    rgba.putpixel((1, 0), (0, 0, 0, 0))
    rgba.save(tmp_path / "alpha.png")
    palette = Image.new("P", (2, 1))
    palette.putpalette([255, 0, 0, 0, 0, 0])
    palette.putpixel((1, 0), 1)
    palette.save(tmp_path / "palette.png", transparency=1)
    for name in ["alpha.png", "palette.png"]:
        image = load_image(tmp_path / name)
        assert image.mode == "RGB"
        assert [image.getpixel((x, 0)) for x in range(2)] == [(255, 0, 0), (255, 255, 255)]


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    image = Image.new("RGB", (2, 1), "red")
    image.putpixel((1, 0), (0, 0, 255))
    exif = Image.Exif()
    exif[0x0112] = 6  # the stored picture is to be turned a quarter clockwise: left becomes top
    image.save(tmp_path / "turned.png", exif=exif)
    turned = load_image(tmp_path / "turned.png")
    assert turned.size == (1, 2)
    assert (turned.getpixel((0, 0)), turned.getpixel((0, 1))) == ((255, 0, 0), (0, 0, 255))


def test_sixteen_bit_gray_is_scaled(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 0x8000, 0xFFFF]], dtype=np.uint16)).save(tmp_path / "gray.png")
    assert np.asarray(load_image(tmp_path / "gray.png"))[0, :, 0].tolist() == [0, 0x80, 0xFF]


def test_unreadable_pictures_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("no picture")
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:2000])
    for name in ["text.jpg", "cut.png", "absent.jpg"]:
        with pytest.raises(ValueError, match=name):
            load_image(tmp_path / name)


def test_thumbnails_are_small_and_repeatable() -> None:
    image = Image.new("RGB", (1000, 500), "green")
    image.info["comment"] = b"left out"
    assert thumbnail(image) == thumbnail(Image.new("RGB", (1000, 500), "green"))
    with Image.open(io.BytesIO(thumbnail(image))) as small:
        assert (small.format, small.size) == ("JPEG", (320, 160))
    with Image.open(io.BytesIO(thumbnail(Image.new("RGB", (3, 2))))) as tiny:
        assert tiny.size == (3, 2)
