from __future__ import annotations

import base64
import gzip
import struct
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from indexes import svg
from indexes.knowledge.sources import FolderImages
from indexes.svg import load_any, size_of
from omgm.downloads.images.fetch import as_jpeg
from retriever.images import ImageError, load_image

HALVES = """<svg xmlns="http://www.w3.org/2000/svg" width="80px" height="40">
<rect width="40" height="40" fill="#f00"/>{}</svg>"""


def test_a_drawing_on_white(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="needs the extra svg")
    data = HALVES.format("").encode()
    image = load_any(b"\xef\xbb\xbf<?xml version='1.0'?><!-- drawn -->" + data)
    assert (image.mode, image.size) == ("RGB", (512, 256))
    assert image.getpixel((100, 100)) == (255, 0, 0) and image.getpixel((400, 100)) == (255, 255, 255)
    (tmp_path / "a.svg").write_bytes(data)
    (tmp_path / "b.svgz").write_bytes(gzip.compress(data))
    source = FolderImages(tmp_path)
    for name in ("a.svg", "b.svgz"):
        assert source.load(name).tobytes() == image.tobytes() and size_of(tmp_path / name) == (80, 40)
    tall = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10,20"><text>x</text></svg>'
    assert load_any(tall.encode()).size == (256, 512) and size_of(tall.encode()) == (10, 20)
    wide = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="75pt" viewBox="0 0 20 10"><rect width="10" height="9"/></svg>'
    )
    assert load_any(wide.encode()).size == (512, 256)  # as graphviz writes them
    assert load_any(wide.encode()).getpixel((255, 128)) == (0, 0, 0)
    assert as_jpeg(data, 100)[:2] == b"\xff\xd8"


def test_a_drawing_shows_no_file_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("resvg_py", reason="needs the extra svg")
    Image.new("RGB", (40, 40), "blue").save(tmp_path / "secret.png")
    monkeypatch.chdir(tmp_path)
    entity = f'<!DOCTYPE svg [<!ENTITY file "{tmp_path}/secret.png">]>'
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg"><image width="9" height="9" href="{tmp_path}/secret.png"/></svg>'
    )
    inner = f'href="data:image/svg+xml;base64,{base64.b64encode(drawing.encode()).decode()}"'
    (tmp_path / "data:").mkdir()
    (tmp_path / "#").mkdir()
    for href in (
        *(f'href="{tmp_path}/secret.png"', 'href="secret.png"', 'href="&file;"', 'href="secret&#46;png"'),
        *('href="data:/../secret.png"', 'href="#/../secret.png"', inner),
    ):
        text = entity + HALVES.format(f'<image x="40" width="40" height="40" {href}/>')
        assert load_any(text.encode()).getpixel((400, 100)) == (255, 255, 255)


def test_drawings_in_utf_16() -> None:
    pytest.importorskip("resvg_py", reason="needs the extra svg")
    plain, text = HALVES.format(""), '<?xml version="1.0" encoding="UTF-16"?>\n' + HALVES.format("")
    for encoding in ("utf-16", "utf-16-be", "utf-16-le"):
        mark = {"utf-16": b"", "utf-16-be": b"\xfe\xff", "utf-16-le": b"\xff\xfe"}[encoding]
        assert load_any(mark + text.encode(encoding)).tobytes() == load_any(plain.encode()).tobytes()


def test_drawings_that_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("resvg_py", reason="needs the extra svg")
    for text, message in [
        ("<svg><rect></svg>", "a: SVG that cannot be rendered: mismatched tag"),
        ('<svg xmlns="http://www.w3.org/2000/svg" width="1000" height="1"/>', "a: 512 x 1 pixels: too thin"),
        ("<html><svg/></html>", "a: SVG that cannot be rendered: "),
        ("<svg>" * 10_000 + "</svg>" * 10_000, "a: SVG that cannot be rendered: too many levels of elements"),
        ("<html>no drawing</html>", "a: a web page, not an image"),
    ]:
        with pytest.raises(ImageError, match=message):
            load_any(text.encode(), "a")
    with pytest.raises(ImageError, match="not an image of a known format"):
        load_image(HALVES.format("").encode())  # SVG is not accepted as a query image
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(ImageError, match=r"a: SVG, which needs resvg: pip install 'omgm\[svg\]'"):
        load_any(HALVES.format("").encode(), "a")


