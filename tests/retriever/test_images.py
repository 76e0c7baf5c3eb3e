"""Images of every format and mode: the result, or the reason why they are refused."""

from __future__ import annotations

import io
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pillow_heif
import pytest
from numpy.typing import NDArray
from PIL import Image

from retriever import images
from retriever.images import (
    FORMATS,
    GROUND,
    ImageError,
    encoded,
    is_plain,
    load_image,
    open_image,
    prepare_image,
)
from retriever.models.pixels import PixelPreparation
from search_agents.regions import original_size
from tests.fakes.ghostscript import EPS, install_trap

RED, WHITE, BLUE = (255, 0, 0), (255, 255, 255), (0, 0, 255)


@pytest.fixture(autouse=True)
def heif_writer() -> None:
    pillow_heif.register_heif_opener()


def half_red() -> Image.Image:
    """Red on the left, blue on the right."""
    image = Image.new("RGB", (64, 32), BLUE)
    image.paste(RED, (0, 0, 32, 32))
    return image


def turned() -> Image.Exif:
    """EXIF data that requests a quarter turn clockwise: left becomes top."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def near(image: Image.Image, at: tuple[int, int], color: tuple[int, int, int], by: int = 12) -> bool:
    return bool(np.abs(np.asarray(image)[at[1], at[0]].astype(int) - color).max() <= by)


def bytes_of(image: Image.Image, format: str) -> bytes:
    return encoded(image, format, **({"sizes": [image.size]} if format == "ICO" else {}))


def reason_of(source: Any, **limits: Any) -> tuple[str, str]:
    with pytest.raises(ImageError) as caught:
        load_image(source, **limits)
    return caught.value.problem, str(caught.value)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_decoded_from_bytes_path_and_stream(tmp_path: Path, format: str) -> None:
    data = bytes_of(half_red().convert("P") if format == "GIF" else half_red(), format)
    (tmp_path / "name_says.nothing").write_bytes(data)
    for source in (data, tmp_path / "name_says.nothing", str(tmp_path / "name_says.nothing"), io.BytesIO(data)):
        image = load_image(source)
        assert (image.mode, image.size) == ("RGB", (64, 32))
        assert near(image, (8, 16), RED) and near(image, (56, 16), BLUE)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF", "HEIF"])
def test_orientation_is_applied_once(format: str) -> None:
    data = encoded(half_red(), format, exif=turned().tobytes())
    for image in (load_image(data), load_image(data, max_side=40), prepare_image(prepare_image(load_image(data)))):
        assert image.height == 2 * image.width
        assert near(image, (image.width // 2, 4), RED) and near(image, (image.width // 2, image.height - 4), BLUE)


def test_orientation_of_an_image_in_memory_is_applied_once() -> None:
    with Image.open(io.BytesIO(encoded(half_red(), exif=turned()))) as opened:
        once = prepare_image(opened)
    assert once.size == (32, 64) and prepare_image(once) is once


def test_damaged_metadata_does_not_cost_the_image() -> None:
    assert load_image(encoded(half_red(), exif=b"Exif\0\0II*\0")).size == (64, 32)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA", "RGBa"])
def test_transparency_becomes_white(mode: str) -> None:
    clear = Image.new(mode, (4, 4))  # zeros: transparent black
    assert load_image(clear).getpixel((0, 0)) == prepare_image(clear).getpixel((0, 0)) == WHITE


def test_transparent_colors_become_white() -> None:
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([0, 0, 0, 255, 0, 0])
    assert load_image(encoded(palette, transparency=1)).getpixel((0, 0)) == WHITE
    assert load_image(encoded(palette, transparency=0)).getpixel((0, 0)) == RED
    plain = Image.new("RGB", (4, 4), (1, 2, 3))
    assert load_image(encoded(plain, transparency=(1, 2, 3))).getpixel((0, 0)) == WHITE


@pytest.mark.parametrize("format", ["PNG", "WEBP", "TIFF", "AVIF", "JPEG2000", "HEIF"])
def test_half_transparent_black_is_gray(format: str) -> None:
    # 128 of 255 of black over white: 255 * (1 - 128 / 255) = 127
    assert near(load_image(encoded(Image.new("RGBA", (64, 64), (0, 0, 0, 128)), format)), (32, 32), (127,) * 3, 3)


def test_models_see_a_transparent_logo_on_white() -> None:
    logo = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    logo.paste((255, 0, 0, 255), (0, 0, 32, 64))
    for crop in (False, True):
        resized = PixelPreparation(16, crop=crop).resize(logo)
        assert near(resized, (2, 8), RED) and near(resized, (13, 8), WHITE)


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (np.array([[0, 0x8000, 0xFFFF]], np.uint16), [0, 128, 255]),
        (np.array([[0, 2048, 4095]], np.uint16), [0, 128, 255]),  # of a camera with 12 bits
        (np.array([[0, 2048, 4080]], np.uint16), [0, 128, 254]),
        (np.array([[0, 100, 200]], np.uint16), [0, 100, 200]),  # 8 bits in 16
        (np.array([[0, 0x8000, 0xFFFF]], np.int32), [0, 128, 255]),
        (np.array([[-100, 0, 100]], np.int32), [0, 128, 255]),
        (np.array([[0, 50_000, 100_000]], np.int32), [0, 128, 255]),
        (np.array([[0, 0.5, 1]], np.float32), [0, 128, 255]),
        (np.array([[0.25, 0.25, 0.25]], np.float32), [64, 64, 64]),
        (np.array([[0, 127.6, 255]], np.float32), [0, 128, 255]),
        (np.array([[-1, 0, np.nan]], np.float32), [0, 255, 0]),
        (np.array([[np.nan, np.nan, np.inf]], np.float32), [0, 0, 0]),
        (np.array([[7, 7, 7]], np.int32) - 100, [0, 0, 0]),
    ],
)
def test_gray_with_more_than_eight_bits_is_scaled_by_its_range(values: NDArray[Any], levels: list[int]) -> None:
    image = Image.fromarray(values)
    more: list[Any] = [encoded(image), values] if values.dtype == np.uint16 else []
    for source in [image, encoded(image, "TIFF"), *more]:
        assert np.asarray(load_image(source))[0, :, 0].tolist() == levels


def test_a_white_logo_on_transparency_is_seen() -> None:
    logo = Image.new("RGBA", (40, 40), (255, 255, 255, 0))
    logo.paste((255, 255, 255, 255), (10, 10, 30, 30))
    for pale, ground in (((255, 255, 255), 0), ((240, 240, 220), 0), ((250, 210, 40), 255), ((20, 20, 20), 255)):
        drawn = logo.copy()
        drawn.paste((*pale, 255), (10, 10, 30, 30))
        for source in (drawn, encoded(drawn), encoded(drawn.convert("P", palette=Image.Palette.ADAPTIVE))):
            image = load_image(source)
            assert (image.getpixel((0, 0)), image.getpixel((20, 20))) == ((ground,) * 3, pale)
            assert image.info.get(GROUND, 255) == ground
    logo.paste((200, 30, 40, 255), (12, 12, 14, 30))  # a tenth of it
    assert load_image(logo).getpixel((0, 0)) == WHITE


def test_the_first_frame_that_shows_anything() -> None:
    empty, white = Image.new("RGBA", (64, 32)), Image.new("RGBA", (64, 32), "white")
    for format in ("GIF", "WEBP", "PNG", "TIFF"):
        data = encoded(empty, format, save_all=True, append_images=[white, half_red().convert("RGBA"), white])
        assert near(load_image(data), (8, 16), RED) and near(load_image(data, max_side=32), (28, 8), BLUE)
        data = encoded(white, format, save_all=True, append_images=[Image.new("RGBA", (64, 32), "red")])
        assert near(load_image(data), (8, 16), WHITE)  # none shows anything
    assert [is_plain(image) for image in (half_red(), Image.new("RGB", (3, 3), "red"))] == [False, True]


def test_a_targa_is_known_by_its_end_or_name(tmp_path: Path) -> None:
    data = encoded(half_red(), "TGA")[:-26]  # as older programs write it
    (tmp_path / "a.TGA").write_bytes(data)
    assert near(load_image(tmp_path / "a.TGA"), (8, 16), RED)
    assert reason_of(data)[0] == "unknown_format"


def test_arrays() -> None:
    red = np.zeros((2, 3, 3), np.uint8)
    red[..., 0] = 255
    assert (load_image(red).size, load_image(red).getpixel((0, 0))) == ((3, 2), RED)
    assert load_image(np.zeros((2, 3, 4), np.uint8)).getpixel((0, 0)) == WHITE
    assert load_image(np.full((2, 3, 1), 7, np.uint8)).getpixel((0, 0)) == (7, 7, 7)
    for array in (np.zeros((3, 8, 8), np.uint8), np.zeros((8, 8, 3), np.float32), np.zeros(8, np.uint8)):
        assert reason_of(array)[0] == "unknown_format"
    assert "got float32 [8, 8, 3]" in reason_of(np.zeros((8, 8, 3), np.float32))[1]
    assert reason_of(np.zeros((0, 8, 3), np.uint8))[0] == "too_thin"


def test_an_image_in_memory_is_left_as_it_was() -> None:
    image = Image.new("RGBA", (400, 200), (255, 0, 0, 255))
    assert load_image(image, max_side=100).size == (100, 50)
    assert (image.mode, image.size) == ("RGBA", (400, 200))


@pytest.mark.parametrize(("format", "exif", "size"), [("PNG", False, (640, 320)), ("JPEG", True, (320, 640))])
def test_the_size_before_shrinking_is_kept(format: str, exif: bool, size: tuple[int, int]) -> None:
    data = encoded(half_red().resize((640, 320)), format, **({"exif": turned().tobytes()} if exif else {}))
    assert original_size(load_image(data)) == load_image(data).size == size
    shrunk = load_image(data, max_side=64)
    assert original_size(shrunk) == size and 32 <= max(shrunk.size) <= 64


@pytest.mark.parametrize(
    ("format", "mode"),
    [("JPEG", "RGB"), ("JPEG", "L"), ("JPEG", "CMYK"), ("MPO", "RGB"), ("JPEG2000", "RGB"), ("WEBP", "RGBA")]
    + [("PNG", mode) for mode in ("RGB", "RGBA", "LA", "P", "1", "I;16")]
    + [("TIFF", "RGB"), ("GIF", "P"), ("BMP", "RGB")],
)
@pytest.mark.parametrize("width", [100, 101, 199, 399, 640, 801, 1700])
def test_a_shrunk_image_has_at_least_half_the_longest_side_and_the_same_content(
    format: str, mode: str, width: int
) -> None:
    image = half_red().resize((width, width // 3))
    image = image.convert("L").convert("I;16") if mode == "I;16" else image.convert(mode)
    data = encoded(image, format, **({"quality": 95} if format in ("JPEG", "WEBP") else {}))
    whole, shrunk = load_image(data), load_image(data, max_side=100)
    assert shrunk.mode == "RGB" and 50 <= shrunk.width <= 100 and abs(shrunk.width / shrunk.height - 3) < 0.4
    small, large = (np.asarray(one.resize((6, 2), Image.Resampling.BOX)).astype(int) for one in (shrunk, whole))
    assert np.abs(small - large).mean() < 4


def test_a_palette_is_shrunk_by_averaging() -> None:
    stripes = Image.new("P", (200, 200), 0)
    stripes.putpalette([0, 0, 0, 255, 255, 255])
    stripes.putdata([x % 2 for _ in range(200) for x in range(200)])
    assert near(load_image(encoded(stripes), max_side=50), (25, 25), (128,) * 3)


def test_animations_give_their_first_frame() -> None:
    frames = [Image.new("RGB", (32, 32), color) for color in ("red", "blue")]
    for format in ("GIF", "WEBP", "AVIF", "PNG", "TIFF"):
        data = encoded(frames[0], format, save_all=True, append_images=frames[1:])
        assert near(load_image(data), (16, 16), RED)


@pytest.mark.parametrize("name", ["e.eps", "e.jpg", "e"])
def test_postscript_starts_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    started = install_trap(tmp_path / "bin", monkeypatch)
    path = tmp_path / name
    path.write_bytes(EPS)
    for source in (path, EPS, io.BytesIO(EPS)):
        assert reason_of(source)[0] == "unknown_format"
    assert not started.exists()
    with Image.open(path) as opened, pytest.raises(Exception, match=r"gs|image"):
        opened.load()
    assert started.exists()  # the test would have seen it


def test_what_is_no_image(tmp_path: Path) -> None:
    for data in (
        b"hello",
        b"\0" * 100,
        b"%PDF-1.4\n",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"RIFF\0\0\0\0WAVEfmt ",
    ):
        assert reason_of(data)[0] == "unknown_format"
    assert reason_of(encoded(half_red(), "PCX"))[1] == f"not an image of a known format ({', '.join(FORMATS)})"
    assert reason_of(encoded(half_red(), "PDF"))[1] == "a PDF; export its pages as images"
    assert reason_of(b"<!DOCTYPE html><title>404")[1] == "a web page, not an image"
    (tmp_path / "text.jpg").write_text("no image")
    assert reason_of(tmp_path / "text.jpg")[1].startswith(f"{tmp_path / 'text.jpg'}: not an image")
    assert reason_of(tmp_path / "absent.jpg") == (
        "unreadable",
        f"{tmp_path / 'absent.jpg'}: cannot be read: No such file or directory",
    )
    assert "download it" in reason_of("https://e.example/a.jpg")[1]
    for source in (None, 3):
        with pytest.raises(TypeError, match="must be a path, bytes"):
            load_image(source)  # type: ignore[arg-type]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("share", [0.05, 0.6])
def test_truncated(tmp_path: Path, format: str, share: float) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))
    data = bytes_of(noise, format)[: -26 if format == "TGA" else None]  # without the mark at the end of a TGA
    (tmp_path / f"noise.{format}").write_bytes(data[: max(int(len(data) * share), 24)])
    assert reason_of(tmp_path / f"noise.{format}")[0] == "damaged"


def test_reasons_do_not_depend_on_where_the_image_is(tmp_path: Path) -> None:
    for number, data in enumerate((b"hello", encoded(half_red())[:60], encoded(half_red(), "HEIF")[:300])):
        (tmp_path / str(number)).write_bytes(data)
        reasons = []
        for source in (tmp_path / str(number), data, io.BytesIO(data)):
            with pytest.raises(ImageError) as caught:
                load_image(source, "somewhere")
            reasons.append(caught.value.reason)
            assert str(caught.value) == f"somewhere: {caught.value.reason}"
        assert len(set(reasons)) == 1 and str(tmp_path) not in reasons[0] and "0x" not in reasons[0]


def test_limits_are_checked_before_decoding() -> None:
    header = bytearray(encoded(half_red(), "BMP")[:54])
    struct.pack_into("<ii", header, 18, 3000, 2000)  # declares 3000 x 2000 pixels and has none
    data = bytes(header) + bytes(32)
    assert reason_of(data, max_pixels=5_000_000) == ("too_many_pixels", "3000 x 2000 pixels, more than 5 million")
    assert reason_of(data)[0] == "damaged"
    struct.pack_into("<ii", header, 18, 60_000, 60_000)
    assert reason_of(bytes(header) + bytes(32))[0] == "too_many_pixels"
    assert reason_of(encoded(Image.new("RGB", (2000, 10))))[0] == "too_thin"
    assert reason_of(Image.new("RGB", (2000, 10)))[0] == "too_thin"
    assert load_image(Image.new("RGB", (1000, 10))).size == (1000, 10)


def test_opening_reads_the_header_alone() -> None:
    data = encoded(Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)))
    with open_image(data[:2000]) as image:
        assert (image.format, image.size) == ("PNG", (64, 64))


def test_without_pillow_heif_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(half_red(), "HEIF")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    images._decoders.cache_clear()
    try:
        problem, message = reason_of(data)
        assert load_image(encoded(half_red(), "AVIF")).size == (64, 32)
    finally:
        images._decoders.cache_clear()
    assert problem == "unknown_format" and "pip install pillow-heif" in message
