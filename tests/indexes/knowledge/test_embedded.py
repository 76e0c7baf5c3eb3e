"""Images inside other files: named the same however they are written there, and read again by their names."""

from __future__ import annotations

import base64
import gzip
import html
import io
import json
import pickle
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from indexes.knowledge.embedded import EmbeddedImages, embedded_name, is_embedded_image
from indexes.knowledge.sources import FolderImages
from retriever.images import ImageError

KINDS = {"PNG": ".png", "JPEG": ".jpg", "GIF": ".gif", "WEBP": ".webp", "BMP": ".bmp", "TIFF": ".tif", "AVIF": ".avif"}
DRAWING = "<svg xmlns='http://www.w3.org/2000/svg' width=\"90\"><rect width='9' height='5' fill='#f00'/></svg>"


def image(seed: int, kind: str = "PNG", side: int = 24) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)
    Image.fromarray(noise).save(file := io.BytesIO(), kind)
    return file.getvalue()


def wrapped(text: str, width: int = 76, end: str = "\n") -> str:
    return end.join(textwrap.wrap(text, width))


WAYS: dict[str, Callable[[str], tuple[str, str]]] = {
    "a note": lambda code: (
        f"# Fox\n\n![x](data:image/png;base64,{code})\n\nNext words",
        f"data:image/png;base64,{code}",
    ),
    "a reference": lambda code: (f"[fox]: data:image/png;base64,{code}\n\nNext words", f"data:image/png;base64,{code}"),
    "a reference in brackets": lambda code: (f"[image1]: <data:image/png;base64,{code}>\n\nNext", code),
    "JSON": lambda code: (json.dumps([{"title": "Fox", "image": code}]), code),
    "JSON of PHP": lambda code: (json.dumps({"image": code}).replace("/", "\\/"), code),
    "JSON of .NET": lambda code: (json.dumps({"image": code}).replace("+", "\\u002B"), code),
    "lines in JSON": lambda code: (json.dumps({"a": wrapped(code)}).replace("/", "\\/"), wrapped(code)),
    "ENEX": lambda code: (f'<data encoding="base64">\n{wrapped(code)}\n</data>', f"\n{wrapped(code)}\n"),
    "indented XML": lambda code: (
        f"<data>\r\n    {wrapped(code, end=chr(13) + chr(10) + '    ')}\r\n</data>",
        wrapped(code),
    ),
    "YAML": lambda code: (f"image: |\n  {wrapped(code, 60, chr(10) + '  ')}\ntitle: Fox\n", wrapped(code, 60)),
    "a style": lambda code: (f'<p style="background:url(&quot;data:x/y;base64,{quote(code, safe="")}&quot;)">', code),
    "an attribute": lambda code: (
        f"<img src='{wrapped(f'data:image/png;base64,{code}')}'>",
        f"data:image/png;base64,{code}",
    ),
    "CSV": lambda code: (f"fox;{code};red\nhen\t{code}\tbrown\n", code),
    "base64 for URLs": lambda code: (code.replace("+", "-").replace("/", "_"), code),
}


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(sorted(KINDS)), side=st.integers(8, 40))
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_an_image_into_a_text(tmp_path: Path, way: str, seed: int, kind: str, side: int) -> None:
    data = image(seed, kind, side)
    text, read = WAYS[way](base64.b64encode(data).decode())
    (tmp_path / "notes").mkdir(exist_ok=True)
    (tmp_path / "notes" / "a#1.txt").write_text(f"Before. {text}", newline="")
    name = embedded_name("notes/a#1.txt", read)
    assert is_embedded_image(read) and name.endswith(KINDS[kind])
    assert EmbeddedImages(tmp_path).read(name) == data


