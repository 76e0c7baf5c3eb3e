from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from indexes.knowledge.knowledge_base import guess_format, hash_knowledge_base, name_of
from indexes.knowledge.reading import read_knowledge_base
from indexes.knowledge.bad_entries import SkippedEntries
from indexes.knowledge.sources import ZimImages, find_main, open_images
from retriever.types import ArticleImage, Section
from tests.fakes.images import image_bytes
from tests.fakes.models import FakeEncoder, FakeFusion, FakeSummarizer
from tests.fakes.plans import build_index
from tests.paths import contents

pytest.importorskip("libzim")

png = partial(image_bytes, size=(180, 120))
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
    assert fox.title == "Red fox" and fox.names == ("Vulpes vulpes",) and not band.names
    assert fox.sections == (
        Section("Red fox", "The red fox is a fox.", 0),
        Section("Diet", "It eats:\nmuch\nmice\nbirds", 1),
        Section("Winter", "Some berries too.\nAnd fish.", 2),
        Section("Range", "Europe.", 4),
        Section("Facts", "Kingdom: Animalia", 5),
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
    assert source.content(name) == png("red")
    assert source.load(name).getpixel((5, 5)) == (255, 0, 0)
    assert source.find("_assets_/none.png") is None and source.find("") is None
    with pytest.raises(ValueError, match=r"foxes\.zim: entry 'bare': a web page, not an image"):
        source.load("bare")
    (tmp_path / "cut.zim").write_bytes(b"ZIM")
    with pytest.raises(ValueError, match=r"cut\.zim: not a ZIM file; is it damaged"):
        open_images(None, tmp_path / "cut.zim", "zim")
    with pytest.raises(ValueError, match=r"images: .*absent is neither a folder nor a ZIM file"):
        open_images(tmp_path / "absent", zim, "zim")


def test_an_index_of_a_zim_file(zim: Path, tmp_path: Path) -> None:
    for out in ("once", "again"):
        index = build_index(
            zim, None, tmp_path / out, summarizer=FakeSummarizer(), encoder=FakeEncoder(), fusion=FakeFusion(),
        )  # fmt: skip
    assert contents(tmp_path / "once") == contents(tmp_path / "again")
    assert index.manifest.name == "foxes" and index.manifest.inputs.kb_format == "zim"
    row = index.row_of("https://en.wikipedia.org/wiki/Red_fox")
    assert row is not None and len(index.section_rows(row)) == 5 and index.image_path(row) is not None
    assert index.row_of("http://en.wikipedia.org/wiki/Vulpes%20vulpes") == row  # the name of a redirect
    assert index.row_of("Vulpes vulpes") is None
    assert index.manifest.counts.with_image == 2


def test_damaged_files(zim: Path, tmp_path: Path) -> None:
    whole = zim.read_bytes()
    for data in (b"", b"text" * 100, whole[: len(whole) // 2], whole[:-10]):
        zim.write_bytes(data)
        with pytest.raises(ValueError, match=r"foxes\.zim: not a ZIM file, damaged or cut short"):
            list(read_knowledge_base(zim))
    with pytest.raises(FileNotFoundError):
        list(read_knowledge_base(tmp_path / "absent.zim"))


LICENSE = """<div><div style="clear:both">This article is issued from
<a class="external text" href="https://en.wikipedia.org/wiki/{0}?oldid=1">Wikipedia</a>. The text is licensed under
<a class="external text" href="https://creativecommons.org/licenses/by-sa/4.0/">Creative Commons</a>.</div></div>"""
SONG = """<html><head><meta charset="UTF-8"><title>Song</title></head><body class="mw-body mediawiki">
<div id="content"><h1>Song (tune)</h1><div id="mw-content-text">
<table class="infobox vevent"><tbody>
<tr><th colspan="2">"Song"</th></tr><tr><td colspan="2"><img src="../I/m/note.png" width="20" height="20">
<img src="../I/m/cover.png" width="220" height="218"></td></tr>
<tr><th colspan="2">Single by Ray</th></tr>
<tr><th>Released</th><td>1986<sup id="cite_ref-a_1-0"><a href="#cite_note-a-1">[1]</a></sup></td></tr>
<tr><th>Label</th><td>Columbia<br>Atlantic</td></tr>
<tr><th colspan="2">Population</th></tr><tr><th>• Total</th><td>5 people</td></tr>
<tr><th>Writers</th><td><ul><li>Joel</li><li>Charles</li></ul></td></tr>
<tr><th>Coordinates</th><td><span class="geo">1; 2</span></td></tr>
<tr><td colspan="2"><table class="infobox"><tr><th colspan="2">Review</th></tr>
<tr><th colspan="2">Review scores</th></tr><tr><th>Source</th><th>Rating</th></tr></table></td></tr>
<tr><td colspan="2"><table><tr><th>Before</th><td>Other song</td></tr></table></td></tr></tbody></table>
<p><span style="display: none">5</span>A song.<sup id="cite_ref-b_2-0"><a href="#cite_note-b-2">[2]</a></sup> It is
sung [3] often.<span id="coordinates">35 N</span></p>
<h2>Charts</h2><h3>Weekly</h3><p>First.</p><h4>Europe</h4><p>Second.</p>
<table class="wikitable"><tr><td>12</td></tr></table>
<h2>See also</h2><ul><li>Other songs</li></ul><h3>Lists</h3><ul><li>More songs</li></ul>
<table class="navbox"><tr><td>Songs by Ray</td></tr></table>{license}</div></div></body></html>"""


def test_a_page_of_kiwix_loses_what_is_no_article(tmp_path: Path) -> None:
    pages: dict[str, tuple[str, str | bytes]] = {
        "index": ("", ""),
        "A/Song_(tune).html": ("Song (tune)", SONG.format(license=LICENSE.format("Song_(tune)"))),
        "I/m/cover.png": ("", png("red")),
    }
    (song,) = read_knowledge_base(write_zim(tmp_path / "songs.zim", pages))
    assert song.id == song.url == "https://en.wikipedia.org/wiki/Song_(tune)"  # the note on the license names it
    assert song.sections == (
        Section("Song (tune)", "A song. It is sung often.", 0),
        Section("Weekly", "First.", 2),
        Section("Europe", "Second.\n12", 3),
        Section(
            "Facts",
            "Single by Ray\nReleased: 1986\nLabel: Columbia, Atlantic\nPopulation, Total: 5 people\n"
            "Writers: Joel, Charles\nBefore: Other song",
            6,
        ),
    )
    assert song.image == "I/m/cover.png" and song.images == (ArticleImage("I/m/cover.png", 0, ""),)


def test_pages_that_share_a_canonical_link_are_articles_of_their_own(tmp_path: Path) -> None:
    path = write_zim(tmp_path / "twice.zim", {"index": ("", ""), "Red_fox": ("Fox", FOX), "Copy": ("Copy", FOX)})
    skipped = SkippedEntries(0)
    found = {entity.id: entity.url for entity in read_knowledge_base(path, skipped=skipped)}
    wiki = "https://en.wikipedia.org/wiki/Red_fox"
    assert found == {wiki: wiki, "Copy": wiki} and skipped.count == 0


def test_a_page_nested_too_deeply_is_skipped(tmp_path: Path) -> None:
    deep = "<div>" * 5000 + "text" + "</div>" * 5000
    pages: dict[str, tuple[str, str | bytes]] = {"index": ("", ""), "a": ("A", "<p>A</p>"), "deep": ("D", deep)}
    pages |= {f"b{number}": ("", f"<p>{number}</p>") for number in range(6)}
    skipped = SkippedEntries(0.2)
    found = read_knowledge_base(write_zim(tmp_path / "deep.zim", pages), skipped=skipped)
    assert len(list(found)) == 7
    assert skipped.listed == [{"place": "entry 'deep'", "reason": "its elements are nested too deeply"}]


def test_other_character_sets(tmp_path: Path) -> None:
    declared = '<meta charset="iso-8859-2"><p>Łódź</p>'.encode("iso-8859-2")
    latin = '<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-1"><p>“Café”</p>'.encode("cp1252")
    pages: dict[str, tuple[str, str | bytes]] = {
        "index": ("", ""),
        "a": ("A", declared),
        "b": ("B", latin),
        "c": ("C", "<p>Über</p>".encode("latin-1")),
        "d": ("D", b'<meta charset="nonsense"><p>\xe9t\xe9</p>'),
        "e": ("E", b'<meta charset="base64"><p>\xe9t\xe9</p>'),
    }
    found = read_knowledge_base(write_zim(tmp_path / "latin.zim", pages))
    assert [entity.sections[0].text for entity in found] == ["Łódź", "“Café”", "Über", "été", "été"]


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
    (entity,) = read_knowledge_base(write_zim(tmp_path / "a.zim", {"index": ("", ""), path: ("", page)}))
    assert entity.id == (id or "https://en.wikipedia.org/wiki/Catchin'_Some_Rays:_The_Music")


def site(number: int) -> str:
    return f"""<html><head><meta property="og:image" content="../photo{number}.png"></head><body>
<ul class="menu"><li><a href="a">Home</a></li><li><a href="b">All exercises</a></li></ul>
<div>Ear training for everybody</div><h1>Exercise {number}</h1><p>What number {number} is about.</p>
<img src="../badge-{number}.png"><img src="../store.png"><img src="../photo{number}.png"><p>Get it in our shop.</p>
</body></html>"""


def test_a_crawl_of_a_website(tmp_path: Path) -> None:
    pages: dict[str, tuple[str, str | bytes]] = {"index": ("", ""), "e.example/store.png": ("", png("black"))}
    for number in range(8):
        pages[f"e.example/x/{number}"] = (f"Exercise {number}", site(number))
        pages[f"e.example/photo{number}.png"] = ("", png("red"))
        pages[f"e.example/badge-{number}.png"] = ("", png("blue"))
    found = list(read_knowledge_base(write_zim(tmp_path / "crawl.zim", pages)))
    assert len(found) == 8
    assert [entity.sections[0].text for entity in found] == [
        f"What number {n} is about.\nGet it in our shop." for n in range(8)
    ]
    assert [entity.image for entity in found] == [f"e.example/photo{n}.png" for n in range(8)]
    assert all(entity.images[0].url == "e.example/store.png" and len(entity.images) == 2 for entity in found)


def test_any_extension_and_split_archives(zim: Path, tmp_path: Path) -> None:
    whole = list(read_knowledge_base(zim))
    data = zim.read_bytes()
    odd = tmp_path / "foxes.bin"
    odd.write_bytes(data)
    assert guess_format(odd) == "zim" and list(read_knowledge_base(odd)) == whole
    third = len(data) // 3
    for name, part in (("aa", data[:third]), ("ab", data[third : 2 * third]), ("ac", data[2 * third :])):
        (tmp_path / f"split.zim{name}").write_bytes(part)
    for name in ("split.zimaa", "split.zim", "split.zimac"):
        path = tmp_path / name
        assert guess_format(path) == "zim" and name_of(path) == "split"
        assert list(read_knowledge_base(path)) == whole
        source = open_images(None, path, "zim")
        assert source is not None and source.find("_assets_/mouse.png") is not None
    before = hash_knowledge_base(tmp_path / "split.zimaa", "zim")
    assert before == hash_knowledge_base(tmp_path / "split.zim", "zim")
    (tmp_path / "split.zimac").write_bytes(data[2 * third : -1] + bytes([data[-1] ^ 1]))
    assert hash_knowledge_base(tmp_path / "split.zimaa", "zim") != before


def test_meta_tags_by_name(tmp_path: Path) -> None:
    page = '<html><head><meta name="dc.title" content="Fox"></head><body><p>Red.</p></body></html>'
    path = write_zim(tmp_path / "a.zim", {"index": ("", ""), "page": ("Page", page)})
    (entity,) = read_knowledge_base(path, names={"title": "dc.title"})
    assert entity.title == "Fox" and entity.sections == (Section("Fox", "Red.", 0),)


def test_pages_without_text_are_no_articles(tmp_path: Path) -> None:
    pages: dict[str, tuple[str, str | bytes]] = {"index": ("", ""), "empty": ("", ""), "frame": ("", "<p> </p>")}
    pages["load.php"] = ("", "(function () { document.write('<p>text</p>'); })()")
    path = write_zim(tmp_path / "a.zim", pages | {"b": ("B", BARE)})
    assert [entity.id for entity in read_knowledge_base(path)] == ["b"]


def test_a_main_page_that_is_the_only_one(tmp_path: Path) -> None:
    path = write_zim(
        tmp_path / "one.zim", {"main": ("Fox - Site", "<html><body><h1>Fox</h1><p>Red.</p></body></html>")}
    )
    (fox,) = read_knowledge_base(path)
    assert (fox.title, fox.sections) == ("Fox", (Section("Fox", "Red.", 0),))
