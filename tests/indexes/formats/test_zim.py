from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from indexes.build import build_index
from indexes.formats import read_knowledge_base
from indexes.sources import ZimImages, find_main, open_images
from retriever.types import ArticleImage, Section
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.paths import contents

pytest.importorskip("libzim")
pytest.importorskip("selectolax")

FOX = """<!DOCTYPE html><html><head><meta charset="UTF-8"><title>Red fox</title>
<link rel="canonical" href="https://en.wikipedia.org/wiki/Red_fox"><style>p {}</style></head>
<body class="mediawiki"><div id="content"><h1 id="firstHeading">Red fox</h1><div id="mw-content-text">
<div class="hatnote">For other uses, see Fox.</div>
<section data-mw-section-id="0">
<table class="infobox"><tr><td><img src="./_assets_/icon.png" width="20" height="20">
<img src="./_assets_/fox%20red.png" width="220" height="150" alt="A red fox"></td></tr>
<tr><td>Kingdom: Animalia</td></tr></table>
<p>The <b>red fox</b> is a <a href="Fox">fox</a>.<sup class="reference">[1]</sup></p>
</section>
<details data-level="2" open><summary class="section-heading"><h2 id="Diet">Diet
<span class="mw-editsection">[edit]</span></h2></summary>
<p>It eats:<br>much</p><ul><li>mice</li><li>birds</li></ul>
<figure><a href="x"><img src="../_assets_/mouse.png" width="100" height="100"></a>
<figcaption>A mouse</figcaption></figure>
<h3>Winter</h3><div>Some <i>berries</i> too.<p>And fish.</p></div>
<img class="mwe-math-fallback-image-inline" src="./_assets_/formula.svg" width="90" height="90">
<img src="https://elsewhere.example/a.png"><img src="data:image/png;base64,AA">
</details>
<div class="mw-heading mw-heading2"><h2>References</h2></div><p>List.</p><ol class="references"><li>One</li></ol>
<div class="mw-heading mw-heading2"><h2>Range</h2></div><p>Europe.</p><div class="navbox"><p>Foxes</p></div>
</div></div></body></html>"""
BARE = "<html><body>Just <b>text</b>.<p>And more.</p></body></html>"
REDIRECT = '<html><head><meta http-equiv="Refresh" content="0; url=Red_fox"></head><body><p>Moved</p></body></html>'


def png(color: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (90, 60), color).save(buffer, "PNG")
    return buffer.getvalue()


def write_zim(path: Path, pages: dict[str, tuple[str, str | bytes]]) -> Path:
    from libzim.writer import Creator, Item, StringProvider

    class Static(Item):  # type: ignore[misc, unused-ignore]
        def __init__(self, path: str, title: str, content: str | bytes) -> None:
            super().__init__()
            self.path, self.title, self.content = path, title, content

        def get_path(self) -> str:
            return self.path

        def get_title(self) -> str:
            return self.title

        def get_mimetype(self) -> str:
            return "image/png" if self.path.endswith(".png") else "text/html"

        def get_contentprovider(self) -> Any:
            return StringProvider(self.content)

        def get_hints(self) -> dict[Any, int]:
            return {}

    with Creator(path).config_indexing(False, "eng") as creator:
        creator.set_mainpath("index")
        for name, (title, content) in pages.items():
            creator.add_item(Static(name, title, content))
        creator.add_redirection("Vulpes_vulpes", "Vulpes vulpes", "Red_fox", {})
        creator.add_metadata("Title", "Foxes")
    return path


@pytest.fixture
def zim(tmp_path: Path) -> Path:
    pages: dict[str, tuple[str, str | bytes]] = {
        "index": ("Main page", "<html><body><p>Welcome</p></body></html>"),
        "Red_fox": ("Red fox", FOX),
        "AC/DC": ("AC/DC", '<html><body><p>A band.</p><img src="../_assets_/mouse.png"></body></html>'),
        "Moved": ("Moved", REDIRECT),
        "bare": ("", BARE),
        "_assets_/fox red.png": ("", png("red")),
        "_assets_/mouse.png": ("", png("black")),
    }
    return write_zim(tmp_path / "foxes.zim", pages)


