from __future__ import annotations

import base64
import io
import struct
import zlib

import pillow_heif
import pytest
from PIL import Image

from chat_models.messages import MAX_SIDE
from retriever.images import FORMATS, encoded
from retriever.malloc import give_back_memory
from serving import images
from serving.errors import ApiError
from serving.images import decode_image, parse_base64, parse_data_uri
from serving.settings import ServingSettings
from tests.fakes.images import image_bytes

SETTINGS = ServingSettings(max_image_bytes=200_000, max_image_pixels=1_000_000)
RED = (200, 30, 40)


def fault(data: bytes, settings: ServingSettings = SETTINGS) -> tuple[int, str, str | None]:
    with pytest.raises(ApiError) as caught:
        decode_image(data, settings)
    return caught.value.status, caught.value.code, caught.value.param


def png_header(width: int, height: int) -> bytes:
    """A PNG that declares a size but contains no data."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    length, crc = struct.pack(">I", 13), struct.pack(">I", zlib.crc32(chunk))
    return (
        b"\x89PNG\r\n\x1a\n"
        + length
        + chunk
        + crc
        + struct.pack(">I", 0)
        + b"IDAT"
        + struct.pack(">I", zlib.crc32(b"IDAT"))
    )


@pytest.mark.parametrize("format", FORMATS)
def test_formats(format: str) -> None:
    pillow_heif.register_heif_opener()
    image = decode_image(
        image_bytes(RED, (64, 32), format, **({"sizes": [(64, 32)]} if format == "ICO" else {})), SETTINGS
    )
    assert (image.mode, image.size) == ("RGB", (64, 32))
    pixel = image.getpixel((10, 10))
    assert isinstance(pixel, tuple)
    assert all(abs(a - b) <= 3 for a, b in zip(pixel, RED, strict=True))


def test_nothing() -> None:
    assert fault(b"") == (422, "missing_image", "image")


@pytest.mark.parametrize(
    "data", [b"hello, this is text", b"\0" * 100, b"%PDF-1.4\n", b"<svg xmlns='http://www.w3.org/2000/svg'/>"]
)
def test_not_an_image(data: bytes) -> None:
    assert fault(data) == (415, "not_an_image", "image")


def test_bytes_limit() -> None:
    data = image_bytes(RED)
    assert fault(data, ServingSettings(max_image_bytes=len(data) - 1)) == (413, "image_too_large", "image")
    assert decode_image(data, ServingSettings(max_image_bytes=len(data))).size == (60, 40)


def test_pixel_limit_is_checked_before_decoding() -> None:
    # 1,001 x 1,000 and 9,000 x 9,000 declare more than allowed, and there is no data to decode.
    assert fault(png_header(1001, 1000)) == (413, "too_many_pixels", "image")
    assert fault(png_header(9000, 9000)) == (413, "too_many_pixels", "image")


def test_decompression_bomb() -> None:
    assert fault(png_header(60_000, 60_000)) == (413, "too_many_pixels", "image")
    assert fault(png_header(11_000, 11_000)) == (413, "too_many_pixels", "image")  # Pillow only warns about this one
    assert fault(png_header(1000, 1000))[:2] == (400, "broken_image")


def test_real_bomb_stays_small() -> None:
    data = encoded(Image.new("1", (8000, 8000)))
    assert len(data) < 100_000
    assert fault(data) == (413, "too_many_pixels", "image")


def test_too_thin() -> None:
    assert fault(image_bytes(RED, (2000, 1))) == (422, "image_too_thin", "image")


def test_large_images_are_shrunk() -> None:
    settings = ServingSettings(max_image_side=100)
    assert decode_image(image_bytes(RED, (400, 200), "JPEG"), settings).size == (100, 50)


def test_shrinking_leaves_what_chat_models_read() -> None:
    screenshot = decode_image(image_bytes(RED, (1920, 1080), "JPEG"), ServingSettings())
    photograph = decode_image(image_bytes(RED, (4032, 3024), "JPEG"), ServingSettings())
    assert (screenshot.size, photograph.size) == ((1920, 1080), (2016, 1512))
    assert ServingSettings().max_image_side >= 2 * MAX_SIDE  # at least half is left


def test_data_uri() -> None:
    assert parse_data_uri("data:image/png;base64,aGVsbG8=", SETTINGS) == b"hello"
    assert parse_data_uri("DATA:;BASE64,aGVsbG8=", SETTINGS) == b"hello"
    assert parse_data_uri("data:;base64,aGVs\r\nbG8", SETTINGS) == b"hello"


def test_base64() -> None:
    # 0xfbeff and 0xff are ++/ and /w== in the standard alphabet.
    for text in ("++/_", "--__", " +\n+\t/_\n", "-+_/"):
        assert parse_base64(text, SETTINGS) == b"\xfb\xef\xff"
    assert parse_base64("/w==", SETTINGS) == parse_base64("_w", SETTINGS) == b"\xff"


@pytest.mark.parametrize("text", ["a", "photo.jpg", "/w=", "/w=w", "ä", "image/png;base64,aGVsbG8="])
def test_malformed_base64(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_base64(text, SETTINGS)
    assert (caught.value.status, caught.value.code, caught.value.param) == (422, "bad_image_url", "image")


@pytest.mark.parametrize(
    "uri", ["data:image/png;base64", "data:image/png,hello", "data:;base64,a", "data:;base64,äöü=", "data:;base64,a!b="]
)
def test_malformed_data_uri(uri: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_data_uri(uri, SETTINGS)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "malformed_data_uri", "image")


def test_data_uri_limit_comes_before_decoding() -> None:
    settings = ServingSettings(max_image_bytes=5)
    assert parse_data_uri("data:;base64,aGVsbG8=", settings) == b"hello"
    for payload in (base64.b64encode(b"hello!").decode(), "!" * 1000):
        with pytest.raises(ApiError) as caught:
            parse_data_uri("data:;base64," + payload, settings)
        assert (caught.value.status, caught.value.code) == (413, "image_too_large")


def test_the_memory_of_large_images_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU time shows whether something large was decoded; `make test-hostile` measures memory."""
    given: list[None] = []
    monkeypatch.setattr(images, "give_back_memory", lambda: given.append(None))
    monkeypatch.setattr(images, "_LARGE_S", 3600.0)
    decode_image(image_bytes("red"), SETTINGS)
    assert len(given) == 0
    monkeypatch.setattr(images, "_LARGE_S", -1.0)
    decode_image(image_bytes("red"), SETTINGS)
    fault(image_bytes("red")[:-50])
    assert len(given) == 2


def test_giving_memory_back_works_here() -> None:
    give_back_memory()


def test_blanks_in_base64() -> None:
    data = bytes(range(256)) * 2
    text = base64.b64encode(data).decode()
    assert "+" in text
    for sent in (
        text.replace("+", " "),  # decoded as a form
        text.replace("+", " ") + "\n",
        " ".join(text[at : at + 76] for at in range(0, len(text), 76)),  # line breaks that became blanks
        base64.encodebytes(data).decode(),
        f"  {text}  ",
    ):
        assert parse_data_uri(f"data:image/png; base64 ,{sent}", SETTINGS) == data
        assert parse_base64(sent, SETTINGS) == data


def test_photographs_of_50_megapixels_pass_and_limits_name_their_setting() -> None:
    buffer = io.BytesIO()
    Image.new("L", (8192, 6144)).save(buffer, "JPEG")
    assert decode_image(buffer.getvalue(), ServingSettings()).size == (2048, 1536)
    for settings, name in (
        (ServingSettings(max_image_pixels=100), "serving.max_image_pixels"),
        (ServingSettings(max_image_bytes=100), "serving.max_image_bytes"),
    ):
        with pytest.raises(ApiError, match=name):
            decode_image(buffer.getvalue(), settings)