PATTERN = '<pattern id="a{}" width="4" height="4"><rect width="4" height="4" fill="url(#a{})"/></pattern>'
MASK = '<mask id="a{}"><rect width="40" height="40" mask="url(#a{})"/></mask>'
CLIP = '<clipPath id="a{}"><rect width="40" height="40" clip-path="url(#a{})"/></clipPath>'
FILTER = (
    '<filter id="f{0}"><feImage href="#a{1}"/></filter>'
    '<g id="a{0}"><g filter="url(#f{0})"><rect width="9" height="9"/></g></g>'
)
USE = '<g id="a{}"><use href="#a{}"/></g>'
SYMBOL = '<symbol id="a{}"><use href="#a{}"/></symbol>'
GRADIENT = '<linearGradient id="a{}" href="#a{}"/>'
CRASH = "it crashes the renderer or fills its memory"


@pytest.mark.parametrize(
    ("element", "next_of", "problem"),
    [
        (USE, range(1, 301), CRASH),
        (SYMBOL, range(1, 301), CRASH),
        (PATTERN, range(1, 1001), CRASH),
        (PATTERN, (1, 2, 0), CRASH),
        (MASK, (1, 2, 0), CRASH),
        (CLIP, (1, 2, 0), CRASH),
        (FILTER, (0,), CRASH),
        (USE, (1, 2, 0), "nodes limit reached"),
        (GRADIENT, range(1, 301), None),
        (PATTERN, range(1, 61), None),
        (USE, range(1, 61), None),
    ],
)
def test_elements_that_refer_to_the_next_one(element: str, next_of: Sequence[int], problem: str | None) -> None:
    pytest.importorskip("resvg_py", reason="needs the extra svg")
    elements = "".join(element.format(number, after) for number, after in enumerate(next_of))
    uses = "".join(f'<rect width="1" height="1" {name}="url(#a0)"/>' for name in ("fill", "mask", "clip-path"))
    data = HALVES.format(f'<defs>{elements}</defs><use href="#a0"/>{uses}').encode()
    if problem is None:
        assert load_any(data).getpixel((100, 100)) == (255, 0, 0)
    else:
        with pytest.raises(ImageError, match=f"a: SVG that cannot be rendered: .*{problem}"):
            load_any(data, "a")


def test_a_drawing_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("resvg_py", reason="needs the extra svg")
    monkeypatch.setattr(svg, "_SECONDS", 0.001)
    with pytest.raises(ImageError, match=r"a: SVG that cannot be rendered: it takes longer than 0\.001 s"):
        load_any(HALVES.format("").encode(), "a")


@pytest.mark.slow
def test_a_drawing_that_needs_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("resvg_py", reason="needs the extra svg")
    monkeypatch.setattr(svg, "_CPU_SECONDS", 1)
    noise = '<filter id="f"><feTurbulence numOctaves="1000000"/></filter><rect filter="url(#f)" width="9" height="9"/>'
    with pytest.raises(ImageError, match=r"a: SVG that cannot be rendered: it takes longer than 1 s of CPU time"):
        load_any(HALVES.format(noise).encode(), "a")
    monkeypatch.setattr(svg, "_CPU_SECONDS", 10)
    black = base64.b64encode(one_bit_png(20_000)).decode()  # 1.6 GB of pixels in RGBA
    bomb = f'<image width="9" height="9" href="data:image/png;base64,{black}"/>'
    with pytest.raises(ImageError, match=f"a: SVG that cannot be rendered: {CRASH}"):
        load_any(HALVES.format(bomb).encode(), "a")


def one_bit_png(side: int) -> bytes:
    """Returns a black square with one bit per pixel."""
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes((side + 7) // 8 + 1) * side)
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ('width="3.5px" height=".5e1"', (4, 5)),
        ('width="1.2.3" height="4"', (512, 512)),
        ('width="1e999" height="4"', (512, 512)),
        ('viewBox="0 0 nan 4"', (512, 512)),
        ('viewBox="0 0 6 inf"', (512, 512)),
    ],
)
def test_declared_sizes(size: str, expected: tuple[int, int]) -> None:
    assert size_of(f'<svg xmlns="http://www.w3.org/2000/svg" {size}/>'.encode()) == expected


def test_a_pointer_of_git_lfs(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(ImageError, match="a Git LFS pointer; run git lfs pull"):
        load_any(tmp_path / "a.jpg")
