"""Archives of Kiwix, written by libzim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from indexes.image_source import find_main
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.document import Block, Document, Heading
from indexes.knowledge.readers import Entry, Folder
from indexes.knowledge.readers.zim import MAGIC, ZIM, is_zim, zim_parts
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.sources import open_images
from tests.fakes.images import image_bytes as draw
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index

pytest.importorskip("libzim")

FOX = """<html><head><title>Fox</title><link rel="canonical" href="https://en.wikipedia.org/wiki/Red_fox"></head>
<body class="mediawiki"><h1>Red fox</h1><p>It is red.</p><img src="../_assets_/fox.png" width="220"></body></html>"""
PAGES: dict[str, tuple[str, str | bytes]] = {
    "index": ("Main page", "<p>Welcome</p>"),
    "Red_fox": ("Red fox", FOX),
    "Copy": ("Copy", FOX),
    "AC/DC": ("", "<title>AC/DC</title><p>A band.</p>"),
    "deep": ("Deep", "<div>" * 6000),
    "load.php": ("", "(function () {})()"),
    "_assets_/fox.png": ("", draw("red", size=(180, 120))),
}


def write_zim(path: Path, pages: dict[str, tuple[str, str | bytes]], main: str = "index") -> Path:
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
        creator.set_mainpath(main)
        for name, (title, content) in pages.items():
            creator.add_item(Static(name, title, content))
        if "Red_fox" in pages:
            creator.add_redirection("Vulpes_vulpes", "Vulpes_vulpes", "Red_fox", {})
            creator.add_redirection("Red_fox_", "Red fox", "Red_fox", {})
    return path


def entries(path: Path) -> list[Entry]:
    return list(ZIM.read(path, Folder(path.parent, [path])))


def documents(path: Path) -> list[Document]:
    return [entry for _, entry in entries(path) if isinstance(entry, Document)]


@pytest.fixture
def zim(tmp_path: Path) -> Path:
    return write_zim(tmp_path / "foxes.zim", PAGES)


def test_pages_of_an_archive(zim: Path) -> None:
    every = {document.base: document for document in documents(zim)}
    assert list(every)[-1] == "index" and every["index"].settings["kind"] == "main page"
    fox = every["Red_fox"]
    wiki = "https://en.wikipedia.org/wiki/Red_fox"
    assert (fox.id, fox.url, fox.title, fox.names) == (wiki, wiki, "Red fox", ("Vulpes vulpes",))
    assert fox.parts[:2] == [Heading(1, "Red fox"), Block("It is red.")]
    assert (every["Copy"].id, every["Copy"].url) == ("Copy", wiki)  # it repeats another page
    assert (every["AC/DC"].id, every["AC/DC"].title) == ("AC/DC", "AC/DC")
    [(place, error)] = [(place, entry) for place, entry in entries(zim) if isinstance(entry, ValueError)]
    assert place == f"{zim}: entry 'deep'" and str(error) == f"{place}: its elements are nested too deeply"
    (main,) = documents(write_zim(zim.with_name("one.zim"), {"main": ("Fox", "<p>Red.</p>")}, "main"))
    assert main.title == "Fox" and "kind" not in main.settings


@pytest.mark.parametrize(
    ("url", "path", "id"),
    [
        # spellings of one article in question files and archives
        ("https://en.wikipedia.org/wiki/Catchin%27_Some_Rays%3A_The_Music", "Catchin'_Some_Rays:_The_Music", None),
        ("http://en.wikipedia.org/wiki/Catchin'_Some_Rays:_The_Music", "A/Catchin'_Some_Rays:_The_Music.html", None),
        ("https://en.m.wikipedia.org/wiki/Catchin'%20Some%20Rays:_The_Music", "Catchin'_Some_Rays:_The_Music", None),
        ("https://e.example/?page=3", "e.example/page", "e.example/page"),
        ("https://be.wikibooks.org/wiki/A/B_c", "A/A_B_c.html", "https://be.wikibooks.org/wiki/A/B_c"),
    ],
)
def test_ids_have_one_spelling(tmp_path: Path, url: str, path: str, id: str | None) -> None:
    page = f'<html><head><link rel="canonical" href="{url}"></head><body><p>Text.</p></body></html>'
    document, _ = documents(write_zim(tmp_path / "a.zim", {"index": ("", "<p>A"), path: ("", page)}))
    assert document.id == (id or "https://en.wikipedia.org/wiki/Catchin'_Some_Rays:_The_Music")


def test_damaged_and_split_archives(zim: Path, tmp_path: Path) -> None:
    whole, data = documents(zim), zim.read_bytes()
    assert is_zim(zim) and ZIM.recognizes(zim, MAGIC) and not ZIM.recognizes(tmp_path / "a.txt", b"text")
    third = len(data) // 3
    for name, part in (("aa", data[:third]), ("ab", data[third : 2 * third]), ("ac", data[2 * third :])):
        (tmp_path / f"split.zim{name}").write_bytes(part)
    for name in ("split.zimaa", "split.zim", "split.zimac"):
        assert documents(tmp_path / name) == whole and len(zim_parts(tmp_path / name)) == 3
    for cut in (b"", b"text" * 100, data[: len(data) // 2], data[:-10]):
        zim.write_bytes(cut)
        with pytest.raises(ValueError, match=r"foxes\.zim: not a ZIM file, damaged or cut short"):
            entries(zim)
    with pytest.raises(FileNotFoundError):
        entries(tmp_path / "absent.zim")
    assert not is_zim(tmp_path / "absent.zim")


def test_an_index_of_an_archive(tmp_path: Path) -> None:
    zim = write_zim(tmp_path / "foxes.zim", PAGES)
    source = open_images(None, zim, "zim")
    fox = next(entity for entity in read_knowledge_base(zim, skipped=SkippedEntries(1)) if entity.title == "Red fox")
    assert source is not None and find_main(source, fox) == "_assets_/fox.png"
    assert source.content("_assets_/fox.png") == draw("red", size=(180, 120))
    zim = write_zim(zim, {name: page for name, page in PAGES.items() if name != "deep"})
    index = build_index(
        zim, None, tmp_path / "out", summarizer=FakeSummarizer(), encoder=FakeEncoder(), fusion=FakeFusion()
    )
    assert index.manifest.inputs.kb_format == "zim" and index.manifest.counts.with_image == 2
    row = index.row_of("https://en.wikipedia.org/wiki/Red_fox")
    assert row is not None and index.row_of("http://en.wikipedia.org/wiki/Vulpes%20vulpes") == row  # a redirect