@pytest.mark.parametrize(
    "written",
    [
        f'<img src="data:image/svg+xml,{quote(DRAWING)}">',
        f"![](data:image/svg+xml;utf8,{DRAWING})",
        f'<img src="data:image/svg+xml;charset=utf-8,{html.escape(DRAWING)}">',
        json.dumps(f"data:image/svg+xml;utf8,{DRAWING}").replace("/", "\\/"),
        json.dumps(f"data:image/svg+xml,{DRAWING}").replace("<", "\\u003c").replace(">", "\\u003e"),
    ],
)
def test_drawings(tmp_path: Path, written: str) -> None:
    (tmp_path / "a.html").write_text(written)
    address = f"data:image/svg+xml,{quote(DRAWING)}"
    assert is_embedded_image(address)
    assert EmbeddedImages(tmp_path).read(embedded_name("a.html", address)) == DRAWING.encode()


def test_many_images_of_many_files(tmp_path: Path) -> None:
    """Images that begin alike, in a file with base64 of other things."""
    images, other = [image(seed) for seed in range(50)], base64.b64encode(b"no image" * 99).decode()
    codes = [base64.b64encode(one).decode() for one in images]
    for file in ("a.enex", "b.json"):
        (tmp_path / file).write_text("\n".join(f"<data>{wrapped(code)}\n</data>{other}" for code in codes))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress((tmp_path / "a.enex").read_bytes()))
    source = pickle.loads(pickle.dumps(EmbeddedImages(tmp_path)))
    for file in ("a.enex", "b.json", "c.jsonl.gz"):
        assert [source.read(embedded_name(file, code)) for code in codes] == images
    (tmp_path / "a.enex").write_text(codes[3])  # found anew
    assert [source.read(embedded_name("a.enex", code)) for code in codes[2:4]] == [None, images[3]]


def test_members_of_archives(tmp_path: Path) -> None:
    data, code = image(1), base64.b64encode(image(2)).decode()
    with zipfile.ZipFile(tmp_path / "book.epub", "w") as archive:
        archive.writestr("OEBPS/img/a#1.png", data)
        archive.writestr("OEBPS/1.xhtml", f"<img src='data:image/png;base64,{code}'/>")
    with zipfile.ZipFile(tmp_path / "rows.json.zip", "w") as archive:
        archive.writestr("rows.json", json.dumps([code]))
    (tmp_path / "bad.zip").write_bytes(b"PK\x03\x04")
    images = EmbeddedImages(tmp_path)
    assert images.read("embedded:book.epub#OEBPS/img/a#1.png") == data
    for file in ("book.epub#OEBPS/1.xhtml", "rows.json.zip"):
        assert images.read(embedded_name(file, code)) == image(2)
    for name in ("book.epub#b.png", "book.epub#b.xhtml#0.png", "bad.zip#a.png", "none.zip#a.png", "book.epub", "#"):
        assert images.read(f"embedded:{name}") is None


def test_what_is_no_image() -> None:
    pixel = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"  # until a script runs
    words = base64.b64encode(b"Some words. " * 40).decode()
    for text in (
        "",
        "fox.png",
        "https://a.example/x.png",
        "A long text. " * 40,
        "x" * 500,
        "Qk" + "x" * 500,
        words,
        pixel,
    ):
        assert not is_embedded_image(text) and embedded_name("a.md", text) == ""
    for text in (f"data:text/plain;base64,{words}", "data:text/plain,hello", "data:image/svg+xml,hello", "data:,"):
        assert not is_embedded_image(text) and embedded_name("a.md", text) == ""


def test_a_folder_serves_files_and_what_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / "fox.md").write_text(f"data:image/png;base64,{base64.b64encode(image(3)).decode()}")
    (tmp_path / "kb" / "hen.png").write_bytes(image(4))
    (tmp_path / "fox.md").write_text(f"data:image/png;base64,{base64.b64encode(image(5)).decode()}")
    source = FolderImages(tmp_path / "kb")
    name = embedded_name("fox.md", base64.b64encode(image(3)).decode())
    assert (source.find(name), source.find("hen.png"), source.content(name)) == (name, "hen.png", image(3))
    assert source.load(name).size == (24, 24)
    for gone in (name.replace("fox", "elk"), name.replace("#", "#0"), "embedded:../fox.md#" + name.partition("#")[2]):
        assert source.find(gone) is None and source.why_missing(gone) == "no such image in the file"
        with pytest.raises(ImageError):
            source.load(gone)