def test_articles_with_sections_and_images(zim: Path) -> None:
    band, fox, bare = sorted(read_knowledge_base(zim), key=lambda entity: entity.title)
    assert fox.id == fox.url == "https://en.wikipedia.org/wiki/Red_fox"
    assert fox.title == "Red fox"
    assert fox.sections == (
        Section("Red fox", "The red fox is a fox.", 0),
        Section("Diet", "It eats: much\nmice\nbirds\nWinter\nSome berries too.\nAnd fish.", 1),
        Section("Range", "Europe.", 3),
    )
    assert fox.image == "_assets_/fox red.png"
    assert fox.images == (
        ArticleImage("_assets_/fox red.png", 0, "A red fox"),
        ArticleImage("_assets_/mouse.png", 1, "A mouse"),
    )
    assert (band.id, band.url, band.image) == ("AC/DC", "", "_assets_/mouse.png")
    assert (bare.id, bare.title) == ("bare", "bare")
    assert bare.sections == (Section("bare", "Just text.\nAnd more.", 0),)


def test_images_come_from_the_file(zim: Path, tmp_path: Path) -> None:
    source = open_images(None, zim, "zim")
    assert isinstance(source, ZimImages)
    fox = next(entity for entity in read_knowledge_base(zim) if entity.title == "Red fox")
    name = find_main(source, fox)
    assert name == "_assets_/fox red.png"
    assert source.size(name) == len(png("red"))
    assert source.load(name).getpixel((5, 5)) == (255, 0, 0)
    assert source.find("_assets_/none.png") is None and source.find("") is None
    with pytest.raises(ValueError, match=r"foxes\.zim: entry 'bare': not an image of a known format"):
        source.load("bare")
    with pytest.raises(ValueError, match=r"images: .*absent is neither a folder nor a ZIM file"):
        open_images(tmp_path / "absent", zim, "zim")


def test_an_index_of_a_zim_file(zim: Path, tmp_path: Path) -> None:
    for out in ("once", "again"):
        index = build_index(
            zim, None, tmp_path / out, summarizer=FakeSummarizer(), encoder=FakeEncoder(), fusion=FakeFusion(),
            progress=False,
        )  # fmt: skip
    assert contents(tmp_path / "once") == contents(tmp_path / "again")
    assert index.manifest.name == "foxes" and index.manifest.inputs.kb_format == "zim"
    row = index.row_of("https://en.wikipedia.org/wiki/Red_fox")
    assert row is not None and len(index.section_rows(row)) == 3 and index.image_path(row) is not None
    assert index.manifest.counts.with_image == 2


def test_damaged_files(zim: Path, tmp_path: Path) -> None:
    whole = zim.read_bytes()
    for data in (b"", b"text" * 100, whole[: len(whole) // 2], whole[:-10]):
        zim.write_bytes(data)
        with pytest.raises(ValueError, match=r"foxes\.zim: not a ZIM file, damaged or cut short"):
            list(read_knowledge_base(zim))
    with pytest.raises(FileNotFoundError):
        list(read_knowledge_base(tmp_path / "absent.zim"))


def test_a_page_of_another_encoding_and_one_twice(tmp_path: Path) -> None:
    latin = write_zim(
        tmp_path / "latin.zim", {"index": ("", ""), "Red_fox": ("Fox", "<p>Caf\xe9</p>".encode("latin-1"))}
    )
    with pytest.raises(ValueError, match=r"latin\.zim: entry 'Red_fox': byte 6: not UTF-8"):
        list(read_knowledge_base(latin))
    twice = write_zim(tmp_path / "twice.zim", {"index": ("", ""), "Red_fox": ("Fox", FOX), "Copy": ("Copy", FOX)})
    with pytest.raises(ValueError, match=r"entry 'Red_fox': field 'id': .* second time, after .*entry 'Copy'"):
        list(read_knowledge_base(twice))
